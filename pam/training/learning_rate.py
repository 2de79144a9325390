"""The learning rate at each step, by the name that `training.schedule` gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pam.experiments.settings import Training


def learning_rate(training: Training, step: int, steps: int, bounds: Sequence[float] = ()) -> float:
    """Return the learning rate at a step, from 0, of `steps`.

    It rises linearly in the warm-up, and then follows the schedule.

    Args:
        bounds: minus the objective on the development split, for each epoch so far; `plateau`
            watches them.
    """
    warmup = min(1.0, (step + 1) / max(1, training.warmup_steps))
    share = SCHEDULES[training.schedule](training, step, steps, bounds)

    return training.learning_rate * warmup * share


def _linear(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Stay flat, then fall linearly to zero."""
    if training.flat >= 1:
        return 1.0

    return min(1.0, (steps - step) / steps / (1 - training.flat))


def _halving(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Halve the rate at given steps (Luong et al. 2015)."""
    late = step - training.halve_after
    if late < 0:
        return 1.0

    return 0.5 ** (1 + late // training.halve_every)


def _plateau(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Halve the rate after each epoch that is worse than the best one before it.

    OpenNMT-py does so, and the published code of Deng et al. (2018).
    """
    halvings = 0
    for epoch, bound in enumerate(bounds, start=1):
        if epoch > 1 and epoch >= training.halve_from and bound > min(bounds[: epoch - 1]):
            halvings += 1

    return 0.5**halvings


def _inverse_sqrt(training: Training, step: int, steps: int, bounds: Sequence[float]) -> float:
    """Let the rate fall with the root of the step, from the end of the warm-up on.

    This is equation 3 of Vaswani et al. (2017).
    """
    warmup = max(1, training.warmup_steps)

    return math.sqrt(warmup / max(warmup, step + 1))


SCHEDULES: dict[str, Callable[[Training, int, int, Sequence[float]], float]] = {
    "linear": _linear,
    "halving": _halving,
    "plateau": _plateau,
    "inverse_sqrt": _inverse_sqrt,
}
"""The schedules by their names in YAML.

Each returns the share of the highest rate that is left at a step.
"""
