"""Locks on files, by which one process at a time works in a folder and runs an experiment.

`filelock` takes and gives back locks of the kernel. They end with their process, however it ends,
and hold between hosts that share a file system, if the file system says so: NFS does, some others
need an option when they are mounted. Where there are none, `filelock` would make do with a mere
file, which stays behind when its process is killed: that is refused here. Each lock's file names
the process that holds it.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path

from filelock import FileLock, Timeout

from pam.runtime.errors import UserError, storage_error
from pam.runtime.job_lock import REPLACED, RUN, RUN_LOCK, is_replaced

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

NO_LOCKS = (ENOSYS, ENOLCK, EOPNOTSUPP)
POLL_S = 0.5  # seconds between two looks at a lock that another process has: nobody reports its end


def take(path: Path) -> FileLock | None:
    """Take a lock until its `release`; None if another process has it.

    A UserError says that the file system has no locks, or that the file cannot be written.
    """
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        path.write_text(
            f"process {os.getpid()} on {platform.node()}, since {since}\n", encoding="utf-8"
        )
    except Timeout:
        return None
    except OSError as error:
        lock.release()
        if error.errno in NO_LOCKS:
            hint = (
                "work in a folder on another one; some network file systems need an option when"
                " they are mounted"
            )
            raise UserError(
                f"this file system has no locks ({error.strerror})", file=path, hint=hint
            ) from error

        raise storage_error(error, path) from error

    return lock


def holder(path: Path) -> str:
    """Return in words which process has a lock."""
    return path.read_text(encoding="utf-8").strip() or "just taken"


@contextmanager
def waited_for(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock, after waiting for it if another process has it, which is said once.

    A UserError as of `take`.
    """
    lock = take(path)
    if lock is None:
        say(f"{path.parent}: another process is at work here ({holder(path)}); waiting for it")

    while lock is None:
        time.sleep(POLL_S)
        lock = take(path)

    try:
        yield
    finally:
        lock.release()


# One run of an experiment at a time in a folder. Snakemake's own lock is a set of files. They stay
# when it is killed, and the first of several runs to end removes those of all. So the default
# profile turns it off, and each run holds this one. The jobs of a run that is killed may live on,
# or still wait in the queue of a cluster. Each has the name of its run in its environment, so that
# a job that starts too late can tell.

FOLDER = Path(".snakemake/runs")
_held: list[FileLock] = []  # of this process's runs; its end gives them back


def hold(experiment: str, folder: Path = FOLDER) -> None:
    """Mark this process as the run of an experiment in this folder, until it ends.

    A UserError says that another process is one.
    """
    path = folder / f"{experiment}.lock"
    lock = take(path)
    if lock is None:
        hint = "wait for it to end, or end it; nothing was changed by this call"
        raise UserError(
            f"another run of `{experiment}` is at work in this folder ({holder(path)})", hint=hint
        )

    _held.append(lock)
    os.environ[RUN] = holder(path)
    os.environ[RUN_LOCK] = str(path)


def check_not_replaced() -> None:
    """Check that no other run has followed the run of which this process is a job.

    A UserError says that the job's run is over and another one holds the lock.
    """
    if is_replaced():
        raise UserError(REPLACED)
