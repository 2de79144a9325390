"""Two runs at once in one folder: one of an experiment works, the other is told so and ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Recorder
from tests.faults.conftest import Scene
from tests.faults.runs import RESULTS, Running, results, started
from tests.workflow.checkouts import Checkout, Outcome

pytestmark = pytest.mark.slow

REFUSED = "error: another run of `tiny` is at work in this folder (process "
FRONT_DOORS = {
    "snakemake": [sys.executable, "-m", "snakemake", "--cores", "1"],
    "snakemake --profile": [sys.executable, "-m", "snakemake", "--profile", "own/profile"],
    "make run": [sys.executable, "-m", "pam", "run"],
}


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return size and time of change of all files, but for Snakemake's own record of its calls."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and ".snakemake" not in path.parts and "__pycache__" not in path.parts
    }


def holds_lock(running: Running) -> None:
    """Wait until a run has begun; its report takes longer than that."""
    begun = f"process {running.process.pid} on "
    while running.process.poll() is None and begun not in lock_of(running):
        time.sleep(0.01)

    assert running.process.poll() is None, running.log.read_text("utf-8")


def lock_of(running: Running) -> str:
    """Read which process is at work in the folder of a run; empty before there is one."""
    path = running.log.parent / ".snakemake/runs/tiny.lock"
    if not path.is_file():
        return ""

    return path.read_text("utf-8")


def test_a_second_run_says_so_and_changes_nothing_and_the_first_ends_well(
    finished: Scene, undisturbed: tuple[Checkout, Outcome], record: Recorder
) -> None:
    finished.made.write("own/profile/config.yaml", "cores: 1\nkeep-going: true\n")
    (finished.made.folder / RESULTS / "report.html").unlink()
    with started(finished.made, **finished.environment) as running:
        holds_lock(running)
        # Still, so that what changes is the second run's doing.
        os.killpg(running.process.pid, signal.SIGSTOP)
        before = contents(finished.made.folder)

        for name, command in FRONT_DOORS.items():
            second = finished.made.command(
                [*command, "--configfile", "own/experiment.yaml"], **finished.environment
            )
            assert second.code != 0, name
            assert f"{REFUSED}{running.process.pid} on " in second.said, second.said
            assert second.said.count("error: ") == 1

        assert "Nothing to be done" not in finished.run("--dry-run").said
        assert contents(finished.made.folder) == before

        os.killpg(running.process.pid, signal.SIGCONT)
        assert running.process.wait(300) == 0, running.log.read_text("utf-8")

    assert results(finished.made) == results(undisturbed[0])

    record(
        fault="a second run of an experiment, by `snakemake`, with a profile, by `make run`",
        tried=len(FRONT_DOORS),
        showed="it names the process that is at work and ends; nothing is changed, and the first "
        "run ends with bit-identical results",
    )


@pytest.mark.faults
def test_of_two_runs_that_start_together_one_works(
    scene: Scene, undisturbed: tuple[Checkout, Outcome], record: Recorder
) -> None:
    # A killed run before them, as they may both be there to go on after it.
    with started(scene.made, **scene.environment) as running:
        running.wait_for("download")
        running.kill_all()

    for _ in range(3):
        with (
            started(scene.made, **scene.environment) as first,
            started(scene.made, log="other.log", **scene.environment) as second,
        ):
            codes = [running.process.wait(300) for running in (first, second)]
            outputs = [running.log.read_text("utf-8") for running in (first, second)]

        if codes != [0, 0]:
            break

        # On a busy machine one had ended before the other began: once more from the beginning.
        shutil.rmtree(scene.made.folder / RESULTS)

    assert sorted(codes) == [0, 1], outputs

    # The one that works may not have written down yet which process it is.
    refusal = re.escape(REFUSED.removesuffix("process ")) + r"(process \d+ on \S+.*|just taken)\)"
    assert re.search(refusal, outputs[codes.index(1)]), outputs
    assert results(scene.made) == results(undisturbed[0])

    record(
        fault="two runs that start at the same moment, after a killed one",
        showed="one works and ends with bit-identical results, the other is told so and ends",
    )


@pytest.mark.faults
def test_two_experiments_run_beside_each_other(
    scene: Scene, undisturbed: tuple[Checkout, Outcome], record: Recorder
) -> None:
    text = (scene.made.folder / "own/experiment.yaml").read_text("utf-8")
    scene.made.write("own/other.yaml", text.replace("experiment: tiny", "experiment: other"))
    with started(scene.made, **scene.environment) as running:
        other = scene.made.run("--configfile", "own/other.yaml", **scene.environment)
        assert other.code == 0, other.said
        assert running.process.wait(300) == 0, running.log.read_text("utf-8")

    assert results(scene.made) == results(undisturbed[0])

    file = "nouns/postr-joint/seed1/beam1/predictions.tsv"
    predictions = [(scene.made.folder / f"results/{name}" / file) for name in ("tiny", "other")]

    assert predictions[0].read_bytes() == predictions[1].read_bytes()

    record(
        fault="two experiments on the same data at once in one folder",
        showed="both end well; the data are fetched by one of them while the other waits",
    )
