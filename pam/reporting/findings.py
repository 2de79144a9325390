"""Write the cautions of the page: what a reader has to know about a task's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pam.decoding import protections
from pam.evaluation.metrics import metric_of
from pam.experiments.experiment import Experiment
from pam.reporting.cells import signed
from pam.reporting.runs import TaskRuns

# Cautions.

# a last epoch that gains as much as this is still improving
RISE = 0.005  # of accuracy
FALL = 0.01  # of a loss, as a share of it


def cautions(
    experiment: Experiment,
    summaries: Mapping[str, Any],
    histories: pd.DataFrame,
    comparisons: Sequence[pd.DataFrame] = (),
    runs: Sequence[TaskRuns] = (),
) -> dict[str, list[str]]:
    """Return what a reader of a task's figures has to know, task by task.

    Args:
        summaries: `summary.json` of each task's prepared data.
        histories: the data of the figure of learning curves.
        comparisons: the data of the tables that compare models.
        runs: the scored runs of each task, which hold the records of decoding.
    """
    by_task = {}
    runs_by_task = {of_task.name: of_task for of_task in runs}
    for task, config in experiment.tasks.items():
        texts = list(summaries[task].get("warnings", []))
        texts += _extremes(task, experiment.models_of(task), comparisons)
        texts += _of_training(histories[histories["task"] == task])
        if task in runs_by_task:
            texts += protections.cautions(_decodings(runs_by_task[task]))
        if config.paper_reference and not config.paper:
            texts.append("the paper's figures are of other data than ours")
        by_task[task] = texts

    return by_task


def _decodings(runs: TaskRuns) -> dict[str, list[dict[str, Any]]]:
    """Return the records of decoding of each model, of all seeds and beams, by its label."""
    return {
        of_model[0].label: [record for run in of_model for record in run.decodings.values()]
        for of_model in runs.models.values()
    }


def _extremes(task: str, models: Sequence[str], comparisons: Sequence[pd.DataFrame]) -> list[str]:
    """Name the metrics by which all models of a task have the lowest or the highest value."""
    labels: dict[tuple[str, str], list[str]] = {}  # value and unit -> metrics
    for table in comparisons:
        rows = table[
            (table["task"] == task) & table["model"].isin(list(models)) & (table["mean"] != "")
        ]

        for name, of_metric in rows.groupby("metric", sort=False):
            metric = metric_of(str(name))
            values = set(of_metric["mean"].astype(float))
            # A metric without a span judges no output, and may be the same for all.
            if metric.span is None or len(values) != 1 or not values <= set(metric.span):
                continue

            (value,) = values
            of_value = labels.setdefault((f"{value:g}", metric.unit), [])
            if metric.label not in of_value:
                of_value.append(metric.label)

    texts = []
    for (value_text, unit), names in labels.items():
        score = f"{value_text} {unit}" if unit else value_text
        texts.append(
            f"{', '.join(names)}: {score} for all models, which training too short, a wrong code of"
            " the language, an unfit tokenizer or test rows that training has can cause; look at"
            " the outputs"
        )
    return texts


def _of_training(runs: pd.DataFrame) -> list[str]:
    """Say whether trainings differ in length, or were still improving in their last epoch."""
    models_by_steps: dict[int, list[str]] = {}
    improving = []
    for label, of_model in runs.groupby("label", sort=False):
        seeds = [seed for _, seed in of_model.groupby("seed")]
        for steps in dict.fromkeys(int(seed["step"].iloc[-1]) for seed in seeds):
            models_by_steps.setdefault(steps, []).append(str(label))
        gain = _last_gain(seeds)
        if gain is not None:
            improving.append(f"{label} ({gain})")

    texts = []
    if len(models_by_steps) > 1:
        lengths = "; ".join(
            f"{steps:,} steps: {', '.join(models)}"
            for steps, models in sorted(models_by_steps.items())
        )
        texts.append(f"trainings differ in length: {lengths}")
    if improving:
        texts.append(
            f"still improving in the last epoch, on the development split: {', '.join(improving)}"
        )
    return texts


def _last_gain(seeds: list[pd.DataFrame]) -> str | None:
    """Return the last epoch's gain on the development split, mean over seeds.

    None if the last epoch is not the best one, or gains little.
    """
    # Epochs that some seed has not reached do not count.
    epochs = min(map(len, seeds))
    for column, sign in (("dev_accuracy", 1.0), ("dev_loss", -1.0)):
        if not all(column in seed and seed[column].astype(bool).all() for seed in seeds):
            continue
        if epochs == 1:
            return None

        values = np.mean([seed[column].astype(float).to_numpy()[:epochs] for seed in seeds], axis=0)
        gain = sign * (values[-1] - values[-2])
        least_gain = RISE if sign > 0 else FALL * abs(values[-2])
        if gain < least_gain or sign * values[-1] < max(sign * values[:-1]):
            return None
        if sign > 0:
            return f"{100 * gain:+.1f} points"
        return f"loss {signed(-gain, 3)}"
    return None
