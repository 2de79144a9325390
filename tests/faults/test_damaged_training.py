"""A training whose state is damaged ends as if nothing had been, from a good state or anew."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.conftest import Recorder
from tests.faults.cases import numbered
from tests.faults.damage import damage
from tests.training import runs, small
from tests.training.runs import Fault

RUN = small.run("soft", epochs=2)
KILLED = Fault("pam.training.checkpoint", "save_tensors", 6)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.prepare(tmp_path_factory.mktemp("prepared") / "nouns")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without a disturbance."""
    out = tmp_path_factory.mktemp("whole")
    assert runs.train(RUN, data, out).end() == 0

    return out


@pytest.fixture(scope="module")
def killed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the same, killed while it saves its sixth state."""
    out = tmp_path_factory.mktemp("killed")
    assert runs.train(RUN, data, out, KILLED).end() < 0

    return out


def damaged(folder: Path, draw: random.Random) -> str:
    """Damage one or two files of a folder; return in words how."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    return ", ".join(damage(file, draw) for file in draw.sample(files, draw.choice([1, 1, 2])))


@pytest.mark.parametrize("number", numbered(40, sample=2))
def test_a_training_with_a_damaged_state_ends_with_the_same_weights(
    number: int, data: Path, whole: Path, killed: Path, tmp_path: Path, record: Recorder
) -> None:
    out = shutil.copytree(killed, tmp_path / "out")
    what = damaged(out / "state", random.Random(number))
    again = runs.train(RUN, data, out)

    assert again.end() == 0, f"{what}: {again.said()}"
    assert "Traceback" not in again.said()
    assert runs.result(out) == runs.result(whole), what

    record(
        fault="states of a killed training damaged",
        showed="it goes on from the last good state, or begins anew, and ends bit-identically",
    )


@pytest.mark.parametrize("number", numbered(20, sample=1))
def test_results_that_were_kept_are_not_taken_if_they_are_damaged(
    number: int, data: Path, whole: Path, tmp_path: Path, record: Recorder
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole / "state", out / "state")
    what = damaged(out / "state", random.Random(number))
    again = runs.train(RUN, data, out)

    assert again.end() == 0, f"{what}: {again.said()}"
    assert runs.result(out) == runs.result(whole), what

    record(
        fault="results that were kept of a finished training damaged",
        showed="it is trained once more, and ends bit-identically",
    )
