"""Locks: one process at a time works in a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pam.io import UserError, storage_error

# Locks that the kernel takes back when their process ends, however it ends.
#
# They hold between hosts that share a file system, if the file system says so: NFS does, some others
# need an option when they are mounted.

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)

POLL_S = 0.5
"""Seconds between two looks at a lock that another process has: none is told of its end."""


def take(path: Path) -> int | None:
    """Takes a lock if it is free, and notes in its file who has it.

    Not by `filelock`, which makes do with a mere file where there are no locks, and that would stay
    behind when its process is killed.

    Returns:
        A descriptor, whose end is the lock's; None if another process has the lock.

    Raises:
        UserError: the folder may not be written to, or its file system has no locks.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise storage_error(error, path) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sign(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        if error.errno in NO_LOCKS:
            raise UserError(
                f"this file system has no locks ({error.strerror})",
                file=path,
                hint="work in a folder on another one; some network file systems need an option "
                "when they are mounted",
            ) from error
        raise storage_error(error, path) from error
    return descriptor


def _sign(descriptor: int) -> None:
    """Notes who has the lock, for messages."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {platform.node()}, since {since}\n".encode())


def holder(path: Path) -> str:
    """Who has a lock, in words."""
    return path.read_text(encoding="utf-8").strip() or "just taken"


@contextmanager
def waited_for(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock, after waiting for it if another process has it, which is said once.

    Raises:
        UserError: as `take`.
    """
    descriptor = take(path)
    if descriptor is None:
        say(f"{path.parent}: another process is at work here ({holder(path)}); waiting for it")
    while descriptor is None:
        time.sleep(POLL_S)
        descriptor = take(path)
    try:
        yield
    finally:
        os.close(descriptor)


# One run of an experiment at a time in a folder, by a lock that no killed run leaves behind.
#
# Snakemake's own lock is a set of files. They stay when it is killed, and the first of several runs
# to end removes those of all. So `profiles/default` turns it off, and each run holds this one.
#
# The jobs of a run that is killed may live on, or still wait in the queue of a cluster. Each has the
# name of its run in its environment, so that one that starts too late can tell.

FOLDER = Path(".snakemake/runs")
RUN = "PAM_RUN"


def hold(experiment: str, folder: Path = FOLDER) -> None:
    """Marks this process as the run of an experiment in this folder, until it ends.

    Raises:
        UserError: another process is running it, or the folder may not be written to.
    """
    path = _lock_of(experiment, folder)
    # The descriptor is never closed: the process's end closes it.
    if take(path) is None:
        raise UserError(
            f"another run of `{experiment}` is at work in this folder ({holder(path)})",
            hint="wait for it to end, or end it; nothing was changed by this call",
        )
    os.environ[RUN] = holder(path)


def replaced(experiment: str, folder: Path = FOLDER) -> bool:
    """Whether this process is a job of a run that is over and that another one has followed."""
    path, own = _lock_of(experiment, folder), os.environ.get(RUN)
    return own is not None and path.is_file() and holder(path) != own


def _lock_of(experiment: str, folder: Path) -> Path:
    return folder / f"{experiment}.lock"
