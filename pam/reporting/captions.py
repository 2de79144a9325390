"""Say in the caption of each figure what it shows, and which direction is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from pam.evaluation.bootstrap import LEVEL
from pam.evaluation.metrics import metric_of
from pam.reporting.cells import signed
from pam.reporting.comparison import LEAST_SEEDS

MOST_TASKS = 3  # tasks of which a caption speaks; the figure shows all
NEARLY_ALL = 0.9  # share of a sentence's words


class Names(NamedTuple):
    """The words for what a figure's data name by keys."""

    tasks: Mapping[str, str]  # task -> label
    models: Mapping[str, str]  # model -> label
    baseline: str  # key of the baseline


def caption(draws: str, data: pd.DataFrame, names: Names) -> str:
    """Return what a figure shows, task by task, and its direction.

    Args:
        draws: the figure's kind, as in `pam.reporting.catalogue.FigureSpec`.
        data: its CSV, every cell a text.

    Returns:
        Sentences; empty for a kind of figure or data of which nothing is known.
    """
    findings, direction = KINDS.get(draws, (_nothing, ""))
    texts = []
    for task in [task for task in names.tasks if task in set(data["task"])][:MOST_TASKS]:
        of_task = data[data["task"] == task]
        finding = findings(of_task, names)
        if finding:
            texts.append(f"On {names.tasks[task]}, {finding}.")

    if draws == "quality" and len(data):
        direction = _direction_of(data)
    return " ".join([*texts, direction]).strip()


def _nothing(rows: pd.DataFrame, names: Names) -> str:
    """Say nothing."""
    return ""


def _direction_of(data: pd.DataFrame) -> str:
    """Say whether a higher or a lower value of a figure's metric is better."""
    if metric_of(str(data["metric"].iloc[0])).lower_is_better:
        return "Lower is better."
    return "Higher is better."


def _label(model: str, names: Names) -> str:
    """Return a model's label, or its name where it has none."""
    return names.models.get(model, model)


def _beside_baseline(best: str, values: pd.Series[float], names: Names, text: str) -> str:
    """Return the best value with the baseline's.

    Args:
        text: a template of a value.
    """
    words = text.format(values[best])
    if best != names.baseline and names.baseline in values.index:
        baseline = text.format(values[names.baseline])
        words += f" ({_label(names.baseline, names)}: {baseline})"
    return words


def _quality(rows: pd.DataFrame, names: Names) -> str:
    """Name the best model with its value."""
    metric = metric_of(str(rows["metric"].iloc[0]))
    values = rows.set_index("model")["mean"].astype(float)
    values = values[values.index.isin(list(names.models))]
    if values.empty:
        return ""

    best = str(values.idxmin() if metric.lower_is_better else values.idxmax())
    unit = f" {metric.unit}" if metric.unit else ""
    value = _beside_baseline(best, values, names, f"{{:.{metric.decimals}f}}{unit}")
    return f"{_label(best, names)} is ahead with {value}"


def _gains(rows: pd.DataFrame, names: Names) -> str:
    """Name the largest gain, and count the gains that may be chance."""
    metric = metric_of(str(rows["metric"].iloc[0]))
    gains = rows.set_index("model")["gain"].astype(float)
    best = str(gains.idxmax())
    baseline = _label(names.baseline, names)
    if gains[best] <= 0:
        text = f"no model gains over {baseline}"
    else:
        unit = " points" if metric.unit == "%" else ""
        gain = signed(gains[best], metric.decimals)
        text = f"{_label(best, names)} gains most over {baseline}: {gain}{unit}"

    judged = rows[rows["outcome"] != ""]
    if judged.empty:
        return f"{text}, which fewer than {LEAST_SEEDS} seeds cannot judge"
    chance = int((judged["p_holm"].astype(float) > 1 - LEVEL).sum())
    if chance:
        text += f"; {chance} of {len(judged)} gains may be chance"
    return text


def _cost(rows: pd.DataFrame, names: Names) -> str:
    """Compare the dearest model's seconds with the baseline's, on the first device."""
    for column in ("cpu_seconds", "gpu_seconds"):
        if column not in rows:
            continue
        costs = rows[rows[column] != ""].set_index("model")[column].astype(float)
        if names.baseline not in costs.index or len(costs) < 2:
            continue

        seconds = f"{column[:3].upper()} seconds"
        baseline = _label(names.baseline, names)
        ratios = (costs / costs[names.baseline]).drop(names.baseline)
        dearest = str(ratios.idxmax())
        if ratios[dearest] < 1:
            return f"{baseline} costs most {seconds}"
        return (
            f"{_label(dearest, names)} costs most, {ratios[dearest]:.1f} times the {seconds} of"
            f" {baseline}"
        )
    return ""


