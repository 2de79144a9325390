"""More epochs of a training that is over: whether it can go on from its last state.

It can where no step depends on how many there are in all. Then 4 epochs after 2 are, to the bit,
what 4 epochs from the start are.
"""

from __future__ import annotations

from pathlib import Path

from pam.experiments.run_config import RunConfig
from pam.models.options import COMPONENTS
from pam.models.schedules import Schedule

LAST = "last.safetensors"
"""The last state of a finished training, in its state folder, if more epochs may follow."""


def reason_to_start_anew(run: RunConfig) -> str | None:
    """Say what makes the steps of a training depend on their number, None where nothing does."""
    training = run.training
    if training.schedule == "linear" and training.flat < 1:
        return "`training.schedule: linear` lets the rate fall over the total number of steps"

    for component in COMPONENTS:
        options = getattr(run.components, component)
        for name in type(options).model_fields:
            value = getattr(options, name)
            if isinstance(value, Schedule) and value.unit == "share":
                return f"`{component}.{name}` changes at shares of the whole training"

    return None


def differ_in_epochs(run: RunConfig, before: RunConfig) -> bool:
    """Return whether two trainings differ in the number of epochs and in nothing else."""
    config = run.training_config()
    config_before = before.as_written_for(run).training_config()
    epochs = config["training"].pop("epochs")
    epochs_before = config_before["training"].pop("epochs")

    return bool(config == config_before and epochs != epochs_before)


def reason_not_to_go_on(run: RunConfig, before: RunConfig, state: Path) -> str | None:
    """Say why a training cannot go on from one of another number of epochs, None if it can."""
    reason = reason_to_start_anew(run)
    if reason is not None:
        return reason
    if run.training.epochs < before.training.epochs:
        return "fewer epochs are requested than are done"
    if not (state / LAST).is_file():
        return "its last state is missing"
    return None
