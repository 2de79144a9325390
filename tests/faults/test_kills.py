"""SIGKILL at random moments: the next plain `snakemake` goes on and ends with the same results."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from random import Random
from subprocess import TimeoutExpired

import pytest

from tests.conftest import Recorder
from tests.faults.conftest import Scene
from tests.faults.runs import Running, begun, results, started
from tests.workflow.checkouts import Checkout, Outcome

pytestmark = pytest.mark.slow

VICTIMS = ("snakemake alone", "a job alone", "snakemake and its jobs")
SAME = "the next plain call ended with bit-identical results, and nothing was left to do"
Reference = tuple[Checkout, Outcome]


def killed(running: Running, victim: str, draw: Random, jobs: int) -> bool:
    """Kills within a second and a half after so many jobs have begun; False if the run had ended.

    Counted in jobs, not in seconds, so that a busy machine meets the same steps as an idle one.
    """
    running.wait_for_jobs(jobs)
    try:
        running.process.wait(draw.uniform(0, 1.5))
    except TimeoutExpired:
        {
            "snakemake alone": running.kill_alone,
            "a job alone": lambda: running.kill_one_job(draw),
            "snakemake and its jobs": running.kill_all,
        }[victim]()
    return running.process.returncode != 0


def check(scene: Scene, undisturbed: Reference, outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.said
    assert results(scene.made) == results(undisturbed[0])
    again = scene.run("--dry-run")
    assert "Nothing to be done" in again.said, again.said


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_results(
    scene: Scene, undisturbed: Reference, record: Recorder
) -> None:
    draw = Random(3)
    with ExitStack() as alive:
        # What lives on of each is still at work when the next call begins.
        for victim, jobs in zip(VICTIMS, (1, 2, 4), strict=True):
            log = f"{jobs}.log"
            running = alive.enter_context(started(scene.made, log=log, **scene.environment))
            assert killed(running, victim, draw, jobs)
        check(scene, undisturbed, scene.run())
    record(
        fault="SIGKILL three times in a row: of snakemake, of a job, of both",
        tried=len(VICTIMS),
        showed=SAME,
    )


@pytest.mark.faults
@pytest.mark.parametrize("number", range(50))
def test_a_killed_run_goes_on_and_ends_with_the_same_results(
    scene: Scene, undisturbed: Reference, record: Recorder, number: int
) -> None:
    draw, victim = Random(number), VICTIMS[number % len(VICTIMS)]
    jobs = draw.randrange(len(begun(undisturbed[1].said)))
    while True:
        with started(scene.made, **scene.environment) as running:
            if killed(running, victim, draw, jobs):
                where = running.at()
                check(scene, undisturbed, scene.run())
                break
        # It had ended before: once more from the beginning, and sooner.
        for folder in ("results", "data", ".snakemake"):
            shutil.rmtree(scene.made.folder / folder, ignore_errors=True)
        jobs = max(jobs - 2, 0)
    record(fault=f"SIGKILL of {victim}", showed=SAME, where=where)
