"""Saving its state takes no more than a small part of a training's time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.training import checkpoint
from pam.training.checkpoint import SAVING_SHARE, CheckpointTimer, StateFolder
from pam.training.trainer import Trainer
from tests.training import small
from tests.training.trainers import trained


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(checkpoint, "monotonic", clock)
    return clock


def seconds_to_next(timer: CheckpointTimer, clock: Clock) -> int:
    start = clock.now
    while not timer.due():
        clock.now += 1
    return round(clock.now - start)


def save(timer: CheckpointTimer, clock: Clock, took: float) -> None:
    with timer.saving():
        clock.now += took


@pytest.mark.parametrize(("took", "wait"), [(0.1, 30), (10, 190)])
def test_slow_saving_is_seldom(took: float, wait: int, clock: Clock) -> None:
    timer = CheckpointTimer(30.0)
    assert seconds_to_next(timer, clock) == 30

    save(timer, clock, took)
    assert seconds_to_next(timer, clock) == wait
    assert took / (took + wait) <= SAVING_SHARE


def test_zero_asks_for_a_state_after_every_batch(clock: Clock) -> None:
    timer = CheckpointTimer(0.0)
    save(timer, clock, 10)
    assert timer.due()


def test_a_training_on_a_slow_disk_saves_seldom(
    data: Path, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = []

    def slowly(*_: object) -> None:
        saves.append(clock.now)
        clock.now += 10

    step = Trainer._step

    def stepped(*arguments: object) -> int:
        clock.now += 1
        return step(*arguments)

    monkeypatch.setattr(StateFolder, "save", slowly)
    monkeypatch.setattr(Trainer, "_step", stepped)
    # Each step takes a second, and each state ten seconds, so that only one more is due.
    run = small.run("soft", epochs=2, batch_size=15, state_every_s=2.0)
    trained(run, data, tmp_path)
    within, *ends = saves

    assert within == 2
    assert len(ends) == 2, "no other but those at the ends of epochs"
