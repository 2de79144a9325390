"""Answer the question of an experiment, one sentence a task, from the rows of a comparison.

A gain counts only if it is beyond chance after Holm's correction. What speaks against the answer
is said in the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pam.evaluation.metrics import Metric
from pam.reporting.cells import Name
from pam.reporting.comparison import LEAST_SEEDS
from pam.reporting.introduction import MOST_NAMED, joined
from pam.reporting.render import Row
from pam.reporting.standings import BETTER, WORSE, settled


def answer(task: Name, metric: Metric, rows: Sequence[Row], asked: Collection[str] = ()) -> str:
    """Answer the question of an experiment for one task.

    Args:
        rows: of the experiment's models on that task, by that metric.
        asked: models with the property that the question asks about; empty: all are compared.
    """
    gains = [row for row in rows if row.has("gain")]
    judged = [row for row in gains if row.has("outcome")]
    if not judged:
        return _of_levels(task, metric, rows, is_compared=bool(gains))

    about = [row for row in judged if row["model"].key in asked] or judged
    is_asked = about is not judged
    others = [row for row in judged if row not in about]
    baseline = judged[0]["baseline"].label
    better = [row for row in about if settled(row) == BETTER]

    if better:
        gained = f"{_listed(better, metric)} over {baseline}"
        text = f"On {task.label} it helps {len(better)} of {len(about)} models: {gained}"
        if len(better) == len(about):
            text = f"On {task.label} it helps: {gained}"
        if not is_asked:
            models = "1 model is" if len(better) == 1 else f"{len(better)} models are"
            text = f"On {task.label} {models} better than {baseline}: {_listed(better, metric)}"
    else:
        largest = max(about, key=lambda row: row["gain"].value)
        text = (
            f"On {task.label} no gain over {baseline} is beyond chance: the largest of"
            f" {len(about)} is {_listed([largest], metric)}"
        )

    against = _against(about, others, is_told=bool(better))
    if against:
        text += f"; against it, {' and '.join(against)}"
    return f"{text} ({_seeds(rows)}, 95 % intervals, after Holm's correction)."


def _against(about: Sequence[Row], others: Sequence[Row], is_told: bool) -> list[str]:
    """Return what speaks against an answer.

    Args:
        about: the models that the question asks about.
        others: the other models that were judged.
        is_told: whether some gain of theirs is beyond chance.
    """
    texts = []
    undecided = [row for row in about if settled(row) not in (BETTER, WORSE)]
    worse = [row for row in about if settled(row) == WORSE]
    if worse:
        texts.append(f"{_named(worse)} {'is' if len(worse) == 1 else 'are'} worse")
    if undecided and is_told:
        texts.append(f"{_named(undecided)} may be chance")

    best = max(row["gain"].value for row in about)
    ahead = [row for row in others if settled(row) == BETTER and row["gain"].value > best]
    if ahead:
        verb = "gains" if len(ahead) == 1 else "gain"
        texts.append(f"without it {_named(ahead)} {verb} more")

    contradicting = [row for row in about if row["verdict"].word == "contradicts"]
    if contradicting:
        verb = "contradicts" if len(contradicting) == 1 else "contradict"
        texts.append(f"{_named(contradicting)} {verb} the paper")
    return texts


def _of_levels(task: Name, metric: Metric, rows: Sequence[Row], is_compared: bool) -> str:
    """Say what the best model reaches where no gain can be judged."""
    by_quality = sorted(
        rows, key=lambda row: row["level"].value, reverse=not metric.lower_is_better
    )
    best = by_quality[0]
    unit = f" {metric.unit}" if metric.unit else ""
    value = f"{in_sentence(metric)} {best['level'].mean_text}{unit} {best['level'].interval}"
    text = f"{best['model'].label} has {value}"
    if not is_compared:
        return f"On {task.label} {text} ({_seeds(rows)})."

    baseline = [row for row in rows if row["model"].key == row["baseline"].key != best["model"].key]
    for row in baseline:
        text += f", {row['model'].label} {row['level'].mean_text}{unit}"
    return (
        f"On {task.label} it cannot be told yet, as gains are judged from {LEAST_SEEDS} seeds on:"
        f" {text} ({_seeds(rows)})."
    )


def _listed(rows: Sequence[Row], metric: Metric) -> str:
    """Name models with their gains, the largest first, and the metric."""
    by_gain = sorted(rows, key=lambda row: row["gain"].value, reverse=True)
    texts = [f"{row['model'].label} {row['gain'].text_with_interval}" for row in by_gain]

    unit = "in"
    if metric.unit:
        unit = "points of" if metric.unit == "%" else f"{metric.unit} in"
    return f"{joined(texts, MOST_NAMED)} {unit} {in_sentence(metric)}"


def _named(rows: Sequence[Row]) -> str:
    """Name models with their gains alone."""
    texts = [f"{row['model'].label} ({row['gain'].mean_text})" for row in rows]
    return joined(texts, MOST_NAMED)


def in_sentence(metric: Metric) -> str:
    """Return a metric's label within a sentence, such as `accuracy` or `BLEU (beam 4)`."""
    label = re.sub(r", (beam \d+)$", r" (\1)", metric.label)
    # A label that is no abbreviation goes on in small letters.
    if label[1].islower():
        return label[0].lower() + label[1:]
    return label


def _seeds(rows: Sequence[Row]) -> str:
    """Return the number of seeds, such as `5 seeds` or `3-5 seeds`."""
    counts = [row["level"].seeds for row in rows]
    if max(counts) == 1:
        return "one seed"
    return "-".join(map(str, sorted({min(counts), max(counts)}))) + " seeds"
