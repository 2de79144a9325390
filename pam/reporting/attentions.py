"""Every model at a glance: how good, how certain, how fast, how large."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pam.config import Experiment
from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import perplexity
from pam.reporting.comparison import Row, compare
from pam.reporting.numbers import between, fixed, grouped, rounded
from pam.reporting.runs import ScoredRun, TaskRuns
from pam.reporting.typeset import Sheet

QUALITY, ALIGNMENT = ("accuracy", "bleu_b*"), ("one_minus_aer",)
Key = tuple[str, str]
"""A task and a model."""


def attentions(
    tasks: Sequence[TaskRuns],
    gold: Sequence[TaskRuns],
    analyses: Sequence[Analysis],
    experiment: Experiment,
    title: str,
) -> Sheet:
    """One row per task and model, means over seeds.

    Args:
        gold: the runs that were held to word alignments, of the tasks that have some.
        analyses: of the models that were analyzed under teacher forcing.
    """
    rows = compare(tasks, experiment, QUALITY, None, first=True)
    alignment = _alignments(gold, experiment)
    perplexities, entropies = _by_model(analyses, _perplexity), _by_model(analyses, _entropy)
    runs = {(task.name, model): of for task in tasks for model, of in task.models.items()}
    records: list[tuple[object, ...]] = []
    body: list[tuple[str, ...]] = []
    for row in rows:
        key = row.task, row.model
        speeds = [_mean(runs[key], speed) for speed in (_trained, _decoded)]
        size = _mean(runs[key], lambda run: run.scores.training.get("parameters"))
        numbers = [perplexities.get(key), alignment.get(key), entropies.get(key)]
        records.append(
            (row.task, row.model, row.metric.name, rounded(row.mean, 4), rounded(row.sd, 4))
            + (rounded(row.interval.low, 4), rounded(row.interval.high, 4))
            + tuple(rounded(number, 4) for number in numbers)
            + (*(rounded(speed, 2) for speed in speeds), size, row.seeds)
        )
        body.append(
            (row.task_label, row.label, _quality(row), between(row.interval, 2))
            + tuple(fixed(number, 3) for number in numbers)
            + (*(grouped(speed) for speed in speeds), grouped(size), str(row.seeds))
        )
    return Sheet(
        title=f"All models at a glance{title}",
        columns=(
            *("task", "model", "metric", "mean", "sd", "low", "high", "ppl", "one_minus_aer"),
            *("entropy", "trained_per_s", "decoded_per_s", "parameters", "n"),
        ),
        records=records,
        headings=(
            *("Task", "Model", "Quality", "95 %", "Perplexity", "1 - AER", "Entropy"),
            *("Trained/s", "Decoded/s", "Parameters", "Seeds"),
        ),
        body=body,
        align="llrlrrrrrrr",
        notes=(
            _explained(rows),
            "Perplexity is of the likelihood, also where a bound was trained: positions are summed "
            "out by the prior, latent vectors are at their means, hard attention feeds back the "
            "most probable position; it counts target symbols (letters, words or pieces of words). "
            "Entropy: mean of the prior's over positions, in nats; a model without attention "
            "counts as attending to all positions alike. Trained/s: training examples, Decoded/s: "
            "test rows with the main beam, per processor second, or per GPU second where one was "
            "used; other work on the machine blurs both, `python -m pam bench` takes the models in "
            "turns.",
        ),
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


def _alignments(gold: Sequence[TaskRuns], experiment: Experiment) -> Mapping[Key, float]:
    """1 - AER, mean over seeds."""
    rows = compare(gold, experiment, ALIGNMENT, None, first=True) if gold else []
    return {(row.task, row.model): row.mean for row in rows}


def _by_model(
    analyses: Sequence[Analysis], number: Callable[[Analysis], float]
) -> Mapping[Key, float]:
    """A number's mean over seeds."""
    found: dict[Key, list[float]] = {}
    for analysis in analyses:
        found.setdefault((analysis.task, analysis.model), []).append(number(analysis))
    return {key: float(np.mean(numbers)) for key, numbers in found.items()}


def _perplexity(analysis: Analysis) -> float:
    """Of a target symbol."""
    forced = analysis.sentences
    return float(perplexity(np.array([sum(forced.nll), sum(forced.tokens)])))


def _entropy(analysis: Analysis) -> float:
    """In nats, the mean over target symbols."""
    return analysis.entropy.mean


def _mean(runs: Sequence[ScoredRun], number: Callable[[ScoredRun], float | None]) -> float | None:
    """Over seeds; None unless each has it."""
    values = [number(run) for run in runs]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _trained(run: ScoredRun) -> float | None:
    """Training examples per processor or GPU second."""
    training = run.scores.training
    spent = training.get("gpu_s") or training.get("cpu_s")
    if not spent or not training.get("examples_per_second"):
        return None
    return float(training["examples_per_second"] * training["wall_s"] / spent)


def _decoded(run: ScoredRun) -> float | None:
    """Test rows per processor or GPU second, with the main beam."""
    main = next(iter(run.decodings.values()), {})
    spent = main.get("gpu_s") or main.get("cpu_s")
    return float(main["sentences"] / spent) if spent and main.get("sentences") else None
