"""Write the words of the report's page: the finding, and cautions on the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pam.decoding import protections
from pam.evaluation.metrics import Metric, metric_of
from pam.experiments.config import Experiment
from pam.reporting.cells import interval, signed
from pam.reporting.comparison import LEAST_SEEDS, outcome_of
from pam.reporting.runs import TaskRuns

# The finding.


def finding(
    label: str, metric: Metric, rows: pd.DataFrame, gains: pd.DataFrame, names: Mapping[str, str]
) -> str:
    """Say in one sentence which model is ahead on a task, and by how much.

    The sentence goes on with the number of models that are told from the baseline, and of gains
    that agree with the paper's.

    Args:
        label: the task's label.
        metric: the metric that decides.
        rows: of that task and metric, from the CSV of a comparison. Columns `value_text` and
            `interval_text`, if there are some, have the numbers as the table shows them to people.
        gains: the same from the CSV of its gains.
        names: model -> label, of the models that count.
    """
    rows = rows[rows["model"].isin(list(names))]
    gains = gains[gains["model"].isin(list(names))]

    means = rows.set_index("model")["mean"].astype(float)
    best = str(means.idxmin() if metric.lower_is_better else means.idxmax())
    value = _value(metric, rows[rows["model"] == best].iloc[0])
    seeds = _seeds(rows)
    if gains.empty:
        return f"On {label}, {names[best]} has {value} ({seeds})."
    if int(gains["seeds"].astype(int).max()) < LEAST_SEEDS:
        seeds += f"; a gain is judged from {LEAST_SEEDS} seeds on"

    base = names.get(str(gains["baseline"].iloc[0]), "the baseline")
    # Every model but the baseline has a gain.
    base_is_best = best not in list(gains["model"])
    if base_is_best:
        text = f"On {label}, no model is ahead of {base} with {value}"
    else:
        gain = _gain(gains[gains["model"] == best].iloc[0], metric, base)
        text = f"On {label}, {names[best]} is ahead with {value}, {gain}"

    outcomes = [outcome for _, gain in gains.iterrows() if (outcome := _outcome(gain))]
    if len(outcomes) > 1 or (outcomes and base_is_best):
        text += _counted(outcomes, base)
    text += _agreement(list(gains["direction"]))
    return f"{text} ({seeds})."


def _value(metric: Metric, row: Any) -> str:
    """Return a model's mean with its metric, unit and interval."""
    quality = re.sub(r", (beam \d+)$", r" (\1)", metric.label)
    # A label that is no abbreviation goes on in small letters within a sentence.
    if quality[1].islower():
        quality = quality[0].lower() + quality[1:]

    mean = row.get("value_text") or f"{float(row['mean']):.{metric.decimals}f}"
    if metric.unit:
        mean += f" {metric.unit}"

    return f"{quality} {mean} {_ends(row, metric.decimals)}"


def _agreement(directions: Sequence[str]) -> str:
    """Say how many gains agree with the paper's in direction; empty if none is judged."""
    judged = [word for word in directions if word in ("agrees", "contradicts", "cannot tell")]
    if not judged:
        return ""

    return (
        f"; of {len(judged)} gain{'s' * (len(judged) > 1)} that the paper reports, ours agree"
        f" in direction with {judged.count('agrees') or 'none'} and contradict"
        f" {judged.count('contradicts') or 'none'}"
    )


def _gain(gain: Any, metric: Metric, base: str) -> str:
    """Return a gain over the baseline, and say so if it may be chance."""
    value = gain.get("value_text") or signed(float(gain["gain"]), metric.decimals)
    if metric.unit == "%":
        value += " points"
    elif metric.unit:
        value += f" {metric.unit}"

    outcome = _outcome(gain)
    if outcome is None:
        return f"{value} over {base}"

    text = f"{value} {_ends(gain, metric.decimals, sign=True)} over {base}"
    if outcome == "undecided":
        text += ", a gain that may be chance"
    return text


def _counted(outcomes: Sequence[str], base: str) -> str:
    """Say how many models are better and worse than the baseline."""
    better = outcomes.count("better")
    worse = outcomes.count("worse")
    undecided = outcomes.count("undecided")
    verb = "is" if better == 1 else "are"

    return (
        f"; of {len(outcomes)} model{'s' * (len(outcomes) > 1)} compared with {base},"
        f" {better or 'none'} {verb} better, {worse or 'none'} worse and"
        f" {undecided or 'none'} undecided"
    )


def _ends(row: Any, digits: int, sign: bool = False) -> str:
    """Return an interval as the table shows it, else with as many digits as tell its ends apart."""
    text = row.get("interval_text")
    if text:
        return str(text)

    low = float(row["low"])
    high = float(row["high"])

    while digits < 8 and low != high and round(low, digits) == round(high, digits):
        digits += 1
    return interval(low, high, digits, sign)


def _outcome(gain: Any) -> str | None:
    """Return `better`, `worse` or `undecided`; None with too few seeds to judge."""
    if int(gain["seeds"]) < LEAST_SEEDS:
        return None

    return outcome_of(float(gain["low"]), float(gain["high"]))


def _seeds(rows: pd.DataFrame) -> str:
    """Return the number of seeds, such as `5 seeds` or `3-5 seeds`."""
    counts = rows["n"].astype(int)
    fewest = counts.min()
    most = counts.max()

    if most == 1:
        return "one seed"
    if fewest == most:
        return f"{most} seeds"
    return f"{fewest}-{most} seeds"


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
