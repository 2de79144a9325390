"""The learning rate at each step, by the name that `training.schedule` gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pam.config import Training


def learning_rate(training: Training, step: int, steps: int, bounds: Sequence[float] = ()) -> float:
    """The rate at a step, from 0, of so many: a linear warm-up, and then what the schedule says.

    `bounds` are what `plateau` watches: of each epoch so far, minus the objective on the
    development split.
    """
    warmup = min(1.0, (step + 1) / max(1, training.warmup_steps))
    return (
        training.learning_rate
        * warmup
        * SCHEDULES[training.schedule](training, step, steps, bounds)
    )


def _linear(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Flat, then linearly to zero."""
    return 1.0 if training.flat >= 1 else min(1.0, (steps - step) / steps / (1 - training.flat))


def _halving(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Halved at given steps (Luong et al. 2015)."""
    late = step - training.halve_after
    return 0.5 ** (1 + late // training.halve_every if late >= 0 else 0)


def _plateau(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Halved after each epoch that is worse than the best one before it, as in OpenNMT-py and in
    the published code of Deng et al. (2018).
    """
    worse = [bound > min(bounds[:epoch]) for epoch, bound in enumerate(bounds) if epoch]
    return 0.5 ** sum(
        is_worse for epoch, is_worse in enumerate(worse, start=2) if epoch >= training.halve_from
    )


def _inverse_sqrt(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Falls with the root of the step, from the end of the warm-up on (Vaswani et al.

    2017, equation 3).
    """
    warmup = max(1, training.warmup_steps)
    return math.sqrt(warmup / max(warmup, step + 1))


SCHEDULES: dict[str, Callable[[Training, int, int, Sequence[float]], float]] = {
    "linear": _linear,
    "halving": _halving,
    "plateau": _plateau,
    "inverse_sqrt": _inverse_sqrt,
}
"""By the names that YAML writes: the share of the highest rate that is left at a step."""
