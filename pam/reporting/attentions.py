"""Every model at a glance: how good, how certain, how fast, how large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pam.config import Experiment
from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import perplexity
from pam.reporting.comparison import Row, compare, frame_of
from pam.reporting.render import Column, Table, table_of
from pam.reporting.runs import ScoredRun, TaskRuns, processor_seconds

QUALITY, ALIGNMENT = ("accuracy", "bleu_b*"), ("one_minus_aer",)
MODEL = ["task", "model"]

CSV = (
    *("task", "model", "metric", "mean", "sd", "low", "high", "ppl", "one_minus_aer", "entropy"),
    *("trained_per_s", "decoded_per_s", "parameters", "n"),
)
DIGITS = dict.fromkeys(CSV[3:10], 4) | {"trained_per_s": 2, "decoded_per_s": 2}
SHOWN = (
    Column("Task", "{task_label}", "l"),
    Column("Model", "{label}", "l"),
    Column("Quality", "{quality}"),
    Column("95 %", "[{low:.2f}, {high:.2f}]", "l"),
    Column("Perplexity", "{ppl:.3f}"),
    Column("1 - AER", "{one_minus_aer:.3f}"),
    Column("Entropy", "{entropy:.3f}"),
    Column("Trained/s", "{trained_per_s:,.0f}"),
    Column("Decoded/s", "{decoded_per_s:,.0f}"),
    Column("Parameters", "{parameters:,.0f}"),
    Column("Seeds", "{n}"),
)
NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by "
    "the prior, latent vectors are at their means, hard attention feeds back the most probable "
    "position; it counts target symbols (letters, words or pieces of words). Entropy: mean of the "
    "prior's over positions, in nats; a model without attention counts as attending to all "
    "positions alike. Trained/s: training examples, Decoded/s: test rows with the main beam, per "
    "processor second, or per GPU second where one was used; other work on the machine blurs both, "
    "`python -m pam bench` takes the models in turns."
)


def attentions(
    tasks: Sequence[TaskRuns],
    gold: Sequence[TaskRuns],
    analyses: Sequence[Analysis],
    experiment: Experiment,
    title: str,
) -> Table:
    """One row per task and model, means over seeds; what was not measured is empty.

    Args:
        gold: the runs that were compared with word alignments, of the tasks that have some.
        analyses: of the models that were analyzed under teacher forcing.
    """
    rows = compare(tasks, experiment, QUALITY, None, first=True)
    aligned = compare(gold, experiment, ALIGNMENT, None, first=True) if gold else []
    alignment = [{"task": row.task, "model": row.model, "one_minus_aer": row.mean} for row in aligned]
    frame = frame_of(rows)
    spread = [f" ± {row.sd:.2f}" if row.sd is not None else "" for row in rows]
    frame["quality"] = [f"{row.mean:.2f}{sd}" for row, sd in zip(rows, spread, strict=True)]
    measured = (
        _means([_speed_and_size(run) for task in tasks for run in task.runs], CSV[10:13]),
        _means([_certainty(analysis) for analysis in analyses], ("ppl", "entropy")),
        _means(alignment, ("one_minus_aer",)),
    )
    for means in measured:
        frame = frame.merge(means, how="left", on=MODEL)
    return table_of(title, frame, CSV, DIGITS, SHOWN, (_explained(rows), NOTE))


def _means(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Means over seeds, unknown where one of them is."""

    def mean(seeds: pd.Series[float]) -> float:
        return float(seeds.mean(skipna=False))

    frame = pd.DataFrame(records, columns=[*MODEL, *columns])
    frame = frame.astype(dict.fromkeys(columns, float))
    return frame.groupby(MODEL, as_index=False).agg(dict.fromkeys(columns, mean))


def _explained(rows: Sequence[Row]) -> str:
    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in rows)
    return (
        f"Quality: {', '.join(names)}; mean and standard deviation over seeds, 95 % bootstrap "
        "interval of the mean over the test split."
    )


def _certainty(analysis: Analysis) -> dict[str, Any]:
    """Perplexity of a target symbol, and the entropy of attention in nats."""
    sums = np.array([sum(analysis.sentences.nll), sum(analysis.sentences.tokens)])
    return {
        "task": analysis.task,
        "model": analysis.model,
        "ppl": float(perplexity(sums)),
        "entropy": analysis.entropy.mean,
    }


def _speed_and_size(run: ScoredRun) -> dict[str, Any]:
    """Examples and rows per processor or GPU second, and the number of parameters."""
    training, decoding = run.scores.training, run.main_decoding
    trained, decoded = processor_seconds(training), processor_seconds(decoding)
    rate, rows = training.get("examples_per_second"), decoding.get("sentences")
    return {
        "task": run.task,
        "model": run.model,
        "trained_per_s": rate * training["wall_s"] / trained[1] if trained and rate else None,
        "decoded_per_s": rows / decoded[1] if decoded and rows else None,
        "parameters": training.get("parameters"),
    }
