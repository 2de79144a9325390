"""Quality against what a model's training and decoding cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.io import UserError
from pam.reporting import outliers, style
from pam.reporting.comparison import Row
from pam.reporting.figures import scored

HELP = "a metric against CPU (or GPU) seconds of training and decoding"
add_arguments = scored.add_arguments


def draw(args: argparse.Namespace) -> Figure:
    """One panel per task, one mark per model; GPU seconds where a GPU was used.

    A model that is joined from others costs what they do, besides its own decoding.

    Raises:
        UserError: no run's cost is known.
    """
    rows = scored.read(args)
    on_gpu = any(row.gpu_s for row in rows)
    spent = {(row.task, row.model): _seconds(row, rows, on_gpu) for row in rows}
    rows = [row for row in rows if spent[row.task, row.model] is not None]
    if not rows:
        raise UserError("no cost is known", hint="score the runs again with --training")
    tasks = scored.by_task(rows)
    figure, axes = style.task_panels(len(tasks), height=3.1)
    for panel, task in zip(axes, tasks, strict=True):
        _panel(panel, task, [spent[row.task, row.model] or 0.0 for row in task])
        panel.set_xlabel(f"{'GPU' if on_gpu else 'CPU'} seconds of training and decoding")
    style.legend_models(figure, {row.model: row.label for row in rows}, ls="none", ms=7)
    return figure


def _panel(axes: Axes, rows: Sequence[Row], spent: Sequence[float]) -> None:
    far = outliers.far_out([row.mean for row in rows])
    for place, (row, seconds) in enumerate(zip(rows, spent, strict=True)):
        if place in far:
            continue
        colour = style.look(row.model).colour
        axes.plot([seconds] * 2, [row.interval.low, row.interval.high], color=colour, lw=1.4)
        style.draw_ours(axes, row.model, seconds, row.mean)
    beyond = [outliers.Outlier(rows[place].model, rows[place].mean, spent[place]) for place in far]
    outliers.pin_along(axes, beyond)
    axes.margins(x=0.1)
    style.head(axes, rows[0].task_label)
    axes.set_ylabel(scored.worded(rows[0].metric))


def _seconds(row: Row, rows: Sequence[Row], on_gpu: bool) -> float | None:
    """A row's cost with that of the models that it was joined from; None where one is unknown."""
    of_task = {other.model: other for other in rows if other.task == row.task}
    known = [_seconds(of_task[one], rows, on_gpu) for one in row.members if one in of_task]
    parts = [row.gpu_s if on_gpu else row.cpu_s, *known]
    if None in parts or len(known) < len(row.members):
        return None
    return sum(part or 0.0 for part in parts)
