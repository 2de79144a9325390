"""What is said of the jobs of a run while they work."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from pam import progress
from pam.progress import JobProgress


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def say(handler: JobProgress, event: LogEvent, **fields: Any) -> None:
    handler.handle(logging.makeLogRecord({"event": event, **fields}))


def begin(handler: JobProgress, number: int, rule: str, message: str | None) -> None:
    given = {"jobid": number, "rule_name": rule, "rule_msg": message, "output": [f"out{number}"]}
    say(handler, LogEvent.JOB_INFO, **given)


def test_each_job_is_a_line_with_jobs_and_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    handler = JobProgress(["train_run"] * 4 + ["make_table"] * 2, bar=False)
    begin(handler, 1, "make_table", None)
    clock.now = 2.0
    say(handler, LogEvent.JOB_FINISHED, job_id=1)
    assert capsys.readouterr().err == "1 of 6 jobs: make table: out1 (2 s)\n"  # no training has ended: no guess
    begin(handler, 2, "train_run", "Training a")
    begin(handler, 3, "train_run", "Training b")
    clock.now = 102.0
    say(handler, LogEvent.JOB_FINISHED, job_id=2)
    clock.now = 102.5
    say(handler, LogEvent.JOB_FINISHED, job_id=3)
    # Two trainings of 100 s at once have taken 200 of 102.5 s; two more and a table of 2 s are left.
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "3 of 6 jobs: Training b (100 s), about 01:42 to go"


def test_other_records_are_nothing_to_it(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    handler = JobProgress(["train_run"], bar=False)
    handler.handle(logging.makeLogRecord({"msg": "Building DAG of jobs..."}))
    say(handler, LogEvent.JOB_FINISHED, job_id=9)
    assert capsys.readouterr().err == ""
