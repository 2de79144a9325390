"""The scheduler of the Snakemake that is installed, mended."""

from __future__ import annotations

import threading
import time

from snakemake.scheduling.job_scheduler import JobScheduler

from pam.jobs import wake_once


def woken(scheduler: JobScheduler, looks: int) -> int:
    """How often a scheduler is woken that has looked for jobs so many times."""
    for _ in range(looks):
        scheduler._schedule_reevalutation(0.05)
    deadline, times = time.monotonic() + 0.5, 0
    while scheduler._open_jobs.acquire(timeout=max(0.0, deadline - time.monotonic())):
        times += 1
    return times


def bare(kind: type[JobScheduler]) -> JobScheduler:
    scheduler = kind.__new__(kind)
    scheduler._open_jobs = threading.Semaphore(0)
    return scheduler


def test_however_often_it_looked_for_jobs_it_is_woken_once_and_then_once_more() -> None:
    class Mended(JobScheduler):
        pass

    wake_once(Mended)
    scheduler = bare(Mended)
    assert [woken(scheduler, 20), woken(scheduler, 20), woken(scheduler, 1)] == [1, 1, 1]
    assert woken(bare(JobScheduler), 20) == 20  # else the mend has no use any more
