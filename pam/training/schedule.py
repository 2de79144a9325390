"""The learning rate over a run."""

from __future__ import annotations

from pam.config import Training


def learning_rate(training: Training, step: int, steps: int) -> float:
    """The rate of a step: a linear rise, a plateau, a linear fall to zero.

    Args:
        training: `learning_rate` is the plateau, `warmup_steps` the rise, `flat` the share of the
            run after which the rate falls.
        step: from 0; steps: in the whole run.
    """
    rise = min(1.0, (step + 1) / max(1, training.warmup_steps))
    left = (steps - step) / steps
    fall = 1.0 if training.flat >= 1 else min(1.0, left / (1 - training.flat))
    return training.learning_rate * rise * fall
