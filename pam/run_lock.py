"""Whether a Snakemake of this folder is alive, so that the lock of a dead one can be cleared.

Snakemake's own lock is a set of files that stay behind when it is killed. Each living Snakemake
therefore also holds a shared lock that the kernel gives back when it ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

ALIVE = Path(".snakemake/alive")
LOCKS = Path(".snakemake/locks")

_held: list[int] = []


def hold(path: Path = ALIVE) -> None:
    """Marks this process as a living run until it ends; does nothing where it may not write."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        return
    _held.append(descriptor)


def anyone_alive(path: Path = ALIVE) -> bool:
    """Whether some process holds the mark, this one included."""
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def locked(folder: Path = LOCKS) -> bool:
    """Whether Snakemake's own lock is there, of a living run or of a dead one."""
    return folder.is_dir() and any(folder.iterdir())
