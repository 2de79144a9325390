"""Trainings that cannot go on end with one message, and leave nothing half written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pam.models.checkpoint import load_model, load_tensors
from tests.training import runs, small
from tests.training.runs import COLUMNS, Command, Ended, Fault

RUN = small.run("soft", epochs=1)
TRAINED = 13
WRITES = 21
"""Files that this training writes: 4 states, 6 of the model, 2 records and the mark that they are
whole; and until the results are published too."""


def one_message(command: Command | Ended) -> tuple[str, str]:
    """Return the message and the hint of an error that a user can fix."""
    assert command.end() == 2

    lines = [line for line in command.said().splitlines() if " nouns/" not in line]
    assert "Traceback" not in command.said()
    assert len(lines) == 2 and lines[0].startswith("error: ") and lines[1].startswith("  hint: ")

    return lines[0].removeprefix("error: "), lines[1].removeprefix("  hint: ")


@pytest.mark.processor
def test_a_loss_that_is_no_number_stops_the_training_by_epoch_and_batch(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small.run("postr-joint", learning_rate=1e38, warmup_steps=0)
    message, hint = one_message(runs.train_here(run, data, tmp_path, capsys))

    assert "the loss is no longer a number (epoch 1, batch 2: loss nan" in message
    assert hint == "lower `training.learning_rate` or `training.clip`"
    assert not (tmp_path / "model").exists()


@pytest.mark.processor
@pytest.mark.parametrize(
    ("training", "where"),
    [
        ({"learning_rate": 27.0, "warmup_steps": 12, "flat": 1.0}, ("training", 2)),
        # Some hundred nats, far from where a float32 ends: which loss is no number first depends on
        # the processor.
        ({"learning_rate": 100.0}, ("training", 1)),
        ({"learning_rate": 100.0, "batch_size": 60}, ("development", 1)),
    ],
    ids=["after the first epoch", "in the first epoch", "in the last step of an epoch"],
)
def test_a_training_that_diverges_is_stopped(
    training: dict[str, Any],
    where: tuple[str, int],
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = small.run("postr-joint", **training)
    message, hint = one_message(runs.train_here(run, data, tmp_path, capsys))

    assert message.startswith(f"training diverges: {where[0]} loss ")
    assert f" in epoch {where[1]}, 3." in message and message.endswith(" in the first batch")
    assert hint == "lower `training.learning_rate`, or raise `training.divergence`"
    assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    # One write more than there are never comes, so that the list below is complete.
    assert (
        runs.train(RUN, data, out, Fault("pam.runtime.files", "_flush", WRITES + 1, "full")).end()
        == 0
    )
    return out


def assert_whole(path: Path) -> None:
    """Check that a declared output is there as a whole, or not at all."""
    if not path.exists():
        return
    if path.suffix == ".safetensors":
        load_tensors(path)
        load_model(path.parent)
    elif path.suffix == ".json":
        json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".csv":
        assert list(pd.read_csv(path)) == COLUMNS


# In `make test`: two states, a file of the model, the last record, the mark, and two that follow.
SAMPLE = (1, 2, 5, 12, 13, 14, WRITES)
REST = [number for number in range(1, WRITES + 1) if number not in SAMPLE]


@pytest.mark.parametrize(
    "number", [*SAMPLE, *(pytest.param(number, marks=pytest.mark.faults) for number in REST)]
)
def test_a_disk_that_is_full_at_any_write_costs_nothing_but_the_write(
    number: int, data: Path, whole: Path, tmp_path: Path
) -> None:
    full = Fault("pam.runtime.files", "_flush", number, "full")
    message, hint = one_message(runs.train(RUN, data, tmp_path, full))
    assert message.startswith(str(tmp_path)) and message.endswith(": the disk is full")
    assert hint == "free some space and run again"

    for name in ("model/weights.safetensors", "history.csv", "training.json"):
        assert_whole(tmp_path / name)
    assert not list(tmp_path.rglob(".*.*"))
    assert not (tmp_path / "training.json").exists()

    again = runs.train(RUN, data, tmp_path)
    assert again.end() == 0, again.said()
    assert runs.result(tmp_path) == runs.result(whole)
    assert runs.record_of(tmp_path)["resumed"] == (1 < number <= TRAINED)


ON_A_SMALL_DISK = """
import os, shutil, subprocess, sys
from pathlib import Path
from pam.cli import main

disk, copy, run, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
out = disk / "out"
out.mkdir()
shutil.copy(run, out)

def fill(name, leave):
    room = os.statvfs(disk)
    (disk / name).write_bytes(bytes(room.f_bavail * room.f_frsize - leave))

def train(title):
    print("==", title, file=sys.stderr)
    print("code", main([*arguments, "--run", str(out)]), file=sys.stderr)

fill("most", 100_000)
train("room for one state")
fill("rest", 0)
train("no room at all")
(disk / "most").unlink()
(disk / "rest").unlink()
train("room again")
shutil.copytree(out, copy)
"""


# tests/faults/test_storage.py has a full disk too.
@pytest.mark.faults
@pytest.mark.slow
def test_a_disk_that_is_really_full_is_reported_and_once_freed_the_training_resumes(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    """A small disk in memory, mounted for one process only, so that nothing stays behind."""
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ["unshare", "--map-root-user", "--mount"]
    probe = [*apart, "mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if not shutil.which("unshare") or subprocess.run(probe, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    train = runs.arguments(RUN, data, tmp_path)
    script = [
        sys.executable,
        "-c",
        ON_A_SMALL_DISK,
        str(disk),
        str(tmp_path / "copy"),
        str(tmp_path / "run.yaml"),
        *train,
    ]
    done = subprocess.run(
        [*apart, *script], cwd=small.ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr

    one_state, no_room, room_again = done.stderr.split("== ")[1:]
    full = "the disk is full\n  hint: free some space and run again\ncode 2\n"
    assert one_state.endswith(f"{disk}/out/state/state.safetensors: {full}")
    assert no_room.endswith(f"{disk}/out/events: {full}")
    assert "resuming from epoch 1, batch 2" in room_again and "code 0" in room_again
    assert runs.result(tmp_path / "copy") == runs.result(whole)
