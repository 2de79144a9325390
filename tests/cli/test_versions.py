"""`benchmarks/versions.py` lets two versions work in turns, and says which one failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training import small

ROOT = Path(__file__).resolve().parents[2]


def called(old: Path, new: Path, data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [
        str(old),
        str(new),
        "--data",
        str(data),
        "--device",
        "cpu",
        "--units",
        "8",
        "--batch-size",
        "5",
    ]
    command = [
        sys.executable,
        str(ROOT / "benchmarks/versions.py"),
        *words,
        "--precision",
        "float32",
        *more,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small.prepare(tmp_path / "nouns")


def test_a_version_beside_itself_takes_turns_at_search_after_training(data: Path) -> None:
    search = ("--beam", "2", "--trained", "3")
    done = called(ROOT, ROOT, data, "--models", "soft", "--seconds", "0.2", "--turns", "2", *search)
    assert done.returncode == 0, done.stderr

    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row["model"] == "soft"
    assert min(row["old"]["batches"], row["new"]["batches"]) > 1
    assert row["old"]["peak_mb"] > 100
    assert 0 < row["lowest"] <= row["new_over_old"] <= row["highest"]


def test_a_version_that_cannot_train_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty/pam").mkdir(parents=True)
    (tmp_path / "empty/pam/__init__.py").touch()

    done = called(tmp_path / "empty", ROOT, data, "--models", "soft")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: soft by the old version failed, as it says above"
