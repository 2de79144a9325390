"""`benchmarks/versions.py` lets two versions work in turns, and says which one failed."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pam.runtime.processor import Products
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


def test_a_version_beside_itself_takes_turns_at_search_after_training(data: Path) -> None:
    search = ["--beam", "2", "--trained", "3"]
    done = called(ROOT, ROOT, data, "--seconds", "0.5", "--turns", "2", *search)
    assert done.returncode == 0, done.stderr

    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row["model"] == "soft"
    assert min(row["old"]["batches"], row["new"]["batches"]) > 1
    assert row["old"]["peak_mb"] > 100
    assert 0 < row["lowest"] <= row["new_over_old"] <= row["highest"]


def test_without_a_beam_the_steps_of_a_training_count(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    versions = importlib.import_module("versions")
    monkeypatch.setattr(Products, "by_onednn", Products.by_onednn)
    monkeypatch.chdir(ROOT)
    # A clock that is a second later each time that it is read: before a turn and each batch.
    seconds = itertools.count()
    clock = SimpleNamespace(time=seconds.__next__, sleep=lambda _: None)
    monkeypatch.setattr(versions, "time", clock)
    monkeypatch.setattr("sys.stdin", ["0.0 5.0", "6.0 3.0"])
    settings: dict[str, Any] = {"model": "soft", "data": str(data), "beam": 0, "trained": 100}

    versions.work_when_told(argparse.Namespace(**SETTINGS, **settings))

    ready, *answers = capsys.readouterr().out.splitlines(keepends=True)
    assert ready == versions.READY
    assert [json.loads(answer)["batches"] for answer in answers] == [4, 2]
    for answer in map(json.loads, answers):
        assert answer["per_second"] > 0 and answer["peak_mb"] > 100
        assert answer["gpu_mb"] is None


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
