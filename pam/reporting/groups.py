"""Build the table of scores by groups of rows, such as `seen` and `unseen`, that data may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from pam.evaluation.metrics import of_beam
from pam.experiments.config import Experiment
from pam.reporting.comparison import QUALITIES, Row, compare
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Table, interval, table_of
from pam.reporting.runs import TaskRuns

NAME = "groups"  # of the table and its files
TITLE = "Scores by group"
# The metrics that are shown, with the main beam.
METRICS = (*(name.removesuffix("_b*") for name in QUALITIES), "exact_match")
GROUPS = ("task", "group", "metric", "model", "mean", "low", "high", "judged", "n")
DIGITS = dict.fromkeys(("mean", "low", "high"), 4)
SHOWN = (
    TASK,
    Column("Group", "{group}", "l"),
    Column("Metric", "{metric_label}", "l"),
    MODEL,
    Column("Ours", "{ours}"),
    Column("95 % interval", "{interval}"),
    Column("Of", "{judged:,}"),
    SEEDS,
)
NOTE = (
    "Groups are those that the data name for each row of the test split (`scores_by`). Intervals"
    " are bootstrap intervals over the units of the group alone and over seeds. `Of`: things"
    " judged, such as sentences or forms. A metric that is not defined for a group is left out of"
    " it."
)


def by_group(tasks: Sequence[TaskRuns], experiment: Experiment) -> Table | None:
    """Build the table, with one row per task, group, metric and model; None if there are none."""
    records = [record for task in tasks for record in _records(task, experiment)]
    if not records:
        return None

    columns = [*GROUPS, "task_label", "label", "metric_label", "ours", "interval"]
    frame = pd.DataFrame(records, columns=columns, dtype=object)
    return table_of(TITLE, frame, GROUPS, DIGITS, SHOWN, notes=(NOTE,), group=3)


def _records(task: TaskRuns, experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task whose runs all have scores by group."""
    groups = list(task.runs[0].scores.groups)
    groups = [name for name in groups if all(name in run.scores.groups for run in task.runs)]
    beam = task.runs[0].main_decoding.get("beam")
    patterns = [name for metric in METRICS for name in (metric, of_beam(metric, beam))]

    for group in groups:
        of_group = _of_group(task, group)
        if not of_group.metrics(patterns):
            continue
        for row in compare([of_group], experiment, patterns, paper=None):
            judged = of_group.runs[0].scores.metrics[row.metric.name].n
            yield _record(row, group, judged)


def _of_group(task: TaskRuns, group: str) -> TaskRuns:
    """Return the runs of a task with the scores of a group in place of those of all rows."""
    models = {
        model: [replace(run, scores=run.scores.of_group(group)) for run in runs]
        for model, runs in task.models.items()
    }
    return replace(task, models=models)


def _record(row: Row, group: str, judged: int) -> dict[str, Any]:
    """Return a row of the table; `judged` is the number of things that the metric judges."""
    unit = f", {row.metric.unit}" if row.metric.unit else ""
    return {
        "task": row.task,
        "task_label": row.task_label,
        "group": group,
        "metric": row.metric.name,
        "metric_label": f"{row.metric.label}{unit}",
        "model": row.model,
        "label": row.label,
        "mean": row.mean,
        "low": row.low,
        "high": row.high,
        "judged": judged,
        "n": row.seeds,
        "ours": f"{row.mean:.{row.digits}f}",
        "interval": interval(row.low, row.high, row.digits),
    }
