"""The analyses of an experiment's runs: seeds added up, by task and model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.config import Experiment
from pam.evaluation.attention import Analysis, load
from pam.evaluation.metrics import Floats
from pam.io import UserError
from pam.reporting.runs import load_experiment


@dataclass(frozen=True)
class TaskAnalyses:
    """One task: its label, and each model's analyses by seed, models as the experiment has them."""

    label: str
    models: dict[str, list[Analysis]]

    def total(self, model: str, counts: Callable[[Analysis], Sequence[int]]) -> Floats:
        """A model's counts, such as those of a histogram, added up over seeds."""
        found = np.array([counts(one) for one in self.models[model]], dtype=np.float64)
        total: Floats = found.sum(axis=0)
        return total


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of a figure that is made of analyses."""
    parser.add_argument("--experiment", type=Path, required=True, help="configuration (YAML)")
    parser.add_argument(
        "--analyses", type=Path, nargs="+", required=True, help="analysis.json of every run"
    )


def read(args: argparse.Namespace) -> list[TaskAnalyses]:
    """Reads and groups, tasks and models in the order of the experiment.

    Raises:
        UserError: an analysis of a task that the experiment does not have.
    """
    experiment = load_experiment(args.experiment)
    found = []
    for path in args.analyses:
        found.append(load(path))
        if found[-1].task not in experiment.tasks:
            raise UserError(
                f"this is task `{found[-1].task}`, not one of `{experiment.experiment}`",
                file=path,
                hint="draw each experiment on its own",
            )
    return [
        _task(name, [one for one in found if one.task == name], experiment)
        for name in experiment.tasks
        if any(one.task == name for one in found)
    ]


def labels(tasks: Sequence[TaskAnalyses]) -> dict[str, str]:
    """Every model that any task has, with its name."""
    return {model: own[0].label for task in tasks for model, own in task.models.items()}


def _task(name: str, found: Sequence[Analysis], experiment: Experiment) -> TaskAnalyses:
    models = {
        model: sorted((one for one in found if one.model == model), key=lambda one: one.seed)
        for model in experiment.models_of(name)
    }
    label = experiment.tasks[name].label or name
    return TaskAnalyses(label, {model: own for model, own in models.items() if own})
