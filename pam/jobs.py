"""What jobs on one machine share: folders, GPUs, environment, a scheduler that leaves them the
processor.

One process at a time works in a folder, and one run of an experiment at a time, by locks on files.

`python -m pam.jobs cuda COMMAND ...` runs a command on a GPU of its own. Several jobs on one
machine, of one run or of many, each take as many free GPUs as they want and hold them by locks too.
The command is this process, which has the locks, so the kernel frees the GPUs when the command
ends, however it ends. Where a scheduler has given this job its GPUs already, only those are looked
at; where there is no GPU the command runs as it is, and after `cpu` in place of `cuda`, or if it
wants none, it sees none.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pam.io import UserError, storage_error

# `filelock` takes and gives back locks of the kernel, which end with their process, however it
# ends. They hold between hosts that share a file system, if the file system says so: NFS does, some
# others need an option when they are mounted. Where there are none, `filelock` would make do with a
# mere file, which stays behind when its process is killed: that is refused. Ours are the words: who
# holds a lock is
# written into its
# file.

NO_LOCKS = (ENOSYS, ENOLCK, EOPNOTSUPP)
POLL_S = 0.5  # seconds between two looks at a lock that another process has: nobody reports its end


def take(path: Path) -> FileLock | None:
    """Takes a lock until its `release` and notes who has it, None if another process does; a
    UserError if none can.
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
    """Who has a lock, in words."""
    return path.read_text(encoding="utf-8").strip() or "just taken"


