"""`benchmarks/versions.py` works with two versions at the same time, and says which one failed."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.training import small
from tests.warm import bin_folder

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"device": "cpu", "precision": "float32", "units": 8, "batch_size": 5}


def called(old: Path, new: Path, data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Compare two versions of the smallest model."""
    command = [str(bin_folder() / "python"), str(ROOT / "benchmarks/versions.py")]
    command += [str(old), str(new), "--data", str(data), "--models", "soft"]
    for name, value in SETTINGS.items():
        command += [f"--{name.replace('_', '-')}", str(value)]

    return subprocess.run([*command, *more], capture_output=True, text=True, check=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small.prepare(tmp_path / "nouns")


def test_searches_by_a_version_beside_itself_count_about_as_many_batches(data: Path) -> None:
    done = called(ROOT, ROOT, data, "--seconds", "0.2", "--beam", "2", "--trained", "3")
    assert done.returncode == 0, done.stderr

    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row["model"] == "soft"
    for version in ("old", "new"):
        assert row[version]["steps"] > 0 and row[version]["peak_mb"] > 50
        assert row[version]["gpu_mb"] is None

    ratio = row["new"]["per_second"] / row["old"]["per_second"]
    assert row["new_over_old"] == pytest.approx(ratio, abs=1e-2)


def test_without_a_beam_the_steps_of_a_training_count(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    versions = importlib.import_module("versions")
    settings: dict[str, Any] = {"model": "soft", "data": str(data), "seconds": 0.05}
    args = argparse.Namespace(**SETTINGS, **settings, beam=0, trained=100)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.stdin", io.StringIO("0.0\n"))

    row = versions.steps(args)

    assert row["steps"] > 0 and row["per_second"] > 0 and row["peak_mb"] > 50
    assert capsys.readouterr().out == versions.READY


def test_a_version_that_cannot_train_is_named(data: Path, tmp_path: Path) -> None:
    # A version that says that it is ready, and then does nothing.
    ready = tmp_path / "ready/pam/__init__.py"
    ready.parent.mkdir(parents=True)
    ready.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n", encoding="utf-8")
    empty = tmp_path / "empty/pam/__init__.py"
    empty.parent.mkdir(parents=True)
    empty.touch()

    for old, new, name in ((empty, ready, "old"), (ready, empty, "new")):
        done = called(old.parents[1], new.parents[1], data)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == (
            f"error: soft by the {name} version failed, as it says above"
        )
