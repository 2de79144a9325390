"""Build the table of sweeps: the values of an option as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pam.experiments.sweep import text as text_of_value
from pam.reporting.cells import Missing, Value
from pam.reporting.comparison import Inputs, compare_sweeps
from pam.reporting.items import TableSpec
from pam.reporting.render import MODEL_KEY, SEEDS, TASK_KEY, Column, Field, Row, Table
from pam.reporting.runs import TaskRuns, means_over_seeds
from pam.reporting.tables.comparisons import LEVEL, OURS, Layout, cells_of_rows, notes_of_comparison

SWEEPS = (
    TASK_KEY,
    MODEL_KEY,
    Field("options", "options"),
    Field("values", "values"),
    Field("metric", "metric", "key"),
    *LEVEL,
    Field("baseline", "baseline", "key"),
    Field("gain", "gain", digits=4),
    Field("gain_low", "gain", "low", digits=4),
    Field("gain_high", "gain", "high", digits=4),
    Field("p", "gain", "p", digits=6),
    Field("p_holm", "gain", "p_holm", digits=6),
    Field("dev_loss", "dev_loss", digits=4),
)
SWEEPS_NOTE = (
    "{units} Mean and standard deviation over seeds on the test split. Dev loss: the mean loss of"
    " the development split in the epoch that was chosen; values are to be chosen by it, not by the"
    " test split. {gain}"
)


def sweeps(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of sweeps, one row per task and value, below the baseline's row."""
    experiment = inputs.experiment
    rows = compare_sweeps(inputs.tasks, experiment)
    # The baseline comes first, wherever it is listed.
    order = list(dict.fromkeys(row.task for row in rows))
    rows.sort(key=lambda row: (order.index(row.task), row.model != experiment.baseline))

    layout = Layout.of(rows, experiment.baseline)
    dev_losses = means_over_seeds(_dev_losses(inputs.tasks))
    points = experiment.points()
    cells = cells_of_rows(rows, layout.baseline)
    for row, of_row in zip(rows, cells, strict=True):
        of_row["dev_loss"] = Value(dev_losses.get((row.task, row.model)), ".4f")
        of_row["options"] = of_row["values"] = Missing("this is the baseline")
        if row.model in points:
            values = points[row.model].values
            of_row["options"] = Value("; ".join(values))
            of_row["values"] = Value("; ".join(map(text_of_value, values.values())))

    return Table(
        title=inputs.title(spec),
        subject=experiment.title,
        rows=[Row(of_row) for of_row in cells],
        columns=[*layout.names, *OURS, *layout.gained, Column("Dev loss", "dev_loss"), SEEDS],
        fields=SWEEPS,
        notes=notes_of_comparison(spec, inputs, rows, SWEEPS_NOTE),
        group=len(layout.names) - 1,
    )


def _dev_losses(tasks: Sequence[TaskRuns]) -> list[tuple[str, str, Any]]:
    """Return task, model and loss on the development split of each run, None where unknown."""
    return [
        (run.task, run.model, run.scores.training.get("dev_loss"))
        for task in tasks
        for run in task.runs
    ]
