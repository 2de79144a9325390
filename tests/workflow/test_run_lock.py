"""Whether somebody is at work: a mark that the kernel takes back when a process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from pam import run_lock

HOLD = (
    "import sys; from pathlib import Path; from pam import run_lock; "
    "run_lock.hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def holder(mark: Path) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(mark)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "held\n"
    return running


def test_nobody_is_alive_where_nobody_was(tmp_path: Path) -> None:
    assert not run_lock.anyone_alive(tmp_path / "alive")
    assert not run_lock.locked(tmp_path / "locks")


def test_several_are_alive_until_the_last_one_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "run" / "alive"
    first, second = holder(mark), holder(mark)
    assert run_lock.anyone_alive(mark)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=30)
    assert run_lock.anyone_alive(mark)
    second.send_signal(signal.SIGKILL)
    second.communicate(timeout=30)
    assert not run_lock.anyone_alive(mark)


def test_a_lock_of_snakemake_is_a_file_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "0.input.lock").touch()
    assert run_lock.locked(tmp_path)
