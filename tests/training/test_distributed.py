"""A training by several processes is the training that one process would have done."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from pam.experiments.run_config import RunConfig
from pam.models.checkpoint import load_tensors
from pam.training.checkpoint import CURRENT
from pam.training.distributed import step_seed
from tests.training import groups, runs, small
from tests.training.runs import Command
from tests.training.trainers import without_dropout

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    # Batches of 29, 29 and 2 rows: a process may have none of a batch.
    "a batch smaller than the group": {"batch_size": 29, "select": "loss"},
    "parts, means and an early end": {
        "accumulate": 3,
        "average": 2,
        "max_steps": 11,
        "patience": 1,
        "learning_rate": 0.05,
    },
    "gradients by sentences, and a rate that halves": {
        "normalize": "sentences",
        "optimizer": "sgd",
        "batch_size": 29,
        "accumulate": 2,
        "clip": 1.0,
        "schedule": "plateau",
        "learning_rate": 2.0,
        "warmup_steps": 0,
        "divergence": 1000.0,
        "epochs": 6,
    },
}

FAULTS = pytest.mark.faults


def close(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], **tolerance: float
) -> None:
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        torch.testing.assert_close(value, expected[name], **tolerance)


def cases() -> list[Any]:
    """List models, options and numbers of processes; `make test` tries each of them once."""
    tried = [
        ("mono-postr-joint", "parts, means and an early end", 2),
        ("mono-postr-joint", "gradients by sentences, and a rate that halves", 3),
        ("none", "plain", 2),  # with weights that it does not use
        ("hard-mono", "a batch smaller than the group", 3),
    ]
    pairs = [("mono-postr-joint", options) for options in OPTIONS]
    pairs += [("none", "plain"), ("variational", "plain")]
    pairs += [("hard-mono", "a batch smaller than the group")]
    others = [(*pair, processes) for pair in pairs for processes in (2, 3)]

    return [*tried, *(pytest.param(*case, marks=FAULTS) for case in others if case not in tried)]


@pytest.mark.parametrize(("model", "options", "processes"), cases())
def test_two_and_three_processes_train_as_one_does(
    model: str, options: str, processes: int, data: Path, tmp_path: Path
) -> None:
    run = without_dropout(small.run(model, **OPTIONS[options]))

    alone = groups.train(run, data, tmp_path / "1", 1)
    group = groups.train(run, data, tmp_path / str(processes), processes)

    close(group.weights, alone.weights, rtol=1e-9, atol=1e-11)
    pd.testing.assert_frame_equal(
        pd.DataFrame(group.history), pd.DataFrame(alone.history), rtol=1e-9
    )
    for weights in group.last[1:]:
        close(weights, group.last[0], rtol=0, atol=0)


def test_with_dropout_a_group_gives_the_same_result_each_time(data: Path, tmp_path: Path) -> None:
    run = small.run("postr-joint", epochs=2)
    alone = groups.train(run, data, tmp_path / "one", 1)
    group = groups.train(run, data, tmp_path / "two", 2)
    again = groups.train(run, data, tmp_path / "again", 2)

    close(group.weights, again.weights, rtol=0, atol=0)
    assert group.history == again.history
    # Each process drops other units, so that the result is as good and not the same.
    assert group.history != alone.history
    assert group.history[-1]["dev_loss"] == pytest.approx(alone.history[-1]["dev_loss"], rel=0.1)


def test_what_is_drawn_differs_from_step_to_step_and_process_to_process() -> None:
    arguments = [(seed, step, rank) for seed in (1, 2) for step in range(50) for rank in range(4)]
    assert len({step_seed(*values) for values in arguments}) == len(arguments)


RUN = without_dropout(small.run("postr-joint"))
LONG = without_dropout(
    small.run("postr-joint", epochs=20, learning_rate=0.002, state_every_s=60.0, select="loss")
)


def children(command: Command) -> list[int]:
    pid = command.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def trained_for_a_while(
    run: RunConfig, data: Path, out: Path, is_real: bool = False
) -> tuple[Command, list[int]]:
    """Start a training by two processes; return it once it has saved a state, and its processes."""
    command = runs.train(run, data, out, processes=2, is_real=is_real)
    command.says("epoch 2 of 20")
    return command, children(command)


def gone(pid: int) -> bool:
    """Check whether a process has ended, though nobody may have asked how."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_the_command_runs_several_processes_whose_results_are_those_of_one(
    data: Path, tmp_path: Path
) -> None:
    alone = runs.train(RUN, data, tmp_path / "1", processes=1)
    group = runs.train(RUN, data, tmp_path / "2", processes=2)
    assert (alone.end(), group.end()) == (0, 0), group.said()
    close(
        *(load_tensors(tmp_path / size / "model" / "weights.safetensors")[0] for size in "12"),
        rtol=1e-3,
        atol=1e-4,
    )

    lines = [line for line in group.said().splitlines() if " epoch " in line]
    assert len(lines) == 3 and group.said().count("\n") == 1 + 3, group.said()

    record = runs.record_of(tmp_path / "2")
    assert record["processes"] == 2 and record["command"].endswith(" --processes 2")
    assert len(list((tmp_path / "2" / "events").iterdir())) == 1


