"""A job that outlives its run writes before the same job of the next run, or not at all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pam.experiments.jobs import LOGGED
from pam.runtime.job_lock import FOLDER, RUN, RUN_LOCK
from tests.workflow.checkouts import ROOT

JOB = "logged logs/job.log sh -c 'read text; echo \"$text\" > out'; echo ended"
WITHIN_S = 60


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return what starts a job, which waits for a line and writes it; nothing lives on."""
    (tmp_path / "logs").mkdir()

    def start(command: str = JOB, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", LOGGED.format() + command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def command_of(job: subprocess.Popen[str]) -> psutil.Process:
    """Wait until the command of a job is at work, and return it."""
    end = time.monotonic() + WITHIN_S
    while job.poll() is None and time.monotonic() < end:
        for child in psutil.Process(job.pid).children():
            if child.name() == "sh":
                return child
        time.sleep(0.01)

    job.kill()
    raise AssertionError(job.communicate())


def waits(tmp_path: Path) -> None:
    """Wait until a job says that it waits for another one."""
    end = time.monotonic() + WITHIN_S
    while "waiting" not in (tmp_path / "logs/job.log").read_text("utf-8"):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_next_run_waits_for_a_command_whose_shell_was_killed(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    orphan = start()
    command = command_of(orphan)
    orphan.kill()
    orphan.wait()
    assert command.is_running()

    following = start()
    waits(tmp_path)
    assert not (tmp_path / "out").exists()

    assert orphan.stdin is not None
    orphan.stdin.write("old\n")
    orphan.stdin.close()
    command_of(following)
    assert (tmp_path / "out").read_text("utf-8") == "old\n"

    said, _ = following.communicate("new\n", timeout=60)
    assert said == "ended\n"
    assert (tmp_path / "out").read_text("utf-8") == "new\n"
    assert "waited" in (tmp_path / "logs/job.log").read_text("utf-8")


def test_a_job_that_begins_after_the_next_run_writes_nothing(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    (tmp_path / "run.lock").write_text("process 2\n", encoding="utf-8")
    (tmp_path / "logs/job.log").write_text("of the other job\n", encoding="utf-8")
    late = start(**{RUN: "process 1", RUN_LOCK: "run.lock"})
    said, errors = late.communicate("old\n", timeout=60)

    assert said == "" and late.returncode != 0
    assert "another run" in errors and "Traceback" not in errors
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "logs/job.log").read_text("utf-8") == "of the other job\n"

    current = start(**{RUN: "process 2", RUN_LOCK: "run.lock"})
    assert current.communicate("new\n", timeout=60)[0] == "ended\n"
    assert (tmp_path / "out").read_text("utf-8") == "new\n"


def test_a_lock_lasts_for_all_that_a_job_does(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    job = start("logged logs/job.log true && sh -c 'read text' && echo ended")
    command = command_of(job)
    following = start()
    waits(tmp_path)

    command.send_signal(signal.SIGKILL)
    assert following.communicate("new\n", timeout=60)[0] == "ended\n"


def test_jobs_with_other_logs_do_not_wait(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    one = start()
    command_of(one)
    other = start("logged logs/other.log echo said; cat logs/other.log")
    assert other.communicate(timeout=60)[0] == "said\n"
    one.communicate("x\n", timeout=60)
    assert (tmp_path / FOLDER / "logs/other.log").is_file()


def test_a_failed_command_shows_the_end_of_its_log(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    job = start("logged logs/job.log sh -c 'echo what was wrong; exit 3'")
    _, errors = job.communicate(timeout=60)
    assert job.returncode != 0
    assert "what was wrong" in errors


def test_every_job_of_the_workflow_takes_its_lock() -> None:
    for file in (ROOT / "workflow/rules").glob("*.smk"):
        for rule in re.split(r"^(?=rule |use rule )", file.read_text("utf-8"), flags=re.MULTILINE):
            if "    shell:\n" in rule:
                assert "logged {log:q} " in rule, rule

            for script in re.findall(r'script:\n\s+"(.+)"', rule):
                assert "open_log(" in (file.parent / script).read_text("utf-8"), script
