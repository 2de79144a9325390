"""Ending on time: signals, deadlines, and when to save the state."""

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
from time import monotonic
from types import FrameType

# When a training saves its state and ends before it is done.


class Stopped(Exception):  # noqa: N818 -- nothing is wrong
    """A training was asked to end, and its state is saved.

    Args:
        code: what the process ends with, 128 and the signal's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stop:
    """Whether this process has been asked to end.

    A scheduler asks by SIGTERM and a person by Ctrl-C. Beside these, a time limit may be near, and
    a process that was launched together with others ends when its launcher is gone.

    Args:
        near: whether the time limit is near.
        launcher: process id of what launched this process and has to outlive it; None: nothing.
    """

    def __init__(self, near: Callable[[], bool] = lambda: False, launcher: int | None = None):
        self.near, self.launcher = near, launcher
        self.signal: int | None = None

    def asked(self) -> int:
        """The exit code to end with, or 0 to go on."""
        if self.signal is not None:
            return 128 + self.signal
        orphaned = self.launcher is not None and os.getppid() != self.launcher
        return 128 + signal.SIGTERM if orphaned or self.near() else 0

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Notes SIGTERM and SIGINT instead of ending by them; a second SIGINT ends at once.

        One that is ignored, as SIGINT is by what a shell runs in the background, stays so.
        """
        heeded = (signal.SIGTERM, signal.SIGINT)
        before = {one: signal.getsignal(one) for one in heeded}

        def note(number: int, frame: FrameType | None) -> None:
            self.signal = self.signal or number
            if number == signal.SIGINT:
                signal.signal(number, before[signal.SIGINT])

        for one in heeded:
            if before[one] != signal.SIG_IGN:
                signal.signal(one, note)
        try:
            yield
        finally:
            for one in heeded:
                signal.signal(one, before[one])


# When a training saves its state.

SHARE = 0.05
"""Of the time of a training, the part that saving within an epoch may take."""


class CheckpointTimer:
    """How long after one state the next is saved.

    Args:
        every_s: seconds at least; more where saving takes so long that it would take more than
            its share of the time, as that of a large model to a slow disk does. 0: after every
            batch, however long it takes.
    """

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.saved_at = monotonic()
        self.took_s = 0.0

    def due(self) -> bool:
        """Whether it is time."""
        wait = max(self.every_s, self.took_s * (1 / SHARE - 1)) if self.every_s else 0.0
        return monotonic() - self.saved_at >= wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around the saving of a state."""
        start = monotonic()
        yield
        self.saved_at = monotonic()
        self.took_s = self.saved_at - start


# The time limit of a Slurm job: a training that reaches it goes back to the queue, by itself.
#
# The job keeps its number and Slurm starts it again, so that whoever waits for it, Snakemake or a
# person, sees one job, and the training goes on from the state that it saved. Where no scheduler set
# a limit, none of this has any effect.

RESERVE_S = 120.0
"""For a last step, a state and the way to the scheduler; of a short job, half of what is left."""
PATIENCE_S = 60.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deadline:
    """When a training has to save its state; never, by default.

    Attributes:
        job: number of the Slurm job; at: as `time.monotonic` tells time.
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
        """Puts the job back into the queue, whereupon Slurm ends this process.

        Returns, and the job runs into its limit or fails, only if Slurm refuses; the log says why.
        """
        assert self.job is not None
        log.info("the time limit is near: job %s goes back to the queue, to go on later", self.job)
        try:
            _slurm("scontrol", "requeue", self.job)
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("job %s cannot go back to the queue: %s", self.job, error)
        else:
            time.sleep(PATIENCE_S)


def seconds(left: str) -> float:
    """What `squeue` says is left, `[[days-]hours:]minutes:seconds`, or infinity for any word."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", left)
    if found is None:
        return math.inf
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _slurm(*command: str) -> str:
    """What a command of Slurm prints; what it complains of is part of the error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise subprocess.SubprocessError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout.strip()
