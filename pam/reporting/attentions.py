"""Every model at a glance: how good, how certain, how fast, how large."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pam.config import Experiment
from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import perplexity
from pam.reporting.comparison import Row, compare
from pam.reporting.render import Column, Table, between, fixed, grouped, rounded, table_of
from pam.reporting.runs import ScoredRun, TaskRuns, mean_if_known, processor_seconds

QUALITY, ALIGNMENT = ("accuracy", "bleu_b*"), ("one_minus_aer",)


class Glance(NamedTuple):
    """One model on one task, means over seeds; None where it was not measured."""

    row: Row
    perplexity: float | None
    one_minus_aer: float | None
    entropy: float | None
    trained_per_s: float | None
    decoded_per_s: float | None
    parameters: float | None


def attentions(
    tasks: Sequence[TaskRuns],
    gold: Sequence[TaskRuns],
    analyses: Sequence[Analysis],
    experiment: Experiment,
    title: str,
) -> Table:
    """One row per task and model.

    Args:
        gold: the runs that were compared with word alignments, of the tasks that have some.
        analyses: of the models that were analyzed under teacher forcing.
    """
    rows = compare(tasks, experiment, QUALITY, None, first=True)
    aligned = compare(gold, experiment, ALIGNMENT, None, first=True) if gold else []
    alignment = {(row.task, row.model): row.mean for row in aligned}
    perplexities = _by_model(analyses, _perplexity)
    entropies = _by_model(analyses, lambda analysis: analysis.entropy.mean)
    runs = {(task.name, model): own for task in tasks for model, own in task.models.items()}

    def glance(row: Row) -> Glance:
        key = row.task, row.model
        speed_and_size = (
            mean_if_known([number(run) for run in runs[key]])
            for number in (_trained, _decoded, _parameters)
        )
        known = perplexities.get(key), alignment.get(key), entropies.get(key)
        return Glance(row, *known, *speed_and_size)

    return table_of(
        title,
        [glance(row) for row in rows],
        {
            "task": lambda one: one.row.task,
            "model": lambda one: one.row.model,
            "metric": lambda one: one.row.metric.name,
            "mean": lambda one: rounded(one.row.mean, 4),
            "sd": lambda one: rounded(one.row.sd, 4),
            "low": lambda one: rounded(one.row.interval.low, 4),
            "high": lambda one: rounded(one.row.interval.high, 4),
            "ppl": lambda one: rounded(one.perplexity, 4),
            "one_minus_aer": lambda one: rounded(one.one_minus_aer, 4),
            "entropy": lambda one: rounded(one.entropy, 4),
            "trained_per_s": lambda one: rounded(one.trained_per_s, 2),
            "decoded_per_s": lambda one: rounded(one.decoded_per_s, 2),
            "parameters": lambda one: one.parameters,
            "n": lambda one: one.row.seeds,
        },
        [
            Column("Task", lambda one: one.row.task_label, "l"),
            Column("Model", lambda one: one.row.label, "l"),
            Column("Quality", lambda one: _quality(one.row)),
            Column("95 %", lambda one: between(one.row.interval, 2), "l"),
            Column("Perplexity", lambda one: fixed(one.perplexity, 3)),
            Column("1 - AER", lambda one: fixed(one.one_minus_aer, 3)),
            Column("Entropy", lambda one: fixed(one.entropy, 3)),
            Column("Trained/s", lambda one: grouped(one.trained_per_s)),
            Column("Decoded/s", lambda one: grouped(one.decoded_per_s)),
            Column("Parameters", lambda one: grouped(one.parameters)),
            Column("Seeds", lambda one: str(one.row.seeds)),
        ],
        (_explained(rows), _NOTE),
    )


_NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by "
    "the prior, latent vectors are at their means, hard attention feeds back the most probable "
    "position; it counts target symbols (letters, words or pieces of words). Entropy: mean of the "
    "prior's over positions, in nats; a model without attention counts as attending to all "
    "positions alike. Trained/s: training examples, Decoded/s: test rows with the main beam, per "
    "processor second, or per GPU second where one was used; other work on the machine blurs both, "
    "`python -m pam bench` takes the models in turns."
)


def _explained(rows: Sequence[Row]) -> str:
    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in rows)
    return (
        f"Quality: {', '.join(names)}; mean and standard deviation over seeds, 95 % bootstrap "
        "interval of the mean over the test split."
    )


def _quality(row: Row) -> str:
    spread = "" if row.sd is None else f" ± {fixed(row.sd, 2)}"
    return f"{fixed(row.mean, 2)}{spread}"


def _by_model(
    analyses: Sequence[Analysis], number: Callable[[Analysis], float]
) -> Mapping[tuple[str, str], float]:
    """A number's mean over seeds, by task and model."""
    found: dict[tuple[str, str], list[float]] = {}
    for analysis in analyses:
        found.setdefault((analysis.task, analysis.model), []).append(number(analysis))
    return {key: float(np.mean(numbers)) for key, numbers in found.items()}


def _perplexity(analysis: Analysis) -> float:
    """Of a target symbol."""
    sentences = analysis.sentences
    return float(perplexity(np.array([sum(sentences.nll), sum(sentences.tokens)])))


def _trained(run: ScoredRun) -> float | None:
    """Training examples per processor or GPU second."""
    training = run.scores.training
    spent = processor_seconds(training)
    if spent is None or not training.get("examples_per_second"):
        return None
    return float(training["examples_per_second"] * training["wall_s"] / spent[1])


def _decoded(run: ScoredRun) -> float | None:
    """Test rows per processor or GPU second, with the main beam."""
    rows, spent = run.main_decoding.get("sentences"), processor_seconds(run.main_decoding)
    return float(rows / spent[1]) if spent and rows else None


def _parameters(run: ScoredRun) -> float | None:
    return run.scores.training.get("parameters")
