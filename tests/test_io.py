"""Files that are written, and paths that somebody has written in a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pam.io import write_text


@pytest.fixture
def mask() -> Iterator[int]:
    """Return the process's umask, which is restored after the test."""
    before = os.umask(0)
    os.umask(before)

    yield before
    os.umask(before)


@pytest.mark.parametrize("value", [0o022, 0o077, 0o002])
def test_a_file_follows_the_umask(tmp_path: Path, mask: int, value: int) -> None:
    os.umask(value)
    write_text(tmp_path / "new.txt", "x")

    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o666 & ~value
