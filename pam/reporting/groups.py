"""Build the table of scores by groups of rows, such as `seen` and `unseen`, that data may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pam.evaluation.metrics import of_beam
from pam.experiments.experiment import Experiment
from pam.reporting.cells import Estimate, Name, Value
from pam.reporting.comparison import QUALITIES, compare
from pam.reporting.comparison import Row as Compared
from pam.reporting.render import (
    MODEL,
    MODEL_KEY,
    SEEDS,
    TASK,
    TASK_KEY,
    Column,
    Field,
    Note,
    Row,
    Table,
)
from pam.reporting.runs import TaskRuns

NAME = "groups"  # of the table and its files
TITLE = "Scores by group"
# The metrics that are shown, with the main beam.
METRICS = (*(name.removesuffix("_b*") for name in QUALITIES), "exact_match")
GROUPS = (
    TASK_KEY,
    Field("group", "group"),
    Field("metric", "metric", "key"),
    MODEL_KEY,
    Field("mean", "level", digits=4),
    Field("low", "level", "low", digits=4),
    Field("high", "level", "high", digits=4),
    Field("judged", "judged"),
    Field("n", "level", "seeds"),
)
SHOWN = (
    TASK,
    Column("Group", "group", "l"),
    Column("Metric", "metric", "l"),
    MODEL,
    Column("Ours", "level"),
    Column("95 % interval", "level", part="interval"),
    Column("Of", "judged"),
    SEEDS,
)
NOTE = (
    "Groups are those that the data name for each row of the test split (`scores_by`). Intervals"
    " are over the units of the group alone and over seeds. `Of`: things"
    " judged, such as sentences or forms. A metric that is not defined for a group is left out of"
    " it."
)


def by_group(tasks: Sequence[TaskRuns], experiment: Experiment) -> Table | None:
    """Build the table, with one row per task, group, metric and model; None if there are none."""
    rows = [row for task in tasks for row in _rows(task, experiment)]
    if not rows:
        return None
    return Table(title=TITLE, rows=rows, columns=SHOWN, fields=GROUPS, notes=[Note(NOTE)], group=3)


def _rows(task: TaskRuns, experiment: Experiment) -> Iterator[Row]:
    """Yield the rows of a task whose runs all have scores by group."""
    groups = list(task.runs[0].scores.groups)
    groups = [name for name in groups if all(name in run.scores.groups for run in task.runs)]
    beam = task.runs[0].main_decoding.get("beam")
    patterns = [name for metric in METRICS for name in (metric, of_beam(metric, beam))]

    for group in groups:
        of_group = _of_group(task, group)
        if not of_group.metrics(patterns):
            continue
        for compared in compare([of_group], experiment, patterns, paper=None):
            judged = of_group.runs[0].scores.metrics[compared.metric.name].n
            yield _row(compared, group, judged)


def _of_group(task: TaskRuns, group: str) -> TaskRuns:
    """Return the runs of a task with the scores of a group in place of those of all rows."""
    models = {
        model: [replace(run, scores=run.scores.of_group(group)) for run in runs]
        for model, runs in task.models.items()
    }
    return replace(task, models=models)


def _row(compared: Compared, group: str, judged: int) -> Row:
    """Return a row of the table; `judged` is the number of things that the metric judges."""
    metric = compared.metric
    unit = f", {metric.unit}" if metric.unit else ""
    level = Estimate(
        compared.mean,
        compared.digits,
        low=compared.low,
        high=compared.high,
        seeds=compared.seeds,
    )
    return Row(
        {
            "task": Name(compared.task, compared.task_label),
            "group": Value(group),
            "metric": Name(metric.name, f"{metric.label}{unit}"),
            "model": Name(compared.model, compared.label),
            "level": level,
            "judged": Value(judged, ","),
        }
    )
