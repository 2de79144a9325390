"""A training that is to stop saves its state first, and goes on to the very same result."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from pam.training.preemption import Stop, Stopped
from tests.training import runs, small
from tests.training.trainers import Result, trained

RUN = small.run("postr-joint", epochs=2, batch_size=30, average=2, state_every_s=60.0)
CHECKS = 10
"""Checks of the time limit in two epochs.

Each epoch has one after two steps, two batches of the evaluation, and its end.
"""


def at(number: int) -> Callable[[], bool]:
    """Make a time limit that is near when it is checked for the `number`-th time."""
    calls = itertools.count(1)
    return lambda: next(calls) >= number


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return trained(RUN, data, tmp_path_factory.mktemp("whole"), Stop(at(CHECKS + 1)))


@pytest.mark.parametrize("number", range(1, CHECKS + 1))
def test_a_time_limit_that_is_near_at_any_moment_costs_nothing(
    number: int, undisturbed: Result, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(Stopped) as stopped:
        trained(RUN, data, tmp_path, Stop(at(number)))
    assert stopped.value.code == 128 + signal.SIGTERM

    weights, progress = trained(RUN, data, tmp_path)
    assert progress.resumed == 1
    assert all(torch.equal(weights[name], value) for name, value in undisturbed[0].items())

    losses = [
        [row["dev_loss"] for row in outcome.history] for outcome in (progress, undisturbed[1])
    ]

    assert losses[0] == losses[1]


def test_a_scheduler_that_ends_a_training_gets_a_saved_state(data: Path, tmp_path: Path) -> None:
    run = small.run("postr-joint", state_every_s=60.0)
    fault = runs.Fault("pam.training.trainer", "Trainer._step", 6, "ended")
    stopped = runs.train(run, data, tmp_path / "out", fault)

    assert stopped.end() == 128 + signal.SIGTERM
    assert stopped.said().endswith(" stopped in epoch 2 after batch 2 of 4; the state is saved\n")

    again = runs.train(run, data, tmp_path / "out")
    whole = runs.train(run, data, tmp_path / "whole")
    assert (again.end(), whole.end()) == (0, 0)
    assert "resuming from epoch 2, batch 3" in again.said()
    assert runs.result(tmp_path / "out") == runs.result(tmp_path / "whole")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as a terminal's, though what runs these tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_second_interruption_ends_at_once() -> None:
    stop = Stop()
    with stop.handle_signals():
        assert stop.exit_code() == 0
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.exit_code() == 128 + signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = Stop()
        with stop.handle_signals():
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.exit_code() == 0
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_ends_when_what_launched_it_is_gone() -> None:
    assert Stop(launcher=os.getppid()).exit_code() == 0
    assert Stop(launcher=os.getpid()).exit_code() == 128 + signal.SIGTERM
