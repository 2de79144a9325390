"""Disks that are full and folders that may not be written to: one message, then on as before."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import Recorder
from tests.faults.conftest import Scene
from tests.faults.disks import bound_by_permission, forbidden, read_only_disk, small_disk
from tests.faults.runs import OWN, RESULTS, RUN, SNAKEMAKE, results
from tests.workflow.checkouts import Checkout, Outcome

pytestmark = pytest.mark.slow

Reference = tuple[Checkout, Outcome]
FULL = "the disk is full"
MENDED = "mended, the next call ends with bit-identical results"


def pam(scene: Scene, *arguments: str, bound: bool = False) -> Outcome:
    """Run a command of the command line, `bound` by permissions though this is root."""
    command = [sys.executable, "-m", "pam", *arguments]
    if bound:
        command = bound_by_permission(command)

    return scene.made.command(command, **scene.environment)


def refused(outcome: Outcome, message: str) -> None:
    assert outcome.code == 2, outcome.said
    assert outcome.said.count("error: ") == 1
    assert message in outcome.said and "Traceback" not in outcome.said


def half_written(folder: Path) -> list[str]:
    """List files that are not whole."""
    return [str(path) for path in folder.rglob("*.part")]


FETCH = ("fetch", "--dataset", "small", "--registry", "own/datasets.yaml", "--out", "data/small")


def test_a_disk_that_is_full_while_downloading(scene: Scene, record: Recorder) -> None:
    folder = scene.made.folder / "data/small"
    with small_disk(folder, 64) as disk:
        disk.fill(leave=4096)
        refused(pam(scene, *FETCH), FULL)
        assert half_written(folder) == []

        disk.mend()
        assert pam(scene, *FETCH).code == 0

        for name in ("train.tsv", "dev.tsv", "test.tsv"):
            served = scene.made.folder / "own" / name
            assert (folder / name).read_bytes() == served.read_bytes()

    record(
        fault="the disk is full while downloading",
        showed="one message, nothing half written; mended, the next call fetches what is missing",
    )


def train(scene: Scene, out: str, *arguments: str, bound: bool = False) -> Outcome:
    """Train once more as the finished run did, into another folder."""
    folder = scene.made.folder / out
    folder.mkdir(exist_ok=True)
    if not (folder / "run.yaml").is_file():
        shutil.copy2(scene.made.folder / RUN / "run.yaml", folder)

    paths = ["--run", out, "--data", str(RESULTS / "nouns/data")]
    return pam(scene, "train", *paths, *arguments, bound=bound)


@pytest.mark.parametrize(
    "leave",
    [60_000, *(pytest.param(n, marks=pytest.mark.faults) for n in (0, 4096, 120_000, 200_000))],
)
def test_a_disk_that_is_full_while_a_state_is_saved(
    finished: Scene, record: Recorder, leave: int
) -> None:
    folder = finished.made.folder / "state"
    with small_disk(folder, 1024) as disk:
        disk.fill(leave)
        refused(train(finished, "again", "--state", "state"), FULL)
        assert half_written(folder) == []

        disk.mend()
        outcome = train(finished, "again", "--state", "state")

        assert outcome.code == 0, outcome.said

    weights = "model/weights.safetensors"
    expected = (finished.made.folder / RUN / weights).read_bytes()

    assert (finished.made.folder / "again" / weights).read_bytes() == expected

    record(
        fault="the disk is full while the state of a training is saved",
        showed=(
            "one message, nothing half written; mended, the training ends with bit-identical"
            " weights"
        ),
    )


@pytest.mark.faults
def test_a_disk_that_is_full_while_an_output_is_written(
    finished: Scene, undisturbed: Reference, record: Recorder
) -> None:
    folder = finished.made.folder / "out"
    with small_disk(folder, 1024) as disk:
        disk.fill(leave=20_000)
        refused(train(finished, "out", "--state", "state"), FULL)
        assert half_written(folder) == []

        disk.mend()
        assert train(finished, "out", "--state", "state").code == 0

        weights = "model/weights.safetensors"
        expected = (finished.made.folder / RUN / weights).read_bytes()

        assert (folder / weights).read_bytes() == expected

    record(
        fault="the disk is full while the results of a training are written",
        showed=(
            "one message, nothing half written; mended, the next call ends at once with"
            " bit-identical weights"
        ),
    )


@pytest.mark.faults
@pytest.mark.parametrize("kib", [16, 64, 200, 400, 700, 1500])
def test_a_run_on_a_disk_that_becomes_full_goes_on_when_there_is_room(
    scene: Scene, undisturbed: Reference, record: Recorder, kib: int
) -> None:
    with small_disk(scene.made.folder / RESULTS, kib) as disk:
        outcome = scene.run()
        assert outcome.code != 0
        assert FULL in outcome.said or "No space left on device" in outcome.said

        disk.mend()
        assert scene.run().code == 0
        assert results(scene.made) == results(undisturbed[0])

    record(
        fault="the disk of the results becomes full in the midst of a run",
        showed=f"the run ends and says so; {MENDED}",
    )


@pytest.mark.parametrize("kind", ["no permission", "a read-only disk"])
def test_results_that_may_not_be_written_to(
    finished: Scene, undisturbed: Reference, record: Recorder, kind: str
) -> None:
    folder = finished.made.folder / "results"
    command = [*SNAKEMAKE, *OWN]
    denied = read_only_disk(folder)

    if kind == "no permission":
        denied = forbidden(folder)
        command = bound_by_permission(command)

    (finished.made.folder / RESULTS / "report.html").unlink()

    with denied:
        before = sorted(finished.made.folder.glob("results/**/*"))
        outcome = finished.made.command(command, **finished.environment)

        assert outcome.code != 0
        assert outcome.said.count("error: ") == 1, outcome.said
        assert f"{RESULTS}: no permission to write here" in outcome.said
        assert "Traceback" not in outcome.said
        assert sorted(finished.made.folder.glob("results/**/*")) == before

    assert finished.run().code == 0
    assert results(finished.made) == results(undisturbed[0])

    record(
        fault=f"the folder of the results: {kind}",
        showed=f"one message before anything is begun, nothing changed; {MENDED}",
    )


@pytest.mark.parametrize("command", ["fetch", "train"])
def test_a_command_that_may_not_write_where_it_should(
    finished: Scene, record: Recorder, command: str
) -> None:
    folder = finished.made.folder / "closed"
    folder.mkdir()
    shutil.copy2(finished.made.folder / RUN / "run.yaml", folder)

    with forbidden(folder):
        if command == "fetch":
            outcome = pam(finished, *FETCH[:-1], "closed", bound=True)
        else:
            outcome = train(finished, "closed", bound=True)
        refused(outcome, "no permission to write here")

    assert [path.name for path in folder.iterdir()] == ["run.yaml"]

    record(fault="no permission for the folder of a command", showed="one message, nothing written")


def test_a_limit_on_the_size_of_files(scene: Scene, record: Recorder) -> None:
    command = ["prlimit", "--fsize=100", sys.executable, "-m", "pam", *FETCH]
    try:
        outcome = scene.made.command(command, **scene.environment)
    except FileNotFoundError:
        pytest.skip("no prlimit here")

    refused(outcome, "the file would be larger than is allowed here")
    assert half_written(scene.made.folder / "data") == []

    record(fault="a limit on the size of files", showed="one message, nothing half written")
