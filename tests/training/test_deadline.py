"""A training in a Slurm job knows when its time is up; elsewhere it never is."""

from __future__ import annotations

import logging
import math
import os
import time
from pathlib import Path

import pytest

from pam.training import preemption
from pam.training.preemption import Deadline, seconds


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of commands, which are found first."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return tmp_path


def command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("0:00", 0),
        ("59:58", 3598),
        ("1:00:00", 3600),
        ("2-03:04:05", 183845),
        ("UNLIMITED", math.inf),
        ("NOT_SET", math.inf),
        ("", math.inf),
    ],
)
def test_the_time_left_is_read_as_squeue_writes_it(left: str, expected: float) -> None:
    assert seconds(left) == expected


def test_without_a_scheduler_there_is_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert Deadline.of_job() == Deadline()
    assert not Deadline().near


@pytest.mark.parametrize(("left", "reserve"), [("10:00:00", 120), ("1:00", 30)])
def test_there_is_time_for_a_last_state_in_long_jobs_and_in_short_ones(
    commands: Path, left: str, reserve: float
) -> None:
    # It answers only if it is asked for this job.
    command(commands / "squeue", f'test "$3" = 7 && echo {left}')
    deadline = Deadline.of_job()
    assert deadline.job == "7"
    assert deadline.at - time.monotonic() == pytest.approx(seconds(left) - reserve, abs=10)
    assert not deadline.near


def test_a_scheduler_that_does_not_answer_sets_no_deadline(
    commands: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command(commands / "squeue", "echo 'no such controller' >&2; exit 1")
    assert Deadline.of_job() == Deadline()
    assert "the time limit of job 7 is unknown: no such controller" in caplog.text


def test_a_job_goes_back_to_the_queue(
    commands: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preemption, "REQUEUE_WAIT_S", 0)
    command(commands / "scontrol", f'echo "$@" >{commands}/asked')
    with caplog.at_level(logging.INFO):
        Deadline("7", time.monotonic()).requeue()

    assert (commands / "asked").read_text(encoding="utf-8") == "requeue 7\n"
    assert "job 7 goes back to the queue" in caplog.text


def test_the_reason_is_logged_where_slurm_refuses(
    commands: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command(commands / "scontrol", "echo 'Requested operation is disabled' >&2; exit 1")
    start = time.monotonic()
    Deadline("7", start).requeue()

    assert time.monotonic() - start < 30
    assert "job 7 cannot go back to the queue: Requested operation is disabled" in caplog.text
