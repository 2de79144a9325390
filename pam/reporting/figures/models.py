"""One mark per model: quality, gains over the baseline, quality against cost.

A model that fails would squeeze all others into a corner of its panel. What is far out is drawn
beyond a dotted line at the edge instead, with its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.evaluation.metrics import Metric
from pam.io import UserError, unknown
from pam.reporting import style
from pam.reporting.catalogue import load_papers
from pam.reporting.comparison import Inputs, Row, compare, frame_of
from pam.reporting.runs import DEVICES, load_experiment, load_runs

NAMES = ("task", "model", "metric")  # columns of the data
AXIS_LETTERS = 84  # of words below an axis, in the width of a figure


def compared(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> list[Row]:
    """The rows to draw, compared as in the tables; of a pattern such as `bleu_b*` each task's first
    metric.
    """
    papers = load_papers(paper) if paper_table else {}
    if paper_table and paper_table not in papers:
        raise unknown("table", paper_table, sorted(papers), file=paper)
    known = load_experiment(experiment)
    tasks = Inputs(known, papers, scores).tasks if papers else load_runs(scores, known)
    return compare(tasks, known, [metric], papers.get(paper_table or ""), first=True)


def quality(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """A metric by model with 95 % intervals, seeds and the paper's mark."""
    rows = compared(experiment, scores, metric, paper, paper_table)
    seeds = sorted({row.seeds for row in rows})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    figure = _line_per_model(
        [(row, Mark(row.mean, row.low, row.high, row.paper, row.values)) for row in rows],
        _worded,
        f"mean of {count} seeds," if seeds[-1] > 1 else "one seed,",
    )
    return style.Drawing(figure, frame_of(rows)[[*NAMES, "mean", "low", "high", "n", "paper"]])