def _curves(rows: pd.DataFrame, names: Names) -> str:
    """Name the model with the best epoch on the development split, mean over seeds."""
    for column, word, template in (
        ("dev_accuracy", "highest accuracy", "{:.1%}"),
        ("dev_loss", "lowest loss", "{:.3f} nats"),
    ):
        if column not in rows or (rows[column] == "").any():
            continue
        # Losses by symbol and by action do not compare.
        if column == "dev_loss" and rows["targets"].nunique() > 1:
            continue

        values = rows.assign(value=rows[column].astype(float)).groupby(["model", "seed"])["value"]
        is_accuracy = column == "dev_accuracy"
        best_epochs = values.max() if is_accuracy else values.min()
        means = best_epochs.groupby("model").mean()
        best = str(means.idxmax() if is_accuracy else means.idxmin())
        value = _beside_baseline(best, means, names, template).replace("%", " %")
        return f"{_label(best, names)} reaches the {word} of the development split: {value}"
    return ""


def _shares(rows: pd.DataFrame, count: str, low: float, high: float) -> pd.Series[float]:
    """Return the share of each model's histogram that lies in the bins from `low` to `high`."""
    counts = rows[count].astype(float)
    # Edges of bins are written with six digits.
    is_within = (rows["low"].astype(float) > low - 1e-6) & (
        rows["high"].astype(float) < high + 1e-6
    )
    within = counts.where(is_within, 0.0).groupby(rows["model"], sort=False).sum()
    return within / counts.groupby(rows["model"], sort=False).sum()


def _entropy(rows: pd.DataFrame, names: Names) -> str:
    """Name the model whose attention, the prior, is certain at most of its symbols."""
    rows = rows[rows["of"] == "prior"]
    end = float(rows["high"].iloc[0])
    shares = _shares(rows, "symbols", 0.0, end)
    best = str(shares.idxmax())
    value = _beside_baseline(best, shares, names, "{:.0%}").replace("%", " %")
    return (
        f"the attention of {_label(best, names)} is the most certain, below {end:g} nats at the"
        f" most symbols: {value}"
    )


def _coverage(rows: pd.DataFrame, names: Names) -> str:
    """Name the model that covers nearly all words of the most sentences."""
    shares = _shares(rows, "sentences", NEARLY_ALL, 1.0)
    best = str(shares.idxmax())
    value = _beside_baseline(best, shares, names, "{:.0%}").replace("%", " %")
    return (
        f"{_label(best, names)} covers {100 * NEARLY_ALL:g} % of the source words and more in the"
        f" most sentences: {value}"
    )


def _by_length(rows: pd.DataFrame, names: Names) -> str:
    """Name the best model on the longest sentences."""
    first_words = rows["words_from"].astype(float)
    longest = rows[first_words == first_words.max()]
    values = longest[longest["bleu"] != ""].set_index("model")["bleu"].astype(float)
    if values.empty:
        return ""

    first, below = longest[["words_from", "words_below"]].iloc[0]
    words = f"{first} words and more"
    if below:
        words = f"{first} to {int(below) - 1} words"

    best = str(values.idxmax())
    value = _beside_baseline(best, values, names, "{:.1f}")
    return f"{_label(best, names)} is ahead in the longest sentences, of {words}: {value}"


KINDS: dict[str, tuple[Callable[[pd.DataFrame, Names], str], str]] = {
    "quality": (_quality, ""),
    "gains": (_gains, "Further right is better."),
    "cost": (_cost, "Higher is better, further left is cheaper."),
    "curves": (_curves, "Higher accuracy and lower loss are better."),
    "entropy_accuracy": (
        _entropy,
        "In the upper panel higher is better; further left attention is more certain.",
    ),
    "coverage": (_coverage, "Further right more of the source is attended to."),
    "bleu_by_length": (_by_length, "Higher is better."),
    "bleu_by_size": (_nothing, "Higher is better."),
}
"""For each kind of figure the function of its finding, and its direction."""
