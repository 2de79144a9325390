"""SIGKILL at random moments: the next plain `snakemake` goes on and ends with the same results."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

import psutil
import pytest

from tests.conftest import Recorder
from tests.faults.conftest import Scene
from tests.faults.runs import RESULTS, RUN, STAGES, Running, results, started
from tests.workflow.checkouts import Checkout, Outcome

pytestmark = pytest.mark.slow

VICTIMS = ("snakemake alone", "a job alone", "snakemake and its jobs")
SAME = "the next plain call ended with bit-identical results, and nothing was left to do"
Reference = tuple[Checkout, Outcome]


def killed(running: Running, victim: str, draw: Random, stage: str, within_s: float) -> str | None:
    """Kill some time after a stage has begun; return what was at work, None if all had ended.
    Counts from a stage, not from the beginning, so that each is struck, on a busy machine too.
    """
    running.wait_for(stage)
    with suppress(TimeoutExpired):
        running.process.wait(draw.uniform(0, within_s))

    where = " and ".join(running.at_work()) or "between commands"
    if running.process.poll() is None:
        {
            "snakemake alone": running.kill_alone,
            "a job alone": lambda: running.kill_one_job(draw),
            "snakemake and its jobs": running.kill_all,
        }[victim]()

    if running.process.returncode == 0:
        return None

    return where


def check(scene: Scene, undisturbed: Reference, outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.said
    assert results(scene.made) == results(undisturbed[0])

    again = scene.run("--dry-run")
    assert "Nothing to be done" in again.said, again.said


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_results(
    scene: Scene, undisturbed: Reference, record: Recorder
) -> None:
    draw = Random(3)
    struck: list[str] = []
    with ExitStack() as alive:
        # What lives on of each is still at work when the next call begins. A job may end before it
        # is struck: then the next stage is.
        for stage in list(STAGES):
            victim = VICTIMS[len(struck)]
            log = f"{stage}.log"
            running = alive.enter_context(started(scene.made, log=log, **scene.environment))

            if killed(running, victim, draw, stage, within_s=1.5):
                struck.append(victim)

            if len(struck) == len(VICTIMS):
                break
        check(scene, undisturbed, scene.run())

    assert struck

    record(
        fault="SIGKILL three times in a row: of snakemake, of a job, of both",
        tried=len(struck),
        showed=SAME,
    )


def says(log: Path, text: str) -> bool:
    """Return whether a log, which Snakemake may just remove, has a text."""
    try:
        return text in log.read_text("utf-8")
    except FileNotFoundError:
        return False


@pytest.mark.faults
def test_a_job_that_writes_late_does_so_before_the_next_run_makes_use_of_it(
    finished: Scene, undisturbed: Reference, record: Recorder
) -> None:
    made = finished.made
    shutil.rmtree(made.folder / RUN / "beam1")
    shutil.rmtree(made.folder / RESULTS / "tables")
    for file in (RUN / "scores.json", RESULTS / "index.html", RESULTS / "report.html"):
        (made.folder / file).unlink()

    log = made.folder / RESULTS / "logs/nouns/postr-joint/seed1/predict_beam1.log"
    log.unlink()
    with started(made, **finished.environment) as first:
        # Once it has its lock, a job makes its log.
        while first.process.poll() is None and not log.is_file():
            time.sleep(0.01)
        orphans = first.jobs_of("decoding")
        assert orphans
        for orphan in orphans:
            orphan.suspend()
        first.kill_alone()

        # It is still until the next run has come to the same job.
        with started(made, log="second.log", **finished.environment) as second:
            while second.process.poll() is None and not says(log, "waiting"):
                time.sleep(0.01)
            for orphan in orphans:
                orphan.resume()
            assert second.process.wait(300) == 0, second.log.read_text("utf-8")
        psutil.wait_procs(orphans, timeout=60)

    check(finished, undisturbed, finished.run("--dry-run"))

    record(fault="SIGKILL of snakemake alone, whose job writes later", showed=SAME)


@pytest.mark.faults
@pytest.mark.parametrize("number", range(50))
def test_a_killed_run_goes_on_and_ends_with_the_same_results(
    scene: Scene, undisturbed: Reference, record: Recorder, number: int
) -> None:
    draw = Random(number)
    victim = VICTIMS[number % len(VICTIMS)]
    stage = list(STAGES)[number // len(VICTIMS) % len(STAGES)]
    within_s = 3.0

    while True:
        with started(scene.made, **scene.environment) as running:
            where = killed(running, victim, draw, stage, within_s)
            if where is not None:
                check(scene, undisturbed, scene.run())

                break

        # It had ended before: once more from the beginning, and sooner.
        for folder in ("results", "data", ".snakemake"):
            shutil.rmtree(scene.made.folder / folder, ignore_errors=True)

        within_s /= 2

    record(fault=f"SIGKILL of {victim}", showed=SAME, where=where)
