"""A mend of Snakemake's scheduler, that a long run may leave the processor to its jobs."""

from __future__ import annotations

import time
from typing import Any


def wake_once(scheduler: Any) -> None:
    """Lets a class of schedulers have one timer pending, not one for each job that has ended.

    While jobs wait for a core, Snakemake (9.27) looks for one to start whenever a job ends, and
    once more a second later, for its limit of jobs a second. That look asks for the next: after a
    thousand jobs there are a thousand looks a second, each over all jobs that wait, and as many
    threads. The limit is kept: the look that is pending is no later than the one asked for.
    """
    start = scheduler._schedule_reevalutation  # so spelt there

    def start_if_none(self: Any, delay: float) -> None:
        if time.monotonic() >= getattr(self, "_timer_due", 0.0):
            self._timer_due = time.monotonic() + delay
            start(self, delay)

    scheduler._schedule_reevalutation = start_if_none
