"""Stopping in time: signals, a launcher that is gone, and the time limit of a Slurm job."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import subprocess
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
    """A training stopped on request, and its state is saved; the exit `code` is 128 and the
    signal's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stop:
    """Whether this process is to stop: by SIGTERM or Ctrl-C, as a time limit is `near`, or its
    `launcher` is gone.
    """

    def __init__(self, near: Callable[[], bool] = lambda: False, launcher: int | None = None):
        self.near, self.launcher = near, launcher
        self.signal: int | None = None

    def exit_code(self) -> int:
        """The exit code to stop with, or 0 to go on."""
        if self.signal is not None:
            return 128 + self.signal
        orphaned = self.launcher is not None and os.getppid() != self.launcher
        return 128 + signal.SIGTERM if orphaned or self.near() else 0

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Notes SIGTERM and SIGINT instead of ending by them; a second SIGINT ends at once, an
        ignored one stays so.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def note(number: int, frame: FrameType | None) -> None:
            self.signal = self.signal or number
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
    """When a training in a Slurm job has to save its state: `at`, by `time.monotonic`; never, where
    no job has a limit.

    A job that reaches it goes back to the queue under its number: whoever waits for it sees one
    job.
    """

    job: str | None = None
    at: float = math.inf

    @classmethod
    def of_job(cls) -> Deadline:
        """That of the Slurm job in which this process runs, if there is one and it has a limit."""
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
        """Whether it is time to save the state and to call `requeue`."""
        return time.monotonic() >= self.at

    def requeue(self) -> None:
        """Puts the job back into the queue, whereupon Slurm ends this process; returns only if
        Slurm refuses.
        """
        assert self.job is not None
        log.info("the time limit is near: job %s goes back to the queue, to go on later", self.job)
        try:
            _slurm("scontrol", "requeue", self.job)
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("job %s cannot go back to the queue: %s", self.job, error)
        else:
            time.sleep(REQUEUE_WAIT_S)


def seconds(left: str) -> float:
    """Seconds of what `squeue` prints, `[[days-]hours:]minutes:seconds`; infinity for any word."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", left)
    if found is None:
        return math.inf
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _slurm(*command: str) -> str:
    """What a command of Slurm prints; its error message is part of the exception."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise subprocess.SubprocessError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout.strip()
