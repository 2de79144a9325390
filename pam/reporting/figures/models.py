"""Draw one mark per model: quality, gains over the baseline, quality against cost.

A model that fails would squeeze all others into a corner of its panel. A value far out is drawn
beyond a dotted line at the edge instead, with its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.evaluation.metrics import Metric
from pam.reporting import style
from pam.reporting.catalogue import load_papers
from pam.reporting.comparison import Inputs, Row, compare, frame_of, label_of_baseline
from pam.reporting.runs import DEVICES, load_experiment, load_runs
from pam.runtime.errors import UserError, unknown

NAMES = ("task", "model", "metric")  # columns of the data
# letters of a line of a model's name beside its mark
NAME_LETTERS = {style.WIDTH: 24, style.NARROW: 18}


def compared(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> list[Row]:
    """Return the rows to draw, compared as in the tables.

    If `metric` is a pattern such as `bleu_b*`, each task shows its first metric that matches.
    """
    papers = load_papers(paper) if paper_table else {}
    if paper_table and paper_table not in papers:
        raise unknown("table", paper_table, sorted(papers), file=paper)

    config = load_experiment(experiment)
    if not papers:
        return compare(load_runs(scores, config), config, [metric], None, first=True)
    tasks = Inputs(config, papers, scores).tasks
    return compare(tasks, config, [metric], papers.get(paper_table or ""), first=True)


def quality(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """Draw a metric by model with 95 % intervals, seeds and the paper's mark."""
    rows = compared(experiment, scores, metric, paper, paper_table)
    marks = [(row, Mark(row.mean, row.low, row.high, row.paper, row.values)) for row in rows]

    seeds = sorted({row.seeds for row in rows})
    if seeds == [1]:
        ours = "one seed,"
    elif len(seeds) == 1:
        ours = f"mean of {seeds[0]} seeds,"
    else:
        ours = f"mean of {seeds[0]} to {seeds[-1]} seeds,"

    figure = _line_per_model(marks, worded, ours)
    return style.Drawing(figure, frame_of(rows)[[*NAMES, "mean", "low", "high", "n", "paper"]])


