"""A clock that jumps back: no wrong result, no negative cost, nothing made again for it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import Recorder
from tests.faults.conftest import Scene
from tests.faults.runs import RESULTS, RUN, results
from tests.workflow.checkouts import Checkout, Outcome

pytestmark = pytest.mark.slow

Reference = tuple[Checkout, Outcome]
DAY = 24 * 3600

# Read by every Python of a run, Snakemake's too; the clock of the whole machine stays as it is. It
# jumps when a file appears, as seconds would meet another moment of the work on another machine.
JUMPING = """\
import os, time

kept, event, struck = time.time, os.environ["CLOCK_JUMPS_WITH"], os.environ["CLOCK_HAS_JUMPED"]


def jumped():
    if os.path.exists(event) and not os.path.exists(struck):
        open(struck, "w").close()
    return os.path.exists(struck)


time.time = lambda: kept() - (3600 if jumped() else 0)
time.time_ns = lambda: int(time.time() * 1e9)
"""
STATE = "state/state.safetensors"
"""The first state of a training, which says that it is under way."""


def jumping(folder: Path, event: Path) -> dict[str, str]:
    """Return variables with which the clock jumps back an hour once a file is there."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(JUMPING, encoding="utf-8")
    names = {"CLOCK_JUMPS_WITH": str(event), "CLOCK_HAS_JUMPED": str(folder / "struck")}

    return {"PYTHONPATH": str(folder), **names}


def has_jumped(folder: Path) -> bool:
    return (folder / "struck").exists()


def costs(record: Path) -> list[float]:
    content = json.loads(record.read_text("utf-8"))
    return [content[name] for name in ("wall_s", "cpu_s", "gpu_s")]


def test_a_clock_that_jumps_back_while_training(
    finished: Scene, tmp_path: Path, record: Recorder
) -> None:
    made = finished.made
    (made.folder / "again").mkdir()
    shutil.copy2(made.folder / RUN / "run.yaml", made.folder / "again")
    data = str(RESULTS / "nouns/data")
    environment = jumping(tmp_path / "clock", made.folder / "again" / STATE)
    outcome = made.command(
        [sys.executable, "-m", "pam", "train", "--run", "again", "--data", data], **environment
    )

    assert outcome.code == 0, outcome.said
    assert has_jumped(tmp_path / "clock")

    weights = "model/weights.safetensors"
    expected = (made.folder / RUN / weights).read_bytes()

    assert (made.folder / "again" / weights).read_bytes() == expected
    assert all(0 <= cost < 600 for cost in costs(made.folder / "again/training.json"))

    record(
        fault="the clock jumps back an hour while a training runs",
        showed="bit-identical weights, no negative cost",
    )


@pytest.mark.faults
def test_a_clock_that_jumps_back_in_the_midst_of_a_run(
    scene: Scene, undisturbed: Reference, tmp_path: Path, record: Recorder
) -> None:
    outcome = scene.run(**jumping(tmp_path / "clock", scene.made.folder / RUN / STATE))
    assert outcome.code == 0, outcome.said
    assert has_jumped(tmp_path / "clock")
    assert results(scene.made) == results(undisturbed[0])
    assert "Nothing to be done" in scene.run("--dry-run").said
    for name in ("training.json", "beam1/decoding.json"):
        assert all(0 <= cost < 600 for cost in costs(scene.made.folder / RUN / name))

    record(
        fault="the clock jumps back an hour in the midst of a run",
        showed="bit-identical results, no negative cost, and nothing was left to do",
    )


def shift(folder: Path, seconds: float) -> None:
    """Change the times of files, as if the clock had jumped after they were written."""
    for path in folder.rglob("*"):
        when = path.stat().st_mtime + seconds
        os.utime(path, (when, when), follow_symlinks=False)


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["back", "forth"])
def test_times_of_files_alone_make_nothing_run_again(
    finished: Scene, record: Recorder, jump: float
) -> None:
    for folder in ("data", RESULTS / "nouns/data", RUN / "model"):
        shift(finished.made.folder / folder, jump)

    output = finished.run("--dry-run").said
    assert "Nothing to be done" in output, output

    record(
        fault="the clock jumps by a day between two steps of a run",
        showed="nothing is made again for it",
    )


@pytest.mark.faults
def test_the_same_of_large_files(scene: Scene, record: Recorder) -> None:
    rows = "".join(f"{number:x}\tnumber=singular\t{number:x}\n" for number in range(2**17, 2**18))
    text = (scene.made.folder / "own/datasets.yaml").read_text("utf-8")
    sources = "".join(
        f"    {name}.tsv: {{path: {name}.tsv}}\n" for name in ("train", "dev", "test")
    )
    scene.made.write("own/datasets.yaml", text.partition("    train.tsv")[0] + sources)
    scene.made.write("own/train.tsv", rows)
    scene.made.edit("own/experiment.yaml", "epochs: 20", "max_steps: 3")

    assert scene.run("train").code == 0

    data = scene.made.folder / RESULTS / "nouns/data"
    assert (data / "train.tsv").stat().st_size > 2**20

    shift(data, DAY)
    output = scene.run("--dry-run", "train").said

    assert "Nothing to be done" in output, output

    record(fault="the same with files of megabytes", showed="nothing is made again for it")