def gains(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """Gains over the baseline with paired 95 % intervals, better to the right, and the paper's."""
    rows = compared(experiment, scores, metric, paper, paper_table)
    baseline = next((row.label for row in rows if row.gain is None), "the baseline")
    # A single seed has no interval of its gain: a point alone.
    marks = [
        (
            row,
            Mark(
                row.gain,
                row.gain if row.gain_low is None else row.gain_low,
                row.gain if row.gain_high is None else row.gain_high,
                row.paper_gain,
            ),
        )
        for row in rows
        if row.gain is not None
    ]
    if not marks:
        raise UserError("no gains to draw", hint="score the baseline and at least one other model")

    def axis(metric: Metric) -> str:
        unit = "points" if metric.unit == "%" else metric.unit
        return f"{metric.label}: gain over {baseline}{f' ({unit})' if unit else ''}"

    drawn = frame_of([row for row, _ in marks])
    columns = [*NAMES, "gain", "gain_low", "gain_high", "p", "n", "paper_gain"]
    return style.Drawing(_line_per_model(marks, axis, "ours, paired", zero=True), drawn[columns])


class CostPanel(NamedTuple):
    """What a task's models cost on one device: each row with its seconds, and the models that have
    none there.
    """

    device: str
    costs: list[tuple[Row, float]]
    without: list[Row]


def cost(
    experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None
) -> style.Drawing:
    """A metric against seconds of training and decoding, a panel for each device that models ran
    on.

    An ensemble costs what its members do, besides its own decoding. Below a panel stand the models
    that it leaves out.

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
    by_task: dict[str, list[str]] = {}
    for panel in panels:
        by_task.setdefault(panel.costs[0][0].task, []).append(panel.device)
    across = style.ACROSS if all(devices == ["CPU"] for devices in by_task.values()) else 2
    letters = AXIS_LETTERS // min(across, len(panels))

    def draw(panel: CostPanel, axes: Axes) -> None:
        far = far_out([row.mean for row, _ in panel.costs])
        for index, (row, seconds) in enumerate(panel.costs):
            if index not in far:
                color = style.look(row.model).color
                axes.plot([seconds] * 2, (row.low, row.high), color=color, lw=1.4)
                style.draw_ours(axes, row.model, seconds, row.mean)
        outliers = [
            Outlier(row.model, row.mean, seconds)
            for row, seconds in (panel.costs[index] for index in far)
        ]
        pin(axes, outliers, across=False)
        axes.margins(x=0.1)
        axes.set_ylabel(_worded(panel.costs[0][0].metric))
        words = [f"{panel.device} seconds of training and decoding"]
        if panel.without:
            names = ", ".join(row.label for row in panel.without)
            words.append(
                fill(
                    f"Not measured on a {panel.device} alone: {names}",
                    letters,
                    break_on_hyphens=False,
                )
            )
        axes.set_xlabel("\n".join(words))

    labeled = []
    for panel in panels:
        row = panel.costs[0][0]
        is_divided = by_task[row.task] != ["CPU"]
        labeled.append(
            (f"{row.task_label}, on a {panel.device}" if is_divided else row.task_label, panel)
        )
    figure = style.draw_tasks(labeled, draw, 3.1, most=across)
    shown = {row.model: row.label for panel in panels for row, _ in panel.costs}
    style.legend_models(figure, shown, ls="none", ms=7)
    return style.Drawing(figure, _cost_data(rows, panels))


def _cost_panels(task: str, rows: Sequence[Row]) -> list[CostPanel]:
    """Return the panels of a task, one for each device on which a model was both trained and
    decoded.
    """
    panels = []
    own = [row for row in rows if row.task == task]
    for device in DEVICES:
        seconds = [(row, _seconds(row, rows, device)) for row in own]
        costs = [(row, spent) for row, spent in seconds if spent is not None]
        if costs:
            panels.append(
                CostPanel(device, costs, [row for row, spent in seconds if spent is None])
            )
    return panels


def _cost_data(rows: Sequence[Row], panels: Sequence[CostPanel]) -> pd.DataFrame:
    """Return the rows of the tasks that are drawn, with a column of seconds for each device, empty
    where not drawn.
    """
    devices = [device for device in DEVICES if any(panel.device == device for panel in panels)]
    spent = {
        (panel.device, row.task, row.model): own for panel in panels for row, own in panel.costs
    }
    tasks = {panel.costs[0][0].task for panel in panels}
    shown = [row for row in rows if row.task in tasks]
    frame = frame_of(shown)[[*NAMES, "mean", "low", "high"]]
    for device in devices:
        frame[f"{device.lower()}_seconds"] = [
            spent.get((device, row.task, row.model)) for row in shown
        ]
    return frame


def _seconds(row: Row, rows: Sequence[Row], device: str) -> float | None:
    """A row's cost on a device with its ensemble's members; None where one is unknown."""
    of_task = {other.model: other for other in rows if other.task == row.task}
    members = [
        _seconds(of_task[member], rows, device) for member in row.members if member in of_task
    ]
    parts = [row.seconds.get(device), *members]
    if None in parts or len(members) < len(row.members):
        return None
    return sum(part or 0.0 for part in parts)


# One line per model.


class Mark(NamedTuple):
    value: float  # ours, with its interval
    low: float
    high: float
    paper: float | None
    seeds: Sequence[float] = ()


def _line_per_model(
    marks: Sequence[tuple[Row, Mark]], axis: Callable[[Metric], str], words: str, zero: bool = False
) -> Figure:
    """One panel per task, one line per model, the first on top; `words` say in the legend what our
    marks are.
    """
    tasks = _by_task(marks)
    names = [[row.label for row, _ in task] for task in tasks]

    def draw(place: int, panel: Axes) -> None:
        task = tasks[place]
        # Where all panels have the same models, those at the left edge name them.
        named = names.count(names[0]) < len(names) or place % style.ACROSS == 0
        panel.set_yticks(range(len(task)), names[place])
        panel.set_ylim(len(task) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0, labelleft=named)
        panel.grid(axis="y", visible=False)
        if zero:
            panel.axvline(0, color=style.INK, lw=1)
        far = far_out([mark.value for _, mark in task])
        for line, (row, mark) in enumerate(task):
            if mark.paper is not None:
                panel.plot(mark.paper, line, "|", color=style.PAPER, ms=15, mew=2, zorder=6)
            if line in far:
                continue
            color = style.look(row.model).color
            panel.plot([mark.low, mark.high], [line] * 2, color=color, lw=2.2)
            if len(mark.seeds) > 1:
                below = [line + 0.22] * len(mark.seeds)
                panel.plot(mark.seeds, below, "o", color=color, ms=2.8, mew=0, alpha=0.8)
            style.draw_ours(panel, row.model, mark.value, line)
        pin(
            panel,
            [Outlier(task[line][0].model, task[line][1].value, line) for line in far],
            across=True,
        )
        panel.set_xlabel(axis(task[0][0].metric))

    labeled = [(task[0][0].task_label, place) for place, task in enumerate(tasks)]
    figure = style.draw_tasks(labeled, draw, 0.9 + 0.36 * max(map(len, tasks)))
    handles = _handles(marks, words)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _handles(marks: Sequence[tuple[Row, Mark]], words: str) -> list[Line2D]:
    """The legend's entries."""
    units = " or ".join(dict.fromkeys(row.metric.over for row, _ in marks))
    if any(row.seeds > 1 for row, _ in marks):
        units = f"{units} and seeds"
    ours: dict[str, Any] = {
        "label": f"{words} 95 % interval over {units}",
        "marker": "o",
        "mec": "white",
    }
    entries = [ours | {"mew": 0.7, "ms": 7, "lw": 2.2}]
    if any(len(mark.seeds) > 1 for _, mark in marks):
        entries.append({"label": "each seed", "ls": "none", "marker": "o", "ms": 3})
    if any(mark.paper is not None for _, mark in marks):
        label = "paper" if all(row.same_data for row, _ in marks) else "paper (its own data)"
        entries.append(
            {"label": label, "color": style.PAPER, "ls": "none", "marker": "|", "ms": 13, "mew": 2}
        )
    return [Line2D([], [], **({"color": style.INK} | entry)) for entry in entries]


def _worded(metric: Metric) -> str:
    """A metric on an axis, with its unit and which way is better where it is not up."""
    notes = ", ".join(
        filter(None, [metric.unit, "lower is better" if metric.lower_is_better else ""])
    )
    return f"{metric.label} ({notes})" if notes else metric.label


def _by_task(rows: Sequence[tuple[Row, style.Drawn]]) -> list[list[tuple[Row, style.Drawn]]]:
    """Rows of each task, tasks in their order, each with what is drawn of it."""
    tasks = dict.fromkeys(row.task for row, _ in rows)
    return [[one for one in rows if one[0].task == task] for task in tasks]


# Values far out.

ENOUGH = 8  # models of which some may be called far out
# interquartile ranges beyond the quartiles, the outer fences of Tukey's 'Exploratory Data Analysis'
# (1977)
FAR = 3.0
ASIDE = 60.0  # points at the side of a panel that a mark with its value takes


class Outlier(NamedTuple):
    model: str
    value: float
    place: float  # on the other axis


def far_out(values: Sequence[float]) -> list[int]:
    """The indices of those that are far out."""
    if len(values) < ENOUGH:
        return []
    first, third = np.quantile(values, [0.25, 0.75])
    margin = FAR * (third - first)
    return [
        index for index, value in enumerate(values) if not first - margin <= value <= third + margin
    ]


def pin(axes: Axes, far: Sequence[Outlier], across: bool) -> None:
    """Puts outliers beside a panel in which all else has been drawn: left and right, or below and
    above, one a line.
    """
    if not far:
        return
    axis = axes.xaxis if across else axes.yaxis
    low, high = axis.get_view_interval()
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    below, above = [one for one in far if one.value < low], [one for one in far if one.value > high]
    if across:
        width = 72 * axes.get_window_extent().width / axes.figure.dpi
        room = (high - low) * ASIDE / (width - ASIDE)
        places = [low - 0.85 * room] * len(below) + [high + 0.15 * room] * len(above)
        ends = low - room * bool(below), high + room * bool(above)
    else:
        line = 0.07 * (high - low)
        places = [low - line * (number + 0.6) for number in range(len(below))]
        places += [high + line * (number + 0.6) for number in range(len(above))]
        lines = [len(beyond) + 0.2 * bool(beyond) for beyond in (below, above)]
        ends = low - line * lines[0], high + line * lines[1]
    for one, value in zip([*below, *above], places, strict=True):
        x, y = (value, one.place) if across else (one.place, value)
        style.draw_ours(axes, one.model, x, y)
        arrow = ("←→" if across else "↓↑")[int(one.value > high)]
        text = f"{arrow} {one.value:.1f}".replace("-", "\N{MINUS SIGN}")
        axes.annotate(
            text, (x, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize="small"
        )
    for edge in [low] * bool(below) + [high] * bool(above):
        (axes.axvline if across else axes.axhline)(edge, color=style.INK, lw=0.8, ls=":")
    (axes.set_xlim if across else axes.set_ylim)(*ends)
