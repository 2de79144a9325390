"""Quality against the cost of one training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.errors import UserError
from pam.reporting import style
from pam.reporting.comparison import Row
from pam.reporting.figures import scored

HELP = "a metric against CPU (or GPU) seconds of one training"
add_arguments = scored.add_arguments


def draw(args: argparse.Namespace) -> Figure:
    """One panel per task, one mark per model; GPU seconds where a GPU was used.

    Raises:
        UserError: no cell's cost is known.
    """
    rows = scored.read(args)
    on_gpu = any(row.gpu_s for row in rows)
    rows = [row for row in rows if _seconds(row, on_gpu) is not None]
    if not rows:
        raise UserError("no cost is known", remedy="score the cells again with --training")
    tasks = scored.by_task(rows)
    figure, axes = style.task_panels(len(tasks), height=3.1)
    for panel, task in zip(axes, tasks, strict=True):
        _panel(panel, task, on_gpu)
    style.legend_models(figure, {row.model: row.label for row in rows}, ls="none", ms=7)
    return figure


def _panel(axes: Axes, rows: Sequence[Row], on_gpu: bool) -> None:
    for row in rows:
        colour, seconds = style.look(row.model).colour, _seconds(row, on_gpu) or 0.0
        axes.plot([seconds] * 2, [row.interval.low, row.interval.high], color=colour, lw=1.4)
        style.draw_ours(axes, row.model, seconds, row.mean)
    axes.margins(x=0.1)
    axes.set_title(rows[0].task_label)
    axes.set_xlabel(f"{'GPU' if on_gpu else 'CPU'} seconds per training")
    axes.set_ylabel(scored.worded(rows[0].metric))


def _seconds(row: Row, on_gpu: bool) -> float | None:
    return row.gpu_s if on_gpu else row.cpu_s
