"""A training that is killed goes on to the very result that it would have had."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pam.training.checkpoint import CURRENT, SPARE
from tests.training import runs, small
from tests.training.runs import Fault

STEP = ("pam.training.trainer", "Trainer._step")
SAVE = ("pam.training.checkpoint", "save_tensors")
RUN = small.run("postr-joint", epochs=2, batch_size=20)
"""Two epochs of three steps, with a state after each."""

MOMENTS: dict[str, tuple[Fault, int]] = {
    # The moment, and how many states were resumed after it.
    "before anything is saved": (Fault(*STEP, 1), 0),
    "within the first epoch": (Fault(*STEP, 3), 1),
    "within a later epoch": (Fault(*STEP, 5), 1),
    "in the evaluation between epochs": (Fault("pam.training.trainer", "evaluate", 1), 1),
    "between two epochs, before the state of the first": (Fault(*SAVE, 3), 1),
    "between two epochs": (Fault(*STEP, 4), 1),
    "when the reserve is in place and the state is not yet written": (Fault(*SAVE, 5), 1),
    "when a state is written and not yet flushed": (Fault("pam.runtime.files", "_flush", 5), 1),
    "when a state is flushed and not yet renamed": (Fault("pathlib", "Path.chmod", 5), 1),
    "when the first state is not yet renamed": (Fault("pathlib", "Path.chmod", 1), 0),
    "when all is trained and nothing is written": (
        Fault("pam.models.checkpoint", "save_model", 1),
        1,
    ),
    "when the model is written and its history is not": (
        Fault("pam.training.logging", "write_history", 1),
        1,
    ),
    "when all is written and not marked as whole": (
        Fault("pam.training.checkpoint", "Results.complete", 1),
        1,
    ),
    "when all is written and the state is not cleared": (
        Fault("pam.training.checkpoint", "StateFolder.clear", 1),
        0,
    ),
    "when all is written and nothing is in its place": (
        Fault("pam.training.checkpoint", "Results.publish", 1),
        0,
    ),
    "when some of it is in its place": (Fault("pam.training.checkpoint", "_link_or_copy", 4), 0),
}


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without a stop, with a state saved at the end of each epoch only."""
    out = tmp_path_factory.mktemp("undisturbed")
    run = small.run("postr-joint", epochs=2, batch_size=20, state_every_s=60.0)
    assert runs.train(run, data, out).end() == 0
    return out


@pytest.mark.parametrize("name", MOMENTS)
def test_a_training_killed_at_this_moment_goes_on_to_the_same_result(
    name: str, data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    fault, resumed = MOMENTS[name]
    assert runs.train(RUN, data, tmp_path, fault).end() == -signal.SIGKILL

    again = runs.train(RUN, data, tmp_path)
    assert again.end() == 0, again.said()
    assert runs.result(tmp_path) == runs.result(undisturbed)
    assert runs.record_of(tmp_path)["resumed"] == resumed


@pytest.mark.parametrize("model", ["acvi", "hard-moving"])
def test_what_a_training_draws_and_averages_is_resumed_too(
    model: str, data: Path, tmp_path: Path
) -> None:
    run = small.run(model, epochs=2, batch_size=20)
    whole = tmp_path / "whole"
    killed = tmp_path / "killed"

    assert runs.train(run, data, whole).end() == 0
    assert runs.train(run, data, killed, Fault(*STEP, 5)).end() == -signal.SIGKILL
    assert runs.train(run, data, killed).end() == 0
    assert runs.result(killed) == runs.result(whole)


PHASES = [
    {"until": 2, "source": 3, "target": 2},
    {"until": 6, "source": 6},
    {"source": 9, "target": 7},
]


IN_PHASES = small.run("soft-pointer-coverage", phases=PHASES)


@pytest.fixture(scope="module")
def phases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train in phases without a stop."""
    out = tmp_path_factory.mktemp("phases")
    assert runs.train(IN_PHASES, data, out).end() == 0
    return out


@pytest.mark.parametrize(
    "step", [3, 4, 7, *(pytest.param(step, marks=pytest.mark.faults) for step in (2, 6))]
)
def test_a_training_in_phases_is_resumed_within_a_phase_and_between_two(
    step: int, data: Path, phases: Path, tmp_path: Path
) -> None:
    killed = runs.train(IN_PHASES, data, tmp_path, Fault(*STEP, step))
    assert killed.end() == -signal.SIGKILL
    assert runs.train(IN_PHASES, data, tmp_path).end() == 0
    assert runs.result(tmp_path) == runs.result(phases)


def test_a_training_stopped_in_an_evaluation_evaluates_what_its_schedules_say(
    data: Path, tmp_path: Path
) -> None:
    """Coverage that is not active yet would change the loss."""
    run = small.run("soft-pointer-coverage")
    whole = tmp_path / "whole"
    stopped = tmp_path / "stopped"

    assert runs.train(run, data, whole).end() == 0
    fault = Fault("pam.training.trainer", "evaluate", 2, "interrupted")
    assert runs.train(run, data, stopped, fault).end() == 130
    assert runs.train(run, data, stopped).end() == 0
    assert runs.result(stopped) == runs.result(whole)


def test_a_training_killed_again_and_again_goes_on_to_the_same_result(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    for number in (3, 2, 3):
        assert runs.train(RUN, data, tmp_path, Fault(*STEP, number)).end() == -signal.SIGKILL

    assert runs.train(RUN, data, tmp_path).end() == 0
    assert runs.result(tmp_path) == runs.result(undisturbed)
    assert runs.record_of(tmp_path)["resumed"] == 3


def test_a_training_that_is_interrupted_says_so_and_goes_on_later(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    stopped = runs.train(RUN, data, tmp_path, Fault(*STEP, 5, "interrupted"))
    assert stopped.end() == 130
    assert stopped.said().endswith(" stopped in epoch 2 after batch 2 of 3; the state is saved\n")
    assert "Traceback" not in stopped.said()

    assert runs.train(RUN, data, tmp_path).end() == 0
    assert runs.result(tmp_path) == runs.result(undisturbed)
    assert runs.record_of(tmp_path)["resumed"] == 1


@pytest.mark.faults
def test_the_command_itself_killed_from_outside_goes_on_to_the_same_result(
    data: Path, tmp_path: Path
) -> None:
    """The command is killed at no chosen moment but that a state is there."""
    run = small.run("postr-joint", epochs=20, select="loss")
    whole = tmp_path / "whole"
    killed = tmp_path / "killed"
    assert runs.train(run, data, whole).end() == 0

    command = runs.train(run, data, killed)
    command.waits((killed / "state" / CURRENT).exists)
    command.signal(signal.SIGKILL)

    assert command.end() == -signal.SIGKILL
    assert not (killed / "training.json").exists()

    again = runs.train(run, data, killed)

    assert again.end() == 0, again.said()
    assert "resuming from epoch" in again.said()
    assert runs.result(killed) == runs.result(whole)


def test_what_a_killed_process_left_half_written_is_cleared_away(
    data: Path, tmp_path: Path
) -> None:
    run = small.run()
    state = tmp_path / "state"
    state.mkdir()
    (state / ".own").write_text("a file that is not ours")
    runs.train(run, data, tmp_path, Fault("pam.runtime.files", "_flush", 5)).end()

    assert any(path.name.startswith(f".{CURRENT}.") for path in state.iterdir())

    runs.train(run, data, tmp_path, Fault("pathlib", "Path.replace", 1)).end()
    assert (state / SPARE).exists()
    assert runs.train(run, data, tmp_path).end() == 0
    assert {path.name for path in state.iterdir()} == {"lock", "finished", ".own"}
