"""One mark per model: quality, gains over the baseline, quality against cost.

A model that fails would squeeze all others into a corner of its panel. What is far out is drawn
beyond a dotted line at the edge instead, with its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.evaluation.metrics import Metric
from pam.io import UserError, unknown
from pam.reporting.comparison import Row, check_rows, compare, load_papers
from pam.reporting.figures import style
from pam.reporting.runs import load_experiment, load_runs


def compared(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> list[Row]:
    """The rows to draw, compared as in the tables.

    Args:
        metric: its name, or a pattern such as `bleu_b*`, of which each task's first is drawn.
        paper: the papers' results; paper_table: the table of that file to show with ours.

    Raises:
        UserError: no such metric or table, or scores that cannot be compared.
    """
    papers = load_papers(paper) if paper_table else {}
    if paper_table and paper_table not in papers:
        raise unknown("table", paper_table, sorted(papers), file=paper)
    known = load_experiment(experiment)
    tasks = load_runs(scores, known)
    if papers:
        check_rows(papers, tasks)
    shown = papers[paper_table] if paper_table else None
    return compare(tasks, known, [metric], shown, first=True)


# Marks of models that are drawn, and those that are far out.

ENOUGH, FAR = 8, 3.0
"""Models of which some may be called far out; in interquartile ranges beyond the quartiles, the
outer fences of Tukey's 'Exploratory Data Analysis' (1977)."""

ASIDE = 60.0
"""Points beside a panel that a mark with its value takes."""


class Outlier(NamedTuple):
    """A model's value, which is far out, and where it stands on the other axis."""

    model: str
    value: float
    place: float


def far_out(values: Sequence[float]) -> list[int]:
    """The indices of those that are far out."""
    if len(values) < ENOUGH:
        return []
    first, third = np.quantile(values, [0.25, 0.75])
    margin = FAR * (third - first)
    return [
        index for index, value in enumerate(values) if not first - margin <= value <= third + margin
    ]


def pin_across(axes: Axes, far: Sequence[Outlier]) -> None:
    """Puts outliers left and right of a panel in which all else has been drawn."""
    if not far:
        return
    low, high, below, above = _sides(axes.xaxis, far)
    width = 72 * axes.get_window_extent().width / axes.figure.dpi
    room = (high - low) * ASIDE / (width - ASIDE)
    for one in below:
        _draw_outlier(axes, one, low - 0.85 * room, one.place, "←")
    for one in above:
        _draw_outlier(axes, one, high + 0.15 * room, one.place, "→")
    for edge in [low] * bool(below) + [high] * bool(above):
        axes.axvline(edge, color=style.INK, lw=0.8, ls=":")
    axes.set_xlim(low - room * bool(below), high + room * bool(above))


def pin_along(axes: Axes, far: Sequence[Outlier]) -> None:
    """Puts outliers below and above a panel in which all else has been drawn, one a line."""
    if not far:
        return
    low, high, below, above = _sides(axes.yaxis, far)
    line = 0.07 * (high - low)
    for number, one in enumerate(below):
        _draw_outlier(axes, one, one.place, low - line * (number + 0.6), "↓")
    for number, one in enumerate(above):
        _draw_outlier(axes, one, one.place, high + line * (number + 0.6), "↑")
    for edge in [low] * bool(below) + [high] * bool(above):
        axes.axhline(edge, color=style.INK, lw=0.8, ls=":")
    axes.set_ylim(low - line * _lines(below), high + line * _lines(above))


def _sides(axis: Axis, far: Sequence[Outlier]) -> tuple[float, float, list[Outlier], list[Outlier]]:
    """The ends of an axis, beyond which it gets no ticks, and what lies below and above them."""
    low, high = axis.get_view_interval()
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    below = [one for one in far if one.value < low]
    return low, high, below, [one for one in far if one.value > high]


def _lines(beyond: Sequence[Outlier]) -> float:
    return len(beyond) + 0.2 if beyond else 0.0


def _draw_outlier(axes: Axes, one: Outlier, x: float, y: float, arrow: str) -> None:
    style.draw_ours(axes, one.model, x, y)
    text = f"{arrow} {one.value:.1f}".replace("-", "\N{MINUS SIGN}")
    axes.annotate(
        text,
        (x, y),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
    )


# Quality.


