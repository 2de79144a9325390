"""The state of a training: whose it is, what happens when it is damaged, who may use it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pam.config import Cell
from pam.errors import UserError
from pam.models.saved import load_tensors, save_tensors
from pam.training.state import CURRENT, PREVIOUS, Progress, StateFolder, locked
from tests.training import runs, small
from tests.training.runs import Fault

CELL = small.cell("prior-joint")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that was never stopped."""
    out = tmp_path_factory.mktemp("whole")
    assert runs.train(CELL, data, out).end() == 0
    return out


@pytest.fixture(scope="module")
def killed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, killed before its seventh step, with the states after five and six."""
    out = tmp_path_factory.mktemp("killed")
    stopped = runs.train(CELL, data, out, Fault("pam.training.loop", "Trainer._step", 7))
    assert stopped.end() == -signal.SIGKILL
    return out


@pytest.fixture
def stopped(killed: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(killed, tmp_path / "stopped"))


def flipped(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x10
    path.write_bytes(content)


def foreign(path: Path) -> None:
    save_tensors(path, {"weight": torch.ones(3)}, {"format": "something else"})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit among the weights": lambda path: flipped(path, 0.9),
    "a flipped bit in the header": lambda path: flipped(path, 0.01),
    "cut in the middle": lambda path: path.write_bytes(path.read_bytes()[: 1 << 14]),
    "empty": lambda path: path.write_bytes(b""),
    "something else": lambda path: path.write_text("once upon a time", encoding="utf-8"),
    "tensors of something else": foreign,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_state_before_stands_in_for_a_damaged_one(
    name: str, stopped: Path, whole: Path, data: Path
) -> None:
    DAMAGES[name](stopped / "state" / CURRENT)
    again = runs.train(CELL, data, stopped)
    assert again.end() == 0
    assert f"{CURRENT}: not usable" in again.said()
    assert "going on from epoch 2, batch 2" in again.said()
    assert "Traceback" not in again.said()
    assert runs.result(stopped) == runs.result(whole)


def test_with_both_states_damaged_the_training_begins_anew(
    stopped: Path, whole: Path, data: Path
) -> None:
    flipped(stopped / "state" / CURRENT, 0.5)
    flipped(stopped / "state" / PREVIOUS, 0.5)
    again = runs.train(CELL, data, stopped)
    assert again.end() == 0
    assert "Traceback" not in again.said()
    assert runs.record_of(stopped)["resumed"] == 0
    assert runs.result(stopped) == runs.result(whole)


def test_no_flipped_bit_anywhere_in_the_header_goes_unnoticed(tmp_path: Path) -> None:
    states = StateFolder(tmp_path, "key")
    states.save({"model.weight": torch.arange(3.0)}, Progress(epoch=1, batch=7, loss=0.25))
    path = tmp_path / CURRENT
    sound = path.read_bytes()
    for place in range(len(sound)):
        for bit in (0x01, 0x04, 0x40):
            content = bytearray(sound)
            content[place] ^= bit
            path.write_bytes(content)
            assert states.load() is None, (place, bit)


@pytest.mark.parametrize("changed", ["configuration", "code", "data"])
def test_a_state_of_another_training_is_begun_anew(
    changed: str, stopped: Path, data: Path, tmp_path: Path
) -> None:
    cell: Cell = small.cell("prior-joint", epochs=2) if changed == "configuration" else CELL
    code = "other code" if changed == "code" else "this code"
    if changed == "data":
        rows = {**small.ROWS, "train": small.ROWS["train"][1:]}
        data = small.prepare(tmp_path / "other", rows)
    again, fresh = (runs.train(cell, data, out, None, code) for out in (stopped, tmp_path / "new"))
    assert (again.end(), fresh.end()) == (0, 0)
    assert "of another configuration, data or code: starting anew" in again.said()
    assert runs.record_of(stopped)["resumed"] == 0
    assert runs.result(stopped) == runs.result(tmp_path / "new")


def test_a_second_process_on_the_same_state_ends_with_one_message(
    stopped: Path, whole: Path, data: Path
) -> None:
    state = stopped / "state"
    before = (state / CURRENT).read_bytes()
    with locked(state):
        second = runs.train(CELL, data, stopped)
        assert second.end() == 2
        (message, remedy) = second.said().splitlines()
        assert message.startswith(f"error: {state}: another process is training here (process ")
        assert remedy == "  remedy: wait for it, or stop it first"
        assert (state / CURRENT).read_bytes() == before
    assert runs.train(CELL, data, stopped).end() == 0
    assert runs.result(stopped) == runs.result(whole)


def test_a_dead_process_holds_nothing(tmp_path: Path, data: Path) -> None:
    out = tmp_path / "out"
    runs.train(CELL, data, out, Fault("pam.training.loop", "Trainer._step", 1)).end()
    assert (out / "state" / "lock").exists()
    with locked(out / "state"):
        pass


def test_a_file_in_the_place_of_the_state_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError) as raised, locked(tmp_path / "state"):
        pass
    assert raised.value.file == str(tmp_path / "state")
    assert raised.value.remedy


def test_notes_and_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3).t(), "b": torch.tensor(3, dtype=torch.int64)}
    save_tensors(tmp_path / "file", tensors, {"note": "Größe"})
    found, notes = load_tensors(tmp_path / "file")
    assert notes == {"note": "Größe"}
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    save_tensors(tmp_path / "again", dict(reversed(tensors.items())), {"note": "Größe"})
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()