def test_a_group_that_is_stopped_saves_its_state_and_one_process_goes_on(
    data: Path, tmp_path: Path
) -> None:
    command, workers = trained_for_a_while(LONG, data, tmp_path / "group")
    command.signal(signal.SIGTERM)
    assert command.end() == 128 + signal.SIGTERM, command.said()
    assert all(gone(worker) for worker in workers)
    assert command.said().count("the state is saved") == 1 and "Traceback" not in command.said()

    again = runs.train(LONG, data, tmp_path / "group")
    alone = runs.train(LONG, data, tmp_path / "alone")
    assert (again.end(), alone.end()) == (0, 0)
    assert "resuming from epoch" in again.said()

    losses = [
        pd.read_csv(tmp_path / name / "history.csv")["dev_loss"] for name in ("group", "alone")
    ]

    pd.testing.assert_series_equal(*losses, rtol=1e-3)


@pytest.mark.faults
def test_a_process_that_is_killed_ends_the_group_with_one_message(
    data: Path, tmp_path: Path
) -> None:
    command, workers = trained_for_a_while(LONG, data, tmp_path, is_real=True)
    os.kill(workers[1], signal.SIGKILL)
    assert command.end() == 2, command.said()
    assert all(gone(worker) for worker in workers)

    (message, hint) = [line for line in command.said().splitlines() if " nouns/" not in line]
    assert message == "error: process 2 of 2 of this training was killed (SIGKILL)"
    assert hint.startswith("  hint: run it again: it resumes from its last state")
    assert (tmp_path / "state" / CURRENT).exists()


@pytest.mark.faults
def test_a_group_whose_launcher_is_killed_saves_its_state_and_ends(
    data: Path, tmp_path: Path
) -> None:
    command, workers = trained_for_a_while(LONG, data, tmp_path, is_real=True)
    command.signal(signal.SIGKILL)
    command.says("the state is saved")
    again = runs.train(LONG, data, tmp_path, log="again")

    assert again.end() == 0, again.said()
    assert all(gone(worker) for worker in workers)
    assert "resuming from epoch" in again.said()


@pytest.mark.faults
def test_an_error_of_all_processes_is_reported_once(data: Path, tmp_path: Path) -> None:
    run = small.run("postr-joint", learning_rate=1e38, warmup_steps=0)
    command = runs.train(run, data, tmp_path, processes=2)
    assert command.end() == 2

    # Before it, on some processors, one line of the log says how large products are computed.
    *log, message, hint = command.said().splitlines()
    assert not [line for line in log if "precision: " not in line]
    assert len(log) <= 1
    assert message.startswith("error: the loss is no longer a number (epoch 1, batch 2: loss nan")
    assert hint == "  hint: lower `training.learning_rate` or `training.clip`"