def quality(
    experiment: Path,
    scores: Sequence[Path],
    metric: str,
    paper: Path,
    paper_table: str | None,
) -> Figure:
    """One panel per task, one line per model."""
    rows = compared(experiment, scores, metric, paper, paper_table)
    tasks = by_task(rows)
    figure, axes = model_panels(tasks)
    for panel, task in zip(axes, tasks, strict=True):
        _quality_panel(panel, task)
    legend(figure, _quality_handles(rows))
    return figure


def _quality_panel(axes: Axes, rows: Sequence[Row]) -> None:
    far = far_out([row.mean for row in rows])
    for place, row in enumerate(rows):
        if row.paper is not None:
            style.draw_paper(axes, row.paper, place)
        if place in far:
            continue
        color, spread = style.look(row.model).color, row.interval
        axes.plot([spread.low, spread.high], [place, place], color=color, lw=2.2)
        if row.seeds > 1:
            below = [place + 0.22] * row.seeds
            axes.plot(row.values, below, "o", color=color, ms=2.8, mew=0, alpha=0.8)
        style.draw_ours(axes, row.model, row.mean, place)
    beyond = [Outlier(rows[place].model, rows[place].mean, place) for place in far]
    pin_across(axes, beyond)
    style.head(axes, rows[0].task_label)
    axes.set_xlabel(worded(rows[0].metric))


def _quality_handles(rows: Sequence[Row]) -> list[Line2D]:
    seeds = sorted({row.seeds for row in rows})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    ours = f"mean of {count} seeds" if seeds[-1] > 1 else "one seed"
    handles = [ours_handle(f"{ours}, 95 % interval over {units(rows)}")]
    if seeds[-1] > 1:
        handles.append(
            Line2D([], [], ls="none", marker="o", color=style.INK, ms=3, label="each seed")
        )
    if any(row.paper is not None for row in rows):
        handles.append(paper_handle(rows))
    return handles


# Gains.


def gains(
    experiment: Path,
    scores: Sequence[Path],
    metric: str,
    paper: Path,
    paper_table: str | None,
) -> Figure:
    """One panel per task, one line per model except the baseline.

    Raises:
        UserError: there is no model beside the baseline.
    """
    rows = compared(experiment, scores, metric, paper, paper_table)
    baseline = next((row.label for row in rows if row.gain is None), "the baseline")
    rows = [row for row in rows if row.gain is not None]
    if not rows:
        raise UserError("no gains to draw", hint="score the baseline and at least one other model")
    tasks = by_task(rows)
    figure, axes = model_panels(tasks)
    for panel, task in zip(axes, tasks, strict=True):
        _gains_panel(panel, task, baseline)
    handles = [ours_handle(f"ours, paired 95 % interval over {units(rows)}")]
    if any(row.gain and row.gain.paper is not None for row in rows):
        handles.append(paper_handle(rows))
    legend(figure, handles)
    return figure


def _gains_panel(axes: Axes, rows: Sequence[Row], baseline: str) -> None:
    axes.axvline(0, color=style.INK, lw=1)
    gains = [row.gain for row in rows if row.gain is not None]
    far = far_out([gain.value for gain in gains])
    for place, (row, gain) in enumerate(zip(rows, gains, strict=True)):
        if gain.paper is not None:
            style.draw_paper(axes, gain.paper, place)
        if place in far:
            continue
        color, spread = style.look(row.model).color, gain.interval
        axes.plot([spread.low, spread.high], [place, place], color=color, lw=2.2)
        style.draw_ours(axes, row.model, gain.value, place)
    beyond = [Outlier(rows[place].model, gains[place].value, place) for place in far]
    pin_across(axes, beyond)
    style.head(axes, rows[0].task_label)
    metric = rows[0].metric
    points = " (points)" if metric.unit == "%" else f" ({metric.unit})" if metric.unit else ""
    axes.set_xlabel(f"{metric.label}: gain over {baseline}{points}")


# Cost.


