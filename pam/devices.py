"""One GPU for each job: `python -m pam.devices cuda COMMAND ...` runs a command on its own GPU.

Several jobs on one machine, of one run or of many, each take a free GPU and hold it by a lock on a
file. The command replaces this process and inherits the lock, so the kernel frees the GPU when the
command ends, however it ends. Where a scheduler has given this job its GPUs already, only those are
looked at; where there is no GPU, and after `cpu` in place of `cuda`, the command runs as it is.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

LOCKS = Path("/tmp/pam-gpu-locks")  # noqa: S108 -- one place for all users of this machine
"""Not `TMPDIR`, which may differ from job to job."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible() -> list[str]:
    """Identifiers of the GPUs that this process may use, without loading CUDA.

    Returns:
        their UUIDs, as `nvidia-smi` names them and as `CUDA_VISIBLE_DEVICES` takes them; empty
        where there is none.
    """
    allowed = os.environ.get(VISIBLE)
    wanted = None if allowed is None else [name.strip() for name in allowed.split(",")]
    if wanted in ([""], ["-1"]):
        return []
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    devices = [line.split(", ") for line in listed.stdout.splitlines() if ", " in line]
    if wanted is None:
        return [uuid for _, uuid in devices]
    return [
        uuid
        for name in wanted
        for index, uuid in devices
        if name == index or (name and uuid.startswith(name))
    ]


def take(devices: list[str], wait_s: float = 1.0) -> str:
    """Takes the first free of `devices` for the rest of this process and of what replaces it.

    Waits while all are taken, and says so once.
    """
    if not LOCKS.is_dir():
        LOCKS.mkdir(exist_ok=True)
        LOCKS.chmod(0o1777)
    told = False
    while True:
        for device in devices:
            if _locked(LOCKS / device):
                return device
        if not told:
            sys.stderr.write(f"waiting for one of {len(devices)} GPUs, all in use\n")
            told = True
        time.sleep(wait_s)


def _locked(path: Path) -> bool:
    """Takes the lock of a file if it is free; the descriptor stays open on purpose."""
    try:
        # Another user's file may be locked, though not written, nor opened for making it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    os.set_inheritable(descriptor, True)
    return True


def main(device: str, command: list[str]) -> None:
    """Replaces this process by `command`, with a GPU of its own if `device` is not `cpu`."""
    devices = visible() if device != "cpu" else []
    if devices:
        os.environ[VISIBLE] = take(devices)
    os.execvp(command[0], command)  # noqa: S606 -- a list of arguments, no shell


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("auto", "cpu", "cuda"):
        sys.exit("usage: python -m pam.devices auto|cpu|cuda COMMAND ...")
    main(sys.argv[1], sys.argv[2:])
