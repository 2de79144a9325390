"""One run of an experiment at a time in a folder; a killed one holds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pam.runtime import job_lock, locks
from pam.runtime.errors import UserError

HOLD = (
    "import sys; from pathlib import Path; from pam.runtime import locks; "
    "locks.hold(sys.argv[1], Path(sys.argv[2])); print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def of_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is not a job; what it notes in its environment is forgotten after the test."""
    monkeypatch.delenv(job_lock.RUN, raising=False)
    monkeypatch.delenv(job_lock.RUN_LOCK, raising=False)


def holder(experiment: str, folder: Path) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [sys.executable, "-c", HOLD, experiment, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    assert running.stdout is not None
    assert running.stdout.readline() == "held\n"

    return running


def test_a_second_run_is_told_who_is_at_work_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    first = holder("tiny", tmp_path / "runs")
    try:
        with pytest.raises(UserError) as caught:
            locks.hold("tiny", tmp_path / "runs")
        assert "another run of `tiny` is at work in this folder" in str(caught.value)
        assert f"process {first.pid} on " in str(caught.value)
    finally:
        first.kill()
        first.communicate(timeout=30)

    locks.hold("tiny", tmp_path / "runs")


def test_another_experiment_may_run_beside_it(tmp_path: Path) -> None:
    first = holder("tiny", tmp_path)
    try:
        locks.hold("other", tmp_path)
    finally:
        first.kill()
        first.communicate(timeout=30)


def test_a_job_knows_whether_another_run_has_followed_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks.check_not_replaced()
    locks.hold("tiny", tmp_path)
    locks.check_not_replaced()
    monkeypatch.setenv(job_lock.RUN, "process 1 on a host, since some day")

    with pytest.raises(UserError, match="another run has started since"):
        locks.check_not_replaced()
