"""Stopping in time: signals, a launcher that is gone, and the time limit of a Slurm job."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

# for a last step, a state and the way to the scheduler; of a short job, half of what is left
RESERVE_S = 120.0
REQUEUE_WAIT_S = 60.0
log = logging.getLogger(__name__)


class Stopped(Exception):  # noqa: N818 -- nothing is wrong
    """A training stopped on request, and its state is saved.

    The exit `code` is 128 plus the signal's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stop:
    """The reasons for this process to stop.

    They are SIGTERM or Ctrl-C, a time limit that is `near`, and a `launcher`, by its process id,
    that is gone.
    """

    def __init__(self, near: Callable[[], bool] = lambda: False, launcher: int | None = None):
        self.near = near
        self.launcher = launcher
        self.signal: int | None = None

    def exit_code(self) -> int:
        """Return the exit code to stop with, or 0 to go on."""
        if self.signal is not None:
            return 128 + self.signal

        # The system gives another parent to a process whose parent has died.
        is_orphaned = self.launcher is not None and os.getppid() != self.launcher
        if is_orphaned or self.near():
            return 128 + signal.SIGTERM
        return 0

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Note SIGTERM and SIGINT instead of ending by them.

        A second SIGINT ends the process at once. A signal that is ignored stays so.
        """
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def note(number: int, frame: FrameType | None) -> None:
            self.signal = self.signal or number
            # The next SIGINT ends a process that does not get to its end.
            if number == signal.SIGINT:
                signal.signal(number, before[signal.SIGINT])

        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Deadline:
    """The time `at` which a training in a Slurm job has to save its state, by `time.monotonic`.

    It is infinite where no job has a limit. A job that reaches it goes back to the queue under its
    number, so that whoever waits for it sees one job.
    """

    job: str | None = None
    at: float = math.inf

    @classmethod
    def of_job(cls) -> Deadline:
        """Ask Slurm for the deadline of the job in which this process runs, if there is one."""
        job = os.environ.get("SLURM_JOB_ID")
        if job is None:
            return cls()

        try:
            left = seconds(_slurm("squeue", "--noheader", "--jobs", job, "--format=%L"))
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("the time limit of job %s is unknown: %s", job, error)
            return cls()

        return cls(job, time.monotonic() + left - min(RESERVE_S, left / 2))

    @property
    def near(self) -> bool:
        """True when it is time to save the state and to call `requeue`."""
        return time.monotonic() >= self.at

    def requeue(self) -> None:
        """Put the job back into the queue, whereupon Slurm ends this process.

        It returns only if Slurm refuses.
        """
        assert self.job is not None
        log.info("the time limit is near: job %s goes back to the queue, to resume later", self.job)
        try:
            _slurm("scontrol", "requeue", self.job)
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("job %s cannot go back to the queue: %s", self.job, error)
        else:
            # Slurm needs some time to end the process.
            time.sleep(REQUEUE_WAIT_S)


def seconds(left: str) -> float:
    """Read a time that `squeue` prints, `[[days-]hours:]minutes:seconds`; infinity for any word."""
    parts = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", left)
    if parts is None:
        return math.inf

    days, hours, minutes, remaining_seconds = (int(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + remaining_seconds


def _slurm(*command: str) -> str:
    """Return what a command of Slurm prints; its error message is part of the exception."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise subprocess.SubprocessError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout.strip()
