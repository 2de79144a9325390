"""The time limit of a Slurm job: a training that reaches it goes back to the queue, by itself.

The job keeps its number and Slurm starts it again, so that whoever waits for it, Snakemake or a
person, sees one job, and the training goes on from the state that it saved. Where no scheduler set
a limit, none of this has any effect.
"""

from __future__ import annotations

import logging
import math
import os
import re
import subprocess
import time
from dataclasses import dataclass

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
