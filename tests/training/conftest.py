"""Prepared data for tiny trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training import small


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare a folder of real nouns; not to be changed."""
    return small.prepare(tmp_path_factory.mktemp("prepared") / "nouns")
