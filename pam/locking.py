"""Locks: one process at a time works in a folder, and one run of an experiment at a time."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path

from filelock import FileLock, Timeout

from pam.io import UserError, storage_error

# `filelock` takes and gives back locks of the kernel, which end with their process, however it
# ends. They hold between hosts that share a file system, if the file system says so: NFS does, some
# others need an option when they are mounted. Where there are none, `filelock` would make do with
# a mere file, which stays behind when its process is killed: that is refused. Ours are the words:
# who holds a lock is written into its file.

NO_LOCKS = (ENOSYS, ENOLCK, EOPNOTSUPP)

POLL_S = 0.5
"""Seconds between two looks at a lock that another process has: nobody reports its end."""


def take(path: Path) -> FileLock | None:
    """Takes a lock if it is free, and notes in its file who has it.

    Returns:
        the lock, held until `release` is called on it; None if another process has it.

    Raises:
        UserError: the folder may not be written to, or its file system has no locks.
    """
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        note = f"process {os.getpid()} on {platform.node()}, since {since}\n"
        path.write_text(note, encoding="utf-8")
    except Timeout:
        return None
    except OSError as error:
        lock.release()
        if error.errno in NO_LOCKS:
            raise UserError(
                f"this file system has no locks ({error.strerror})",
                file=path,
                hint="work in a folder on another one; some network file systems need an option when they are mounted",
            ) from error
        raise storage_error(error, path) from error
    return lock


def holder(path: Path) -> str:
    """Who has a lock, in words."""
    return path.read_text(encoding="utf-8").strip() or "just taken"


@contextmanager
def waited_for(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock, after waiting for it if another process has it, which is said once.

    Raises:
        UserError: as `take`.
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
# profile turns it off, and each run holds this one.
#
# The jobs of a run that is killed may live on, or still wait in the queue of a cluster. Each has
# the name of its run in its environment, so that one that starts too late can tell.

FOLDER = Path(".snakemake/runs")
RUN = "PAM_RUN"
_held: list[FileLock] = []
"""Locks of this process's runs, which its end gives back."""


def hold(experiment: str, folder: Path = FOLDER) -> None:
    """Marks this process as the run of an experiment in this folder, until it ends.

    Raises:
        UserError: another process is running it, or the folder may not be written to.
    """
    path = _lock_of(experiment, folder)
    lock = take(path)
    if lock is None:
        raise UserError(
            f"another run of `{experiment}` is at work in this folder ({holder(path)})",
            hint="wait for it to end, or end it; nothing was changed by this call",
        )
    _held.append(lock)
    os.environ[RUN] = holder(path)


def check_not_replaced(experiment: str, folder: Path = FOLDER) -> None:
    """Checks that this process is not a job of a run that is over and that another has followed.

    Raises:
        UserError: it is one.
    """
    path, own = _lock_of(experiment, folder), os.environ.get(RUN)
    if own is not None and path.is_file() and holder(path) != own:
        raise UserError("this job is of a run that is over, and another run has followed it")


def _lock_of(experiment: str, folder: Path) -> Path:
    return folder / f"{experiment}.lock"
