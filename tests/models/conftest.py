"""Fixtures of the models' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pam.runtime.processor import Products


@pytest.fixture(params=[False, True], ids=["", "padded"])
def padded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Run a test without and with the rows of zeros that oneDNN wants in products.

    With them, new memory holds NaN, which shows if a row of it enters a sum.
    """
    monkeypatch.setattr(Products, "by_onednn", request.param)
    torch.use_deterministic_algorithms(request.param)
    yield bool(request.param)
    torch.use_deterministic_algorithms(False)
