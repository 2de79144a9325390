"""The lock of a job: of two processes that write the same outputs, one waits for the other.

A job lives on if its Snakemake is killed. The next run makes the same outputs again, and others
from them. If the first job wrote after that, its outputs would be newer than what was made from
them. So each job holds a lock until its command has ended, and then the next one begins. A job that
gets its lock after another run has started ends, as that run has taken its place.

`logged` of `pam.experiments.jobs` calls this module for each command; scripts of the workflow call
`open_log`. It imports nothing of the package, so that a job waits for it as short as can be.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import TextIO

FOLDER = Path(".snakemake/runs/jobs")  # a lock for each job, by the path of its log
RUN = "PAM_RUN"  # variable of the environment: what the run wrote into its lock
RUN_LOCK = "PAM_RUN_LOCK"  # the path of that lock
REPLACED = "this job belongs to a run that has ended; another run has started since"
WAITED = "waited for a job of another run to end, which has the same outputs"


def is_replaced() -> bool:
    """Return whether another run has followed the one of which this process is a job."""
    run = os.environ.get(RUN)
    path = os.environ.get(RUN_LOCK)
    if run is None or path is None or not os.path.isfile(path):
        return False
    return Path(path).read_text(encoding="utf-8").strip() != run


def wait(descriptor: int, log: Path) -> None:
    """Lock an open file, of which copies hold the lock too, and empty the log.

    The log says if another process had the lock. A SystemExit says that this job is not needed, or
    why there is no lock.
    """
    try:
        waited = _lock(descriptor, log)
        # The log is another job's now, too.
        if is_replaced():
            sys.exit(f"error: {REPLACED}")
        log.write_text(f"{WAITED}\n" if waited else "", encoding="utf-8")
    except OSError as error:
        sys.exit(f"error: {log}: {error.strerror}")


def _lock(descriptor: int, log: Path) -> bool:
    """Lock an open file; return whether another process had the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(log, "a", encoding="utf-8") as file:
            file.write("waiting for a job of another run, which has the same outputs\n")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True

    return False


def open_log(log: str) -> TextIO:
    """Take the lock of the job that has this log, until this process ends; return the open log."""
    path = FOLDER / log.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Never closed, as that would give the lock back.
    wait(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), Path(log))
    return open(log, "a", encoding="utf-8")


if __name__ == "__main__":
    wait(int(sys.argv[1]), Path(sys.argv[2]))