@contextmanager
def waited_for(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Holds a lock, after waiting for it if another process has it, which is said once; a UserError
    as `take`.
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
# one that starts too
# late can tell.

FOLDER = Path(".snakemake/runs")
RUN = "PAM_RUN"
_held: list[FileLock] = []  # of this process's runs; its end gives them back


def hold(experiment: str, folder: Path = FOLDER) -> None:
    """Marks this process as the run of an experiment in this folder, until it ends; a UserError if
    another is one.
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


def check_not_replaced(experiment: str, folder: Path = FOLDER) -> None:
    """Raises a UserError if this process is a job of a run that is over and that another has
    followed.
    """
    path, own = folder / f"{experiment}.lock", os.environ.get(RUN)
    if own is not None and path.is_file() and holder(path) != own:
        raise UserError("this job is of a run that is over, and another run has followed it")


# GPUs of this machine.

# One place for all users of this machine: not `TMPDIR`, which may differ from job to job.
LOCKS = Path("/tmp/pam-gpu-locks")  # noqa: S108
VISIBLE, SHARING = "CUDA_VISIBLE_DEVICES", "PAM_JOBS_PER_GPU"


def visible() -> list[str]:
    """UUIDs of the GPUs that this process may use, by `nvidia-smi`, without loading CUDA."""
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


def take_gpus(
    devices: list[str], count: int = 1, wait_s: float = 1.0, sharing: int = 1
) -> list[str]:
    """Takes `count` of `devices` for the rest of this process and what replaces it; waits, as it
    says, for free ones.

    So many jobs may share each of them with this one, if they say the same number; 1: none.

    Jobs take GPUs one job at a time: two that have taken some of what both need would wait for each
    other, and one that needs many would be overtaken by those that need few.
    """
    if not LOCKS.is_dir():
        LOCKS.mkdir(exist_ok=True)
        LOCKS.chmod(0o1777)
    taken: list[str] = []
    said, turn = False, None
    while True:
        turn = _lock(LOCKS / "turn") if turn is None else turn
        if turn is not None:
            for device in devices:
                if len(taken) < count and device not in taken and _take(device, sharing):
                    taken.append(device)
            if len(taken) == count:
                os.close(turn)
                return taken
        if not said:
            sys.stderr.write(f"waiting for {count} of {len(devices)} GPUs, which are in use\n")
            said = True
        time.sleep(wait_s)


def _take(device: str, sharing: int) -> bool:
    """Takes a device, or one of its places where so many jobs share it, if it is free."""
    lock = _lock(LOCKS / device, fcntl.LOCK_EX if sharing == 1 else fcntl.LOCK_SH)
    if lock is None:
        return False
    if sharing > 1:
        places = (_lock(LOCKS / f"{device}.{number}") for number in range(sharing))
        place = next((place for place in places if place is not None), None)
        if place is None:
            os.close(lock)
            return False
        os.set_inheritable(place, True)
    os.set_inheritable(lock, True)
    return True


def _lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Takes the lock of a file if it is free; whoever closes the descriptor gives it back."""
    try:
        # Another user's file may be locked, though not written, nor opened for making it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def set_environment(basedir: str, mirror: str | None, jobs_per_gpu: int) -> None:
    """Lets jobs use the `python` that runs Snakemake, the `pam` of this folder, the mirror, and
    GPUs together.
    """
    os.environ[SHARING] = str(jobs_per_gpu)
    for name, folder in (("PATH", os.path.dirname(sys.executable)), ("PYTHONPATH", basedir)):
        os.environ[name] = os.pathsep.join(filter(None, [folder, os.environ.get(name)]))
    if mirror:
        os.environ["PAM_MIRROR"] = mirror


# Before each rule's command, for Snakemake's `shell.prefix`: `logged FILE COMMAND ...`. A command
# that fails shows the end of its log. A log on a full disk may hold none: the `echo` fails then
# too, and bash says why.
LOGGED = (
    'logged() {{ "${{@:2}}" > "$1" 2>&1 || {{ tail -n 20 "$1" >&2; echo >> "$1"; return 1; }}; }}; '
)


def share_gpus(workflow: Any, jobs_per_gpu: int) -> int:
    """Lets Snakemake share out this machine's GPUs, of which the number is returned; a cluster
    shares out its own.
    """
    gpus = len(visible())
    here = workflow.is_main_process and workflow.resource_settings.nodes is None
    if gpus and here and "gpu" not in workflow.global_resources:
        workflow.register_resource("gpu", gpus * jobs_per_gpu)
    return gpus


def wake_once(scheduler: Any) -> None:
    """Lets a class of schedulers have one timer pending, not one for each job that has ended.

    While jobs wait for a core, Snakemake (9.27) looks for one to start whenever a job ends, and
    once more a second later, for its limit of jobs a second. That look asks for the next: after a
    thousand jobs there are a thousand looks a second, and as many threads. The limit is kept: the
    pending look is no later than the one asked for.
    """
    start = scheduler._schedule_reevalutation  # its spelling

    def start_if_none(self: Any, delay: float) -> None:
        if time.monotonic() >= getattr(self, "_timer_due", 0.0):
            self._timer_due = time.monotonic() + delay
            start(self, delay)

    scheduler._schedule_reevalutation = start_if_none


def name_nearest(
    missing: Any, nouns: Callable[[], list[str]], files: Callable[[], list[str]]
) -> None:
    """Lets Snakemake's exception class `missing`, for a target that no rule makes, name the nearest
    ones.

    It is worded when somebody reads it: Snakemake raises and catches one for every file that exists
    already.
    """
    default = missing.__str__

    def worded(self: Any) -> str:
        target = default(self).removeprefix("No rule to produce ").partition(" (if you use")[0]
        near = get_close_matches(target, [*nouns(), *files()], n=3)
        meant = f"did you mean {' or '.join(f'`{one}`' for one in near)}? " if near else ""
        return (
            f"unknown target `{target}`\n  hint: {meant}known: {', '.join(nouns())}, and files that"
            " these make"
        )

    missing.__str__ = worded


def main(device: str, command: list[str], gpus: int = 1) -> None:
    """Makes this process `command`, with `gpus` GPUs of its own where there are any."""
    if device == "cpu" or gpus == 0:
        os.environ[VISIBLE] = ""
    elif devices := visible():
        if len(devices) < gpus:
            hint = "  hint: lower `resources.processes`, or set `device: cpu`"
            sys.exit(f"error: {gpus} GPUs are wanted, and this job may use {len(devices)}\n{hint}")
        os.environ[VISIBLE] = ",".join(
            take_gpus(devices, gpus, sharing=int(os.environ.get(SHARING, "1")))
        )
    if command[:3] == ["python", "-m", "pam"]:
        # In this process, as another Python would take 0.15 s to come as far as this one.
        sys.argv = ["pam", *command[3:]]
        runpy.run_module("pam", run_name="__main__", alter_sys=True)
    os.execvp(command[0], command)  # noqa: S606 -- a list of arguments, no shell


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pam.jobs", description=__doc__)
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="how many it wants")
    parser.add_argument("device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("a command is missing")
    main(given.device, given.command, given.gpus)
