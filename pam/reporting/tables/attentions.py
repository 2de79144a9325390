"""Build the table of all models at a glance: quality, certainty, speed, size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import perplexity
from pam.evaluation.records import load
from pam.reporting.cells import Cell, Name, Value
from pam.reporting.comparison import QUALITIES, Inputs, compare
from pam.reporting.comparison import Row as Compared
from pam.reporting.items import TableSpec
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Field, Note, Row, Table
from pam.reporting.runs import (
    Means,
    ScoredRun,
    TaskRuns,
    load_runs,
    means_over_seeds,
    processor_seconds,
)
from pam.reporting.tables.comparisons import (
    NAMES,
    OURS_OF_ONE_SEED,
    OURS_OF_SEVERAL_SEEDS,
    level_of,
)

MEASURED = {  # what is measured besides quality, with its heading and form
    "ppl": ("Perplexity", ".3f"),
    "one_minus_aer": ("1 − AER", ".3f"),
    "entropy": ("Entropy", ".3f"),
    "posterior_gain": ("Posterior's gain", ".3f"),
    "trained_per_s": ("Trained/s", ",.0f"),
    "decoded_per_s": ("Decoded/s", ",.0f"),
    "parameters": ("Parameters", ",.0f"),
}
GLANCE = (
    *NAMES,
    Field("mean", "level", digits=4),
    Field("sd", "level", "sd", digits=4),
    Field("low", "level", "low", digits=4),
    Field("high", "level", "high", digits=4),
    *(Field(name, name, digits=4) for name in list(MEASURED)[:4]),
    Field("trained_per_s", "trained_per_s", digits=2),
    Field("decoded_per_s", "decoded_per_s", digits=2),
    Field("parameters", "parameters"),
    Field("n", "level", "seeds"),
)
GLANCE_SHOWN = (
    TASK,
    MODEL,
    Column("Quality", "level"),
    Column("95 %", "level", "l", part="interval"),
    *(Column(heading, name) for name, (heading, _) in MEASURED.items()),
    SEEDS,
)
QUALITY_NOTE = "Quality: {}; {}, with a 95 % interval {}."
GLANCE_NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by"
    " the prior, latent vectors are at their means, hard attention feeds back the most probable"
    " position; it counts target symbols (letters, words or pieces of words). Entropy: mean of the"
    " prior's over positions, in nats; a model without attention counts as attending to all"
    " positions alike. Posterior's gain: mean over target symbols of the KL divergence of posterior"
    " from prior, in nats: what a symbol tells about its position. Trained/s: training examples,"
    " Decoded/s: test rows with the main beam, per processor second, or per GPU second where one"
    " was used; other work on the machine lowers both rates; `pam bench` measures the"
    " models in turns."
)
SEVERAL_DEVICES_NOTE = "No rate is shown where a model's seeds ran on different devices."


def attentions(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of all models, one row per task and model, with means over seeds.

    Cells are empty where a quantity was not measured.
    """
    compared = compare(inputs.tasks, inputs.experiment, QUALITIES, None, first=True)
    measured = _measured(inputs)
    rows = []
    for row in compared:
        cells: dict[str, Cell] = {
            "task": Name(row.task, row.task_label),
            "model": Name(row.model, row.label),
            "metric": Name(row.metric.name, row.metric.label),
            "level": level_of(row),
        }
        for name, (_, form) in MEASURED.items():
            cells[name] = Value(measured[name].get((row.task, row.model)), form)
        rows.append(Row(cells))

    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in compared)
    notes = [QUALITY_NOTE.format(", ".join(names), *_spreads(compared)), GLANCE_NOTE]
    seeds_of_models = [runs for task in inputs.tasks for runs in task.models.values()]
    if any(
        _differ([measure(run) for run in runs])
        for runs in seeds_of_models
        for measure in RATES.values()
    ):
        notes.append(SEVERAL_DEVICES_NOTE)

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=rows,
        columns=GLANCE_SHOWN,
        fields=GLANCE,
        notes=[Note(note) for note in notes],
    )


