"""The learning rate over a run."""

from __future__ import annotations

from pam.config import Training


def learning_rate(training: Training, step: int, steps: int) -> float:
    """The rate at a step: a linear warm-up, a plateau, and a decay, linear to zero or by halves.

    Args:
        training: `learning_rate` is the plateau, `warmup_steps` the warm-up; `flat` is the share of the run after which
            a `linear` rate decays; `halve_after` and `halve_every` are the steps at which a `halving` one does.
        step: from 0; steps: in the whole run.
    """
    warmup = min(1.0, (step + 1) / max(1, training.warmup_steps))
    if training.schedule == "halving":
        late = step - training.halve_after
        halvings = 1 + late // training.halve_every if late >= 0 else 0
        return training.learning_rate * warmup * float(0.5**halvings)
    left = (steps - step) / steps
    decay = 1.0 if training.flat >= 1 else min(1.0, left / (1 - training.flat))
    return training.learning_rate * warmup * decay
