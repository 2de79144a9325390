"""Fixtures of the models' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pam.models.kernels import Products


@pytest.fixture(params=[False, True], ids=["", "padded"])
def padded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether products are given rows of zeros, as oneDNN wants them; then new memory holds NaN, so
    that no row of it may enter a sum.
    """
    monkeypatch.setattr(Products, "by_onednn", request.param)
    torch.use_deterministic_algorithms(request.param)
    yield bool(request.param)
    torch.use_deterministic_algorithms(False)
