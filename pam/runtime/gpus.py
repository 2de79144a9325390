"""GPUs of this machine, which jobs of one run or of many take and hold by locks on files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# One folder for all users of this machine: not `TMPDIR`, which may differ from job to job.
LOCKS = Path("/tmp/pam-gpu-locks")  # noqa: S108
VISIBLE = "CUDA_VISIBLE_DEVICES"
SHARING = "PAM_JOBS_PER_GPU"


def visible() -> list[str]:
    """List the UUIDs of the GPUs that this process may use, by `nvidia-smi`, without CUDA."""
    names = None  # all
    if VISIBLE in os.environ:
        names = [name.strip() for name in os.environ[VISIBLE].split(",")]
    if names in ([""], ["-1"]):
        return []

    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []

    devices = [line.split(", ") for line in listing.stdout.splitlines() if ", " in line]
    if names is None:
        return [uuid for _, uuid in devices]

    return [
        uuid
        for name in names
        for index, uuid in devices
        if name == index or (name and uuid.startswith(name))
    ]


def take_gpus(
    devices: list[str], count: int = 1, wait_s: float = 1.0, sharing: int = 1
) -> list[str]:
    """Take `count` of `devices` for the rest of this process and of what replaces it.

    While too few are free it waits, and says so once. So many jobs as `sharing` may use each of
    them at a time, if they say the same number; 1: one job.

    Jobs take GPUs one job at a time: two that have taken some of what both need would wait for each
    other, and one that needs many would be overtaken by those that need few.
    """
    with suppress(FileExistsError):
        LOCKS.mkdir()
        LOCKS.chmod(0o1777)  # whatever the umask

    leased: list[str] = []
    turn = None
    has_said = False

    while True:
        if turn is None:
            turn = _lock(LOCKS / "turn")
        if turn is not None:
            for device in devices:
                if len(leased) < count and device not in leased and _take(device, sharing):
                    leased.append(device)

            if len(leased) == count:
                os.close(turn)
                return leased

        if not has_said:
            sys.stderr.write(f"waiting for {count} of {len(devices)} GPUs, which are in use\n")
            has_said = True

        time.sleep(wait_s)


def _take(device: str, sharing: int) -> bool:
    """Take a device, or a seat on it where so many jobs share it; False if none is free."""
    kind = fcntl.LOCK_EX if sharing == 1 else fcntl.LOCK_SH
    lock = _lock(LOCKS / device, kind)
    if lock is None:
        return False

    if sharing > 1:
        seats = (_lock(LOCKS / f"{device}.{number}") for number in range(sharing))
        seat = next((seat for seat in seats if seat is not None), None)
        if seat is None:
            os.close(lock)
            return False

        os.set_inheritable(seat, True)

    os.set_inheritable(lock, True)
    return True


def _lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Lock a file if it is free; closing the returned descriptor gives the lock back."""
    try:
        # Another user's file may be locked, though not written, nor opened for making it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        os.fchmod(descriptor, 0o644)  # whatever the umask, as other users lock it too

    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None

    return descriptor
