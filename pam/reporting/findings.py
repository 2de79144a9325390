"""What the report's page says in words: what was found, in one sentence, and what bears on the
figures of a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pam.config import Experiment
from pam.evaluation.metrics import Metric, metric_of
from pam.reporting.comparison import LEAST_SEEDS
from pam.reporting.render import interval, signed

# What was found.


def finding(
    label: str, metric: Metric, rows: pd.DataFrame, gains: pd.DataFrame, names: Mapping[str, str]
) -> str:
    """One sentence about a task: which model is ahead, by how much, what of it is told from chance
    and from the paper.

    Args:
        label: the task's. rows, gains: of that task and metric, from the CSV of a comparison and
            that of its gains.
        names: model to label, of those that count.
    """
    rows = rows[rows["model"].isin(list(names))]
    gains = gains[gains["model"].isin(list(names))]
    means = rows.set_index("model")["mean"].astype(float)
    best = str(means.idxmin() if metric.lower_is_better else means.idxmax())
    row = rows[rows["model"] == best].iloc[0]
    unit = f" {metric.unit}" if metric.unit else ""
    quality = metric.label
    if quality[1].islower():
        quality = quality[0].lower() + quality[1:]
    value = (
        f"{quality} {float(row['mean']):.{metric.decimals}f}{unit} {_ends(row, metric.decimals)}"
    )
    if gains.empty:
        return f"On {label}, {names[best]} has {value} ({_seeds(rows)})."

    base = names.get(str(gains["baseline"].iloc[0]), "the baseline")
    if best in list(gains["model"]):
        points = " points" if metric.unit == "%" else unit
        gain = _gain(gains[gains["model"] == best].iloc[0], metric.decimals, points, base)
        text = f"On {label}, {names[best]} is ahead with {value}, {gain}"
    else:
        text = f"On {label}, no model is ahead of {base} with {value}"
    outcomes = [outcome for _, gain in gains.iterrows() if (outcome := _outcome(gain))]
    if len(outcomes) > 1 or (outcomes and best not in list(gains["model"])):
        text += _counted(outcomes, base)
    judged = list(
        gains["direction"][gains["direction"].isin(["agrees", "contradicts", "cannot tell"])]
    )
    if judged:
        text += (
            f"; of {len(judged)} gain{'s' * (len(judged) > 1)} that the paper reports, ours agree"
            f" in direction with {judged.count('agrees') or 'none'} and contradict"
            f" {judged.count('contradicts') or 'none'}"
        )
    return f"{text} ({_seeds(rows)})."


def _gain(gain: Any, digits: int, points: str, base: str) -> str:
    """A gain over the baseline, with what the seeds allow to say of it."""
    value = f"{signed(float(gain['gain']), digits)}{points}"
    outcome = _outcome(gain)
    if outcome is None:
        return f"{value} over {base}, with fewer than {LEAST_SEEDS} seeds, which are not judged"
    chance = ", a gain that may be chance" if outcome == "undecided" else ""
    return f"{value} {_ends(gain, digits, sign=True)} over {base}{chance}"


def _counted(outcomes: Sequence[str], base: str) -> str:
    """How many models are better and worse than the baseline."""
    better, worse, undecided = (outcomes.count(word) for word in ("better", "worse", "undecided"))
    return (
        f"; of {len(outcomes)} model{'s' * (len(outcomes) > 1)} compared with {base},"
        f" {better or 'none'} {_are(better)} better, {worse or 'none'} worse and"
        f" {undecided or 'none'} undecided"
    )


def _ends(row: Any, digits: int, sign: bool = False) -> str:
    low, high = float(row["low"]), float(row["high"])
    while digits < 8 and low != high and round(low, digits) == round(high, digits):
        digits += 1
    return interval(low, high, digits, sign)


def _outcome(gain: Any) -> str | None:
    """`better`, `worse` or `undecided`; None with too few seeds to judge."""
    if int(gain["seeds"]) < LEAST_SEEDS:
        return None
    if float(gain["low"]) > 0:
        return "better"
    return "worse" if float(gain["high"]) < 0 else "undecided"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _seeds(rows: pd.DataFrame) -> str:
    known = sorted(set(rows["n"].astype(int)))
    return (
        "one seed"
        if known == [1]
        else f"{'-'.join(map(str, dict.fromkeys([known[0], known[-1]])))} seeds"
    )


# What bears on figures.

# of accuracy, and of a loss as a share of itself, by which a last epoch still improves
RISE, FALL = (0.005, 0.01)


def cautions(
    experiment: Experiment,
    summaries: Mapping[str, Any],
    histories: pd.DataFrame,
    comparisons: Sequence[pd.DataFrame] = (),
) -> dict[str, list[str]]:
    """What a reader of a task's figures has to know, task by task.

    Args:
        summaries: `summary.json` of each task's prepared data.
        histories: the data of the figure of learning curves.
        comparisons: the data of the tables that compare models.
    """
    found = {}
    for task, own in experiment.tasks.items():
        other = (
            ["the paper's figures are of other data than ours"]
            if own.paper_reference and not own.paper
            else []
        )
        trained = _of_training(histories[histories["task"] == task])
        extremes = _extremes(task, experiment.models_of(task), comparisons)
        found[task] = [*summaries[task].get("warnings", []), *extremes, *trained, *other]
    return found


def _extremes(task: str, models: Sequence[str], comparisons: Sequence[pd.DataFrame]) -> list[str]:
    """Name the metrics by which all models of a task have the lowest or the highest value."""
    labels: dict[tuple[str, str], list[str]] = {}
    for table in comparisons:
        rows = table[
            (table["task"] == task) & table["model"].isin(list(models)) & (table["mean"] != "")
        ]
        for name, of_metric in rows.groupby("metric", sort=False):
            metric = metric_of(str(name))
            values = set(of_metric["mean"].astype(float))
            if metric.span is not None and len(values) == 1 and values <= set(metric.span):
                (value,) = values
                same = labels.setdefault((f"{value:g}", metric.unit), [])
                if metric.label not in same:
                    same.append(metric.label)
    found = []
    for (text, unit), names in labels.items():
        score = f"{text} {unit}" if unit else text
        found.append(
            f"{', '.join(names)}: {score} for all models, which training too short, a wrong code of"
            " the language, an unfit tokenizer or test rows that training has can cause; look at"
            " the outputs"
        )
    return found


def _of_training(runs: pd.DataFrame) -> list[str]:
    """Whether trainings differ in length, or were still improving in their last epoch."""
    steps: dict[int, list[str]] = {}
    rising = []
    for label, own in runs.groupby("label", sort=False):
        seeds = [seed for _, seed in own.groupby("seed")]
        for count in dict.fromkeys(int(seed["step"].iloc[-1]) for seed in seeds):
            steps.setdefault(count, []).append(str(label))
        if (gained := _last_gain(seeds)) is not None:
            rising.append(f"{label} ({gained})")
    found = []
    if len(steps) > 1:
        each = "; ".join(
            f"{count:,} steps: {', '.join(models)}" for count, models in sorted(steps.items())
        )
        found.append(f"trainings differ in length: {each}")
    if rising:
        found.append(
            f"still improving in the last epoch, on the development split: {', '.join(rising)}"
        )
    return found


def _last_gain(seeds: list[pd.DataFrame]) -> str | None:
    """What the last epoch gained on the development split, mean over seeds, where it is the best
    and not by little.
    """
    count = min(map(len, seeds))
    for column, sign in (("dev_accuracy", 1.0), ("dev_loss", -1.0)):
        if not all(column in seed and seed[column].astype(bool).all() for seed in seeds):
            continue
        values = np.mean([seed[column].astype(float).to_numpy()[:count] for seed in seeds], axis=0)
        if count == 1:
            return None
        gained = sign * (values[-1] - values[-2])
        enough = RISE if sign > 0 else FALL * abs(values[-2])
        if gained < enough or sign * values[-1] < max(sign * values[:-1]):
            return None
        return f"{100 * gained:+.1f} points" if sign > 0 else f"loss {-gained:+.3f}"
    return None