def gains(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """Draw gains over the baseline with paired 95 % intervals, and the paper's gains.

    Better is to the right.
    """
    rows = compared(experiment, scores, metric, paper, paper_table)
    baseline = label_of_baseline(rows, load_experiment(experiment).baseline)
    marks = [
        (row, _mark_of_gain(row.gain, row.gain_low, row.gain_high, row.paper_gain))
        for row in rows
        if row.gain is not None
    ]
    if not marks:
        raise UserError("no gains to draw", hint="score the baseline and at least one other model")

    def axis(metric: Metric) -> str:
        words = f"{metric.label}: gain over {baseline}"
        if metric.unit == "%":
            return f"{words} (points)"
        if metric.unit:
            return f"{words} ({metric.unit})"
        return words

    figure = _line_per_model(marks, axis, "ours, paired", zero=True)
    columns = [*NAMES, "gain", "gain_low", "gain_high", "p", "p_holm", "outcome", "n", "paper_gain"]
    return style.Drawing(figure, frame_of([row for row, _ in marks])[columns])


def _mark_of_gain(gain: float, low: float | None, high: float | None, paper: float | None) -> Mark:
    """Return the mark of a gain; that of a single seed has no interval, and is a point alone."""
    if low is None or high is None:
        return Mark(gain, low=gain, high=gain, paper=paper)
    return Mark(gain, low, high, paper)


class CostPanel(NamedTuple):
    """The costs of a task's models on one device."""

    device: str
    costs: list[tuple[Row, float]]  # each row with its seconds
    without: list[Row]  # models whose cost on this device is unknown

    @property
    def first(self) -> Row:
        """A row of the task."""
        return self.costs[0][0]


def cost(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """Draw a metric against seconds of training and decoding.

    Each device that models ran on has a panel. An ensemble costs what its members do, besides its
    own decoding. Below a panel stand the models that it leaves out.

    Raises:
        UserError: no run's cost is known.
    """
    rows = compared(experiment, scores, metric, paper, paper_table)
    panels = [
        panel
        for task in dict.fromkeys(row.task for row in rows)
        for panel in _cost_panels(task, rows)
    ]
    if not panels:
        raise UserError("no cost is known", hint="score the runs again with --training")

    devices_of: dict[str, list[str]] = {}
    for panel in panels:
        devices_of.setdefault(panel.first.task, []).append(panel.device)
    # The two devices of a task stand side by side.
    across = 2
    if all(devices == ["CPU"] for devices in devices_of.values()):
        across = style.ACROSS

    labeled = []
    for panel in panels:
        heading = panel.first.task_label
        if devices_of[panel.first.task] != ["CPU"]:
            heading += f", on a {panel.device}"
        labeled.append((heading, panel))

    figure = style.draw_tasks(labeled, _draw_costs, 3.1, most=across)
    labels = {row.model: row.label for panel in panels for row, _ in panel.costs}
    style.legend_models(figure, labels, ls="none", ms=7)
    return style.Drawing(figure, _cost_data(rows, panels))


def _draw_costs(panel: CostPanel, axes: Axes) -> None:
    """Draw the models of a task at their seconds."""
    outliers = [Outlier(row.model, row.mean, seconds) for row, seconds in panel.costs]

    def draw(index: int) -> None:
        row, seconds = panel.costs[index]
        axes.plot([seconds] * 2, (row.low, row.high), color=style.look(row.model).color, lw=1.4)
        style.draw_ours(axes, row.model, seconds, row.mean)

    far = draw_all_but_outliers(axes.yaxis, [outlier.value for outlier in outliers], draw)
    pin(axes, [outliers[index] for index in far], across=False)

    axes.margins(x=0.1)
    axes.set_ylabel(worded(panel.first.metric))
    words = f"{panel.device} seconds of training and decoding"
    if panel.without:
        names = ", ".join(row.label for row in panel.without)
        words += f"\nNot measured on a {panel.device} alone: {names}"
    axes.set_xlabel(words)


def _cost_panels(task: str, rows: Sequence[Row]) -> list[CostPanel]:
    """Return the panels of a task, one for each device that both trained and decoded a model."""
    panels = []
    for device in DEVICES:
        seconds = [(row, row.seconds.get(device)) for row in rows if row.task == task]
        costs = [(row, spent) for row, spent in seconds if spent is not None]
        without = [row for row, spent in seconds if spent is None]
        if costs:
            panels.append(CostPanel(device, costs, without))
    return panels


def _cost_data(rows: Sequence[Row], panels: Sequence[CostPanel]) -> pd.DataFrame:
    """Return the rows of the tasks that are drawn, with a column of seconds for each device.

    Seconds that are not drawn are empty.
    """
    devices = [device for device in DEVICES if any(panel.device == device for panel in panels)]
    spent = {
        (panel.device, row.task, row.model): seconds
        for panel in panels
        for row, seconds in panel.costs
    }

    tasks = {panel.first.task for panel in panels}
    drawn = [row for row in rows if row.task in tasks]
    frame = frame_of(drawn)[[*NAMES, "mean", "low", "high"]]
    for device in devices:
        frame[f"{device.lower()}_seconds"] = [
            spent.get((device, row.task, row.model)) for row in drawn
        ]
    return frame


# One line per model.


class Mark(NamedTuple):
    """A model's value on its line."""

    value: float  # ours, with its interval
    low: float
    high: float
    paper: float | None
    seeds: Sequence[float] = ()


def _line_per_model(
    marks: Sequence[tuple[Row, Mark]], axis: Callable[[Metric], str], ours: str, zero: bool = False
) -> Figure:
    """Draw one panel per task, one line per model, the first on top.

    Args:
        axis: returns the text of an axis.
        ours: words in the legend for our marks.
        zero: whether to draw a line at 0.
    """
    tasks = _by_task(marks)
    letters = NAME_LETTERS[style.width_of_figures()]
    names = [
        [fill(row.label, letters, break_on_hyphens=False) for row, _ in task] for task in tasks
    ]

    def draw(index: int, panel: Axes) -> None:
        task = tasks[index]
        # Where all panels have the same models, those at the left edge name them.
        named = names.count(names[0]) < len(names) or style.is_first(panel)
        panel.set_yticks(range(len(task)), names[index])
        panel.set_ylim(len(task) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0, labelleft=named)
        panel.grid(axis="y", visible=False)
        if zero:
            panel.axvline(0, color=style.INK, lw=1)

        for line, (_, mark) in enumerate(task):
            if mark.paper is not None:
                panel.plot(mark.paper, line, "|", color=style.PAPER, ms=15, mew=2, zorder=6)

        def draw_line(line: int) -> None:
            row, mark = task[line]
            _draw_mark(panel, line, row.model, mark)

        far = draw_all_but_outliers(panel.xaxis, [mark.value for _, mark in task], draw_line)
        outliers = [Outlier(task[line][0].model, task[line][1].value, line) for line in far]
        pin(panel, outliers, across=True)
        panel.set_xlabel(axis(task[0][0].metric))

    labeled = [(task[0][0].task_label, index) for index, task in enumerate(tasks)]
    # A name of three lines needs more room than one of two, for which a line has enough.
    most_lines = max(name.count("\n") + 1 for of_task in names for name in of_task)
    line = max(0.36, 0.06 + 0.13 * most_lines)
    figure = style.draw_tasks(labeled, draw, 0.9 + line * max(map(len, tasks)))

    style.legend_of(figure, _handles(marks, ours))
    return figure


def _draw_mark(panel: Axes, line: int, model: str, mark: Mark) -> None:
    """Draw our value with its interval and seeds."""
    color = style.look(model).color
    panel.plot([mark.low, mark.high], [line] * 2, color=color, lw=2.2)
    if len(mark.seeds) > 1:
        below = [line + 0.22] * len(mark.seeds)
        panel.plot(mark.seeds, below, "o", color=color, ms=2.8, mew=0, alpha=0.8)
    style.draw_ours(panel, model, mark.value, line)


def _handles(marks: Sequence[tuple[Row, Mark]], ours: str) -> list[Line2D]:
    """Return the legend's entries."""
    units = " or ".join(dict.fromkeys(row.metric.over for row, _ in marks))
    if any(row.seeds > 1 for row, _ in marks):
        units = f"{units} and seeds"

    label = f"{ours} 95 % interval over {units}"
    width = 2.2
    # Gains of a single seed have no interval.
    if all(mark.low == mark.high for _, mark in marks):
        label = "ours, one seed, without an interval"
        width = 0.0
    entries: list[dict[str, Any]] = [
        {"label": label, "marker": "o", "mec": "white", "mew": 0.7, "ms": 7, "lw": width}
    ]
    if any(len(mark.seeds) > 1 for _, mark in marks):
        entries.append({"label": "each seed", "ls": "none", "marker": "o", "ms": 3})
    if any(mark.paper is not None for _, mark in marks):
        label = "paper"
        if not all(row.same_data for row, _ in marks):
            label = "paper (its own data)"
        entries.append(
            {"label": label, "color": style.PAPER, "ls": "none", "marker": "|", "ms": 13, "mew": 2}
        )

    return [Line2D([], [], **({"color": style.INK} | entry)) for entry in entries]


def worded(metric: Metric) -> str:
    """Return a metric's text on an axis, with its unit, and a note if lower is better."""
    notes = []
    if metric.unit:
        notes.append(metric.unit)
    if metric.lower_is_better:
        notes.append("lower is better")

    if not notes:
        return metric.label
    return f"{metric.label} ({', '.join(notes)})"


def _by_task(marks: Sequence[tuple[Row, Mark]]) -> list[list[tuple[Row, Mark]]]:
    """Return the marks of each task."""
    tasks: dict[str, list[tuple[Row, Mark]]] = {}
    for row, mark in marks:
        tasks.setdefault(row.task, []).append((row, mark))
    return list(tasks.values())


# Values far out.

ENOUGH = 8  # the fewest models of which some may be called far out
# interquartile ranges beyond the quartiles, the outer fences of Tukey's 'Exploratory Data Analysis'
# (1977)
FAR = 3.0
ASIDE = 60.0  # points at the side of a panel that a mark with its value takes


class Outlier(NamedTuple):
    """A model whose value is far out."""

    model: str
    value: float
    position: float  # on the other axis


def far_out(values: Sequence[float]) -> list[int]:
    """Return the indices of the values that are far out."""
    if len(values) < ENOUGH:
        return []

    first, third = np.quantile(values, [0.25, 0.75])
    margin = FAR * (third - first)
    return [
        index for index, value in enumerate(values) if not first - margin <= value <= third + margin
    ]


def draw_all_but_outliers(
    axis: Axis, values: Sequence[float], draw: Callable[[int], None]
) -> list[int]:
    """Draw values by their indices, and return those of outliers, which are left to `pin`.

    A value that is far out of the others may still lie within what is drawn of these, such as their
    intervals. Then it is drawn too.
    """
    far = far_out(values)
    within = [index for index in range(len(values)) if index not in far]
    while within:
        for index in within:
            draw(index)
        low, high = axis.get_view_interval()
        far = [index for index in far if index not in within]
        within = [index for index in far if low <= values[index] <= high]
    return far


def pin(axes: Axes, far: Sequence[Outlier], across: bool) -> None:
    """Put outliers at the sides of a panel in which all else has been drawn.

    Args:
        far: those that lie outside of it.
        across: values run from left to right, and outliers go to the left and the right; else
            values run upwards, and outliers go below and above, one a line.
    """
    if not far:
        return

    axis: Axis = axes.xaxis if across else axes.yaxis
    low, high = axis.get_view_interval()
    # Beyond the values that are drawn, the axis has no ticks.
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    below = [outlier for outlier in far if outlier.value < low]
    above = [outlier for outlier in far if outlier.value > high]

    # Where the outliers are put, and how far the panel reaches to have room for them.
    if across:
        width = 72 * axes.get_window_extent().width / axes.figure.dpi
        room = (high - low) * ASIDE / (width - ASIDE)
        positions = [low - 0.85 * room] * len(below) + [high + 0.15 * room] * len(above)
        start = low - room * bool(below)
        end = high + room * bool(above)
    else:
        line = 0.07 * (high - low)
        positions = [low - line * (number + 0.6) for number in range(len(below))]
        positions += [high + line * (number + 0.6) for number in range(len(above))]
        start = low - line * (len(below) + 0.2 * bool(below))
        end = high + line * (len(above) + 0.2 * bool(above))

    for outlier, position in zip([*below, *above], positions, strict=True):
        is_above = outlier.value > high
        if across:
            arrow = "→" if is_above else "←"
            _draw_outlier(axes, outlier, arrow, x=position, y=outlier.position)
        else:
            arrow = "↑" if is_above else "↓"
            _draw_outlier(axes, outlier, arrow, x=outlier.position, y=position)

    draw_edge = axes.axvline if across else axes.axhline
    for edge in [low] * bool(below) + [high] * bool(above):
        draw_edge(edge, color=style.INK, lw=0.8, ls=":")
    set_limits = axes.set_xlim if across else axes.set_ylim
    set_limits(start, end)


def _draw_outlier(axes: Axes, outlier: Outlier, arrow: str, x: float, y: float) -> None:
    """Draw an outlier's mark with its value beside it."""
    style.draw_ours(axes, outlier.model, x, y)
    text = f"{arrow} {outlier.value:.1f}".replace("-", "\N{MINUS SIGN}")
    axes.annotate(
        text, (x, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize="small"
    )