def _measured(inputs: Inputs) -> dict[str, Means]:
    """Return what was measured besides quality, by the names of `MEASURED`."""
    uncertainties = list(_uncertainties(inputs.analyses))
    return {
        "ppl": means_over_seeds((task, model, ppl) for task, model, ppl, _, _ in uncertainties),
        "one_minus_aer": means_over_seeds(_alignments(inputs)),
        "entropy": means_over_seeds(
            (task, model, entropy) for task, model, _, entropy, _ in uncertainties
        ),
        "posterior_gain": means_over_seeds(
            (task, model, gain) for task, model, _, _, gain in uncertainties
        ),
        **{
            name: means_over_seeds(_rates(inputs.tasks, measure)) for name, measure in RATES.items()
        },
        "parameters": means_over_seeds(_sizes(inputs.tasks)),
    }


def _spreads(rows: Sequence[Compared]) -> tuple[str, str]:
    """Say what a table's values are of, and over what their intervals."""
    if any(row.sd is not None for row in rows):
        return OURS_OF_SEVERAL_SEEDS, "of the mean over the test split's units and over seeds"
    return OURS_OF_ONE_SEED, "over the test split's units"


def _sizes(tasks: Sequence[TaskRuns]) -> list[tuple[str, str, Any]]:
    """Return task, model and number of parameters of each run, None where it is unknown."""
    return [
        (run.task, run.model, run.scores.training.get("parameters"))
        for task in tasks
        for run in task.runs
    ]


def _uncertainties(paths: Sequence[Path]) -> list[tuple[str, str, float, float, float | None]]:
    """Return task, model, perplexity, entropy and the posterior's gain of each analysis."""
    records = []
    for path in paths:
        analysis = load(Analysis, path)
        sentences = analysis.sentences
        tokens = sum(sentences.tokens)
        sums = np.array([sum(sentences.nll), tokens])
        gain = None
        if sentences.posterior_gain is not None:
            gain = sum(sentences.posterior_gain) / tokens
        records.append(
            (
                analysis.task,
                analysis.model,
                float(perplexity(sums)),
                analysis.entropy.mean,
                gain,
            )
        )
    return records


def _alignments(inputs: Inputs) -> list[tuple[str, str, float]]:
    """Return task, model and 1 − AER, where word alignments were scored."""
    if not inputs.gold_scores:
        return []
    gold = load_runs(inputs.gold_scores, inputs.experiment)
    rows = compare(gold, inputs.experiment, ["one_minus_aer"], None, first=True)
    return [(row.task, row.model, row.mean) for row in rows]


def _trained_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """Return the device that trained a run, and training examples per second of that device."""
    training = run.scores.training
    spent = processor_seconds(training)
    rate = training.get("examples_per_second")
    if not spent or not rate:
        return None

    device, seconds = spent
    # The recorded rate is per wall second.
    return device, rate * training["wall_s"] / seconds


def _decoded_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """Return the device that decoded the test split, and rows per second of that device."""
    spent = processor_seconds(run.main_decoding)
    rows = run.main_decoding.get("sentences")
    if not spent or not rows:
        return None

    device, seconds = spent
    return device, rows / seconds


RATES = {"trained_per_s": _trained_per_s, "decoded_per_s": _decoded_per_s}


def _rates(
    tasks: Sequence[TaskRuns], measure: Callable[[ScoredRun], tuple[str, float] | None]
) -> list[tuple[str, str, float | None]]:
    """Return task, model and rate of each run.

    Rates are unknown where a model's seeds ran on different devices.
    """
    records = []
    for task in tasks:
        for model, runs in task.models.items():
            rates = [measure(run) for run in runs]
            is_comparable = not _differ(rates)
            records += [
                (task.name, model, rate[1] if rate and is_comparable else None) for rate in rates
            ]
    return records


def _differ(rates: Sequence[tuple[str, float] | None]) -> bool:
    """Check whether some rates are of another device than the others."""
    return len({rate[0] for rate in rates if rate is not None}) > 1