def cost(
    experiment: Path,
    scores: Sequence[Path],
    metric: str,
    paper: Path,
    paper_table: str | None,
) -> Figure:
    """One panel per task, one mark per model; GPU seconds where a GPU was used.

    A model that is joined from others costs what they do, besides its own decoding.

    Raises:
        UserError: no run's cost is known.
    """
    rows = compared(experiment, scores, metric, paper, paper_table)
    on_gpu = any(row.gpu_s for row in rows)
    spent = {(row.task, row.model): _seconds(row, rows, on_gpu) for row in rows}
    rows = [row for row in rows if spent[row.task, row.model] is not None]
    if not rows:
        raise UserError("no cost is known", hint="score the runs again with --training")
    tasks = by_task(rows)
    figure, axes = style.task_panels(len(tasks), height=3.1)
    for panel, task in zip(axes, tasks, strict=True):
        _cost_panel(panel, task, [spent[row.task, row.model] or 0.0 for row in task])
        panel.set_xlabel(f"{'GPU' if on_gpu else 'CPU'} seconds of training and decoding")
    style.legend_models(figure, {row.model: row.label for row in rows}, ls="none", ms=7)
    return figure


def _cost_panel(axes: Axes, rows: Sequence[Row], spent: Sequence[float]) -> None:
    far = far_out([row.mean for row in rows])
    for place, (row, seconds) in enumerate(zip(rows, spent, strict=True)):
        if place in far:
            continue
        color = style.look(row.model).color
        axes.plot([seconds] * 2, [row.interval.low, row.interval.high], color=color, lw=1.4)
        style.draw_ours(axes, row.model, seconds, row.mean)
    beyond = [Outlier(rows[place].model, rows[place].mean, spent[place]) for place in far]
    pin_along(axes, beyond)
    axes.margins(x=0.1)
    style.head(axes, rows[0].task_label)
    axes.set_ylabel(worded(rows[0].metric))


def _seconds(row: Row, rows: Sequence[Row], on_gpu: bool) -> float | None:
    """A row's cost with that of the models that it was joined from; None where one is unknown."""
    of_task = {other.model: other for other in rows if other.task == row.task}
    known = [_seconds(of_task[one], rows, on_gpu) for one in row.members if one in of_task]
    parts = [row.gpu_s if on_gpu else row.cpu_s, *known]
    if None in parts or len(known) < len(row.members):
        return None
    return sum(part or 0.0 for part in parts)


# What they share.


def worded(metric: Metric) -> str:
    """A metric on an axis, with its unit and which way is better where it is not up."""
    unit = [metric.unit] if metric.unit else []
    notes = ", ".join([*unit, *(["lower is better"] if metric.lower_is_better else [])])
    return f"{metric.label} ({notes})" if notes else metric.label


def units(rows: Sequence[Row]) -> str:
    """What was resampled."""
    return " or ".join(dict.fromkeys(row.metric.over for row in rows))


def by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of each task, tasks in their order."""
    tasks = dict.fromkeys(row.task for row in rows)
    return [[row for row in rows if row.task == task] for task in tasks]


def model_panels(tasks: Sequence[Sequence[Row]]) -> tuple[Figure, list[Axes]]:
    """Panels with one line per model; models are named at the left edge where all are the same."""
    height = 0.9 + 0.36 * max(len(task) for task in tasks)
    figure, axes = style.task_panels(len(tasks), height)
    same = len({tuple(row.label for row in task) for task in tasks}) == 1
    for place, (panel, task) in enumerate(zip(axes, tasks, strict=True)):
        _name_models(panel, task, named=not same or place % style.ACROSS == 0)
    return figure, axes


def _name_models(axes: Axes, rows: Sequence[Row], named: bool) -> None:
    """One line per model, the first on top."""
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelleft=named)
    axes.grid(axis="y", visible=False)


def paper_word(rows: Sequence[Row]) -> str:
    """What the paper's mark means here."""
    return "paper" if all(row.same_data for row in rows) else "paper (its own data)"


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A legend in one line below all panels."""
    figure.legend(handles=list(handles), loc="outside lower center", ncols=len(handles))


def paper_handle(rows: Sequence[Row]) -> Line2D:
    """The legend's entry for a paper's figure."""
    return Line2D(
        [], [], ls="none", marker="|", color=style.PAPER, ms=13, mew=2, label=paper_word(rows)
    )


def ours_handle(words: str) -> Line2D:
    """The legend's entry for our figure with its interval."""
    return Line2D(
        [], [], color=style.INK, marker="o", mec="white", mew=0.7, ms=7, lw=2.2, label=words
    )
