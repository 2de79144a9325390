"""Quality of every model with its interval, every seed, and the paper's mark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.reporting import outliers, style
from pam.reporting.comparison import Row
from pam.reporting.figures import scored

HELP = "a metric by model with 95 % intervals, seeds and the paper's mark"
add_arguments = scored.add_arguments


def draw(args: argparse.Namespace) -> Figure:
    """One panel per task, one line per model."""
    rows = scored.read(args)
    tasks = scored.by_task(rows)
    figure, axes = scored.model_panels(tasks)
    for panel, task in zip(axes, tasks, strict=True):
        _panel(panel, task)
    scored.legend(figure, _handles(rows))
    return figure


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    far = outliers.far_out([row.mean for row in rows])
    for place, row in enumerate(rows):
        if row.paper is not None:
            style.draw_paper(axes, row.paper, place)
        if place in far:
            continue
        colour, spread = style.look(row.model).colour, row.interval
        axes.plot([spread.low, spread.high], [place, place], color=colour, lw=2.2)
        if row.seeds > 1:
            below = [place + 0.22] * row.seeds
            axes.plot(row.values, below, "o", color=colour, ms=2.8, mew=0, alpha=0.8)
        style.draw_ours(axes, row.model, row.mean, place)
    beyond = [outliers.Outlier(rows[place].model, rows[place].mean, place) for place in far]
    outliers.pin_across(axes, beyond)
    style.head(axes, rows[0].task_label)
    axes.set_xlabel(scored.worded(rows[0].metric))


def _handles(rows: Sequence[Row]) -> list[Line2D]:
    seeds = sorted({row.seeds for row in rows})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    ours = f"mean of {count} seeds" if seeds[-1] > 1 else "one seed"
    handles = [scored.ours_handle(f"{ours}, 95 % interval over {scored.units(rows)}")]
    if seeds[-1] > 1:
        handles.append(
            Line2D([], [], ls="none", marker="o", color=style.INK, ms=3, label="each seed")
        )
    if any(row.paper is not None for row in rows):
        handles.append(scored.paper_handle(rows))
    return handles
