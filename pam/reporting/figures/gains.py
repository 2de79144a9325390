"""Gain of every model over the baseline with its paired interval, and the paper's gain."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.io import UserError
from pam.reporting import outliers, style
from pam.reporting.comparison import Row
from pam.reporting.figures import scored

HELP = "gain over the baseline, better to the right, with paired 95 % intervals, and the paper's"
add_arguments = scored.add_arguments


def draw(args: argparse.Namespace) -> Figure:
    """One panel per task, one line per model except the baseline.

    Raises:
        UserError: there is no model beside the baseline.
    """
    rows = scored.read(args)
    baseline = next((row.label for row in rows if row.gain is None), "the baseline")
    rows = [row for row in rows if row.gain is not None]
    if not rows:
        raise UserError("no gains to draw", hint="score the baseline and at least one other model")
    tasks = scored.by_task(rows)
    figure, axes = scored.model_panels(tasks)
    for panel, task in zip(axes, tasks, strict=True):
        _panel(panel, task, baseline)
    handles = [scored.ours_handle(f"ours, paired 95 % interval over {scored.units(rows)}")]
    if any(row.gain and row.gain.paper is not None for row in rows):
        handles.append(scored.paper_handle(rows))
    scored.legend(figure, handles)
    return figure


def _panel(axes: Axes, rows: Sequence[Row], baseline: str) -> None:
    axes.axvline(0, color=style.INK, lw=1)
    gains = [row.gain for row in rows if row.gain is not None]
    far = outliers.far_out([gain.value for gain in gains])
    for place, (row, gain) in enumerate(zip(rows, gains, strict=True)):
        if gain.paper is not None:
            style.draw_paper(axes, gain.paper, place)
        if place in far:
            continue
        colour, spread = style.look(row.model).colour, gain.interval
        axes.plot([spread.low, spread.high], [place, place], color=colour, lw=2.2)
        style.draw_ours(axes, row.model, gain.value, place)
    beyond = [outliers.Outlier(rows[place].model, gains[place].value, place) for place in far]
    outliers.pin_across(axes, beyond)
    style.head(axes, rows[0].task_label)
    metric = rows[0].metric
    points = " (points)" if metric.unit == "%" else f" ({metric.unit})" if metric.unit else ""
    axes.set_xlabel(f"{metric.label}: gain over {baseline}{points}")
