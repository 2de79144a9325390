"""The state of a training: whose it is, what happens when it is damaged, who may use it."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pam.data.dataset import write_summary
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.models.checkpoint import load_tensors, save_tensors
from pam.runtime.errors import UserError
from pam.runtime.files import write_text
from pam.training.again import is_finished
from pam.training.checkpoint import (
    CURRENT,
    FINISHED,
    PREVIOUS,
    Progress,
    Results,
    StateFolder,
    locked,
)
from tests.training import runs, small
from tests.training.runs import Fault

RUN = small.run("prior-joint")
STEP = ("pam.training.trainer", "Trainer._step")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without a stop."""
    out = tmp_path_factory.mktemp("whole")
    assert runs.train(RUN, data, out).end() == 0
    return out


@pytest.fixture(scope="module")
def killed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train, killed before the seventh step, with the states after five and six."""
    out = tmp_path_factory.mktemp("killed")
    stopped = runs.train(RUN, data, out, Fault(*STEP, 7))
    assert stopped.end() == -signal.SIGKILL
    return out


@pytest.fixture
def stopped(killed: Path, tmp_path: Path) -> Path:
    """Copy the killed training, to damage it."""
    return Path(shutil.copytree(killed, tmp_path / "stopped"))


def flipped(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0x10
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
def test_the_state_before_replaces_a_damaged_one(
    name: str, stopped: Path, whole: Path, data: Path
) -> None:
    DAMAGES[name](stopped / "state" / CURRENT)
    again = runs.train(RUN, data, stopped)
    assert again.end() == 0
    assert f"{CURRENT}: not usable" in again.said()
    assert "resuming from epoch 2, batch 2" in again.said()
    assert "Traceback" not in again.said()
    assert runs.result(stopped) == runs.result(whole)


def test_with_both_states_damaged_the_training_begins_anew(
    stopped: Path, whole: Path, data: Path
) -> None:
    flipped(stopped / "state" / CURRENT, 0.5)
    flipped(stopped / "state" / PREVIOUS, 0.5)
    again = runs.train(RUN, data, stopped)

    assert again.end() == 0
    assert "Traceback" not in again.said()
    assert runs.record_of(stopped)["resumed"] == 0
    assert runs.result(stopped) == runs.result(whole)


def test_no_flipped_bit_anywhere_in_the_header_goes_unnoticed(tmp_path: Path) -> None:
    states = StateFolder(tmp_path, "key")
    states.save({"model.weight": torch.arange(3.0)}, Progress(epoch=1, batch=7, loss=0.25))
    path = tmp_path / CURRENT
    sound = path.read_bytes()

    # One bit of each byte, by turns a low one and a high one.
    for position in range(len(sound)):
        bit = (0x01, 0x04, 0x40)[position % 3]
        content = bytearray(sound)
        content[position] ^= bit
        path.write_bytes(content)
        assert states.load() is None, (position, bit)


@pytest.mark.parametrize("changed", ["configuration", "code", "data"])
def test_a_state_of_another_training_is_begun_anew(
    changed: str, stopped: Path, data: Path, tmp_path: Path
) -> None:
    run: RunConfig = small.run("prior-joint", epochs=2) if changed == "configuration" else RUN
    code = "other code" if changed == "code" else "this code"
    if changed == "data":
        rows = {**small.ROWS, "train": small.ROWS["train"][1:]}
        data = small.prepare(tmp_path / "other", rows)
    again = runs.train(run, data, stopped, code=code)
    fresh = runs.train(run, data, tmp_path / "new", code=code)

    assert (again.end(), fresh.end()) == (0, 0)
    assert "of another configuration, data or code: starting from the first epoch" in again.said()
    assert runs.record_of(stopped)["resumed"] == 0
    assert runs.result(stopped) == runs.result(tmp_path / "new")


def _two_at_once(data: Path, out: Path) -> tuple[runs.Command, runs.Command]:
    """Start a training that is halted midway, and a second one that waits for it."""
    first = runs.train(RUN, data, out, Fault(*STEP, 7, "halted"))
    first.says("epoch 1 of 3")
    first.halts()
    second = runs.train(RUN, data, out, log="second")
    second.says("waiting for it")

    return first, second


def test_a_second_process_waits_for_the_first_and_goes_on_from_its_last_state(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    first, second = _two_at_once(data, tmp_path)
    first.signal(signal.SIGKILL)
    assert second.end() == 0, second.said()

    holder = f"process {first.process.pid} on {platform.node()}"
    notice = f"{tmp_path / 'state'}: another process is at work here ({holder}, since "
    assert second.said().count(notice) == second.said().count("waiting for it") == 1
    assert "resuming from epoch 2" in second.said()
    assert runs.result(tmp_path) == runs.result(whole)


def test_a_second_process_leaves_alone_what_the_first_has_finished_meanwhile(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    first, second = _two_at_once(data, tmp_path)
    first.signal(signal.SIGCONT)
    assert (first.end(), second.end()) == (0, 0), second.said()
    assert "finished already" in second.said() and " epoch " not in second.said()
    assert runs.result(tmp_path) == runs.result(whole)
    assert runs.record_of(tmp_path)["resumed"] == 0


def test_a_process_that_waits_ends_when_it_is_asked_to(data: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "state"):
        waiting = runs.train(RUN, data, tmp_path)
        waiting.says("waiting for it")
        waiting.signal(signal.SIGTERM)
        assert waiting.end() == -signal.SIGTERM


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Path:
    """Copy the finished training; remove some of its outputs, as a workflow does."""
    out = Path(shutil.copytree(whole, tmp_path / "finished"))
    shutil.rmtree(out / "model")
    (out / "training.json").unlink()
    return out


def test_a_finished_training_gives_its_results_again_and_is_not_trained_again(
    finished: Path, whole: Path, data: Path
) -> None:
    began = time.time()
    again = runs.train(RUN, data, finished)
    assert again.end() == 0, again.said()
    assert "finished already" in again.said() and " epoch " not in again.said()
    assert runs.result(finished) == runs.result(whole)
    assert runs.record_of(finished) == runs.record_of(whole)

    outputs = [*(finished / "model").iterdir(), finished / "history.csv"]
    # Older than the data, they would be made once more.
    assert all(path.stat().st_mtime >= int(began) for path in outputs)


def test_a_finished_training_that_is_asked_for_again_is_trained_again_once(
    finished: Path, whole: Path, data: Path, tmp_path: Path
) -> None:
    run = RunFolder(finished)
    state = finished / "state"
    other = small.prepare(tmp_path / "other", {**small.ROWS, "train": small.ROWS["train"][1:]})
    assert is_finished(run, data, state, "this code")
    assert not is_finished(run, data, state, "other code")
    assert not is_finished(run, other, state, "this code")

    # The same numbers, of which other texts are made.
    other_texts = Path(shutil.copytree(data, tmp_path / "texts"))
    summary = json.loads((other_texts / "summary.json").read_text(encoding="utf-8"))
    write_text(other_texts / "codec.json", (data / "codec.json").read_text(encoding="utf-8") + " ")
    write_summary(other_texts, summary)
    assert not is_finished(run, other_texts, state, "this code")

    run.asked_again.touch()
    again = runs.train(RUN, data, finished)
    assert again.end() == 0, again.said()
    assert "finished already" not in again.said() and "epoch 3 of 3" in again.said()
    assert runs.result(finished) == runs.result(whole)
    assert not run.asked_again.exists() and is_finished(run, data, state, "this code")


@pytest.mark.parametrize("changed", ["code", "a kept result", "the mark", "a file too many"])
def test_results_that_are_not_this_trainings_or_not_whole_are_made_again(
    changed: str, finished: Path, whole: Path, data: Path
) -> None:
    kept = finished / "state" / "finished"
    if changed == "a kept result":
        flipped(kept / "model" / "weights.safetensors", 0.5)
    if changed == "the mark":
        (kept / FINISHED).write_text("{", encoding="utf-8")
    if changed == "a file too many":
        (kept / "model" / "codes.txt").write_text("of another model", encoding="utf-8")
    again = runs.train(RUN, data, finished, code="new" if changed == "code" else "this code")

    assert again.end() == 0, again.said()
    assert "finished already" not in again.said() and "epoch 3 of 3" in again.said()
    assert runs.result(finished) == runs.result(whole)


def test_results_take_no_room_twice_where_files_can_have_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    results = Results(tmp_path / "kept", "key")
    write_text(results.folder / "model" / "weights", "many numbers")
    results.complete()
    kept = results.folder / "model" / "weights"
    # Publishing once more changes nothing.
    for _ in range(2):
        results.publish(tmp_path / "out")
        assert (tmp_path / "out" / "model" / "weights").samefile(kept)

    monkeypatch.setattr(os, "link", refuse)
    results.publish(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "model" / "weights").read_text() == "many numbers"
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_a_dead_process_holds_nothing(tmp_path: Path, data: Path) -> None:
    out = tmp_path / "out"
    runs.train(RUN, data, out, Fault(*STEP, 1)).end()
    assert (out / "state" / "lock").exists()

    with locked(out / "state"):
        pass


def test_a_file_in_the_place_of_the_state_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError) as raised, locked(tmp_path / "state"):
        pass

    assert raised.value.file == str(tmp_path / "state" / "lock")
    assert raised.value.hint


def test_notes_and_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3).t(), "b": torch.tensor(3, dtype=torch.int64)}
    save_tensors(tmp_path / "file", tensors, {"note": "Größe"})
    loaded, notes = load_tensors(tmp_path / "file")

    assert notes == {"note": "Größe"}
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)

    save_tensors(tmp_path / "again", dict(reversed(tensors.items())), {"note": "Größe"})
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()
