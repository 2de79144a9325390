"""One mark per model: quality, gains over the baseline, quality against cost.

A model that fails would squeeze all others into a corner of its panel. What is far out is drawn beyond a dotted line
at the edge instead, with its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.evaluation.metrics import Metric
from pam.io import UserError, unknown
from pam.reporting import style
from pam.reporting.catalogue import load_papers
from pam.reporting.comparison import Inputs, Row, compare, frame_of
from pam.reporting.runs import load_experiment, load_runs

NAMES = ("task", "model", "metric")  # columns of the data


def compared(experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None) -> list[Row]:
    """The rows to draw, compared as in the tables; of a pattern such as `bleu_b*` each task's first metric."""
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


def gains(experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None) -> style.Drawing:
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


def cost(experiment: Path, scores: Sequence[Path], metric: str, paper: Path, paper_table: str | None) -> style.Drawing:
    """A metric against CPU (or GPU) seconds of training and decoding.

    An ensemble costs what its members do, besides its own decoding.

    Raises:
        UserError: no run's cost is known.
    """
    rows = compared(experiment, scores, metric, paper, paper_table)
    on_gpu = any(row.gpu_s for row in rows)
    costs = [(row, _seconds(row, rows, on_gpu)) for row in rows]
    spent = [(row, seconds) for row, seconds in costs if seconds is not None]
    if not spent:
        raise UserError("no cost is known", hint="score the runs again with --training")

    def draw(task: list[tuple[Row, float]], panel: Axes) -> None:
        far = far_out([row.mean for row, _ in task])
        for place, (row, seconds) in enumerate(task):
            if place not in far:
                color, ends = style.look(row.model).color, (row.low, row.high)
                panel.plot([seconds] * 2, ends, color=color, lw=1.4)
                style.draw_ours(panel, row.model, seconds, row.mean)
        outliers = [Outlier(row.model, row.mean, seconds) for row, seconds in (task[place] for place in far)]
        pin(panel, outliers, across=False)
        panel.margins(x=0.1)
        panel.set_ylabel(_worded(task[0][0].metric))
        panel.set_xlabel(f"{'GPU' if on_gpu else 'CPU'} seconds of training and decoding")

    figure = style.draw_tasks([(task[0][0].task_label, task) for task in _by_task(spent)], draw, 3.1)
    style.legend_models(figure, {row.model: row.label for row, _ in spent}, ls="none", ms=7)
    seconds = {f"{'gpu' if on_gpu else 'cpu'}_seconds": [own for _, own in spent]}
    drawn = frame_of([row for row, _ in spent])[[*NAMES, "mean", "low", "high"]]
    return style.Drawing(figure, drawn.assign(**seconds))


def _seconds(row: Row, rows: Sequence[Row], on_gpu: bool) -> float | None:
    """A row's cost with that of the members of an ensemble; None where one is unknown."""
    of_task = {other.model: other for other in rows if other.task == row.task}
    known = [_seconds(of_task[one], rows, on_gpu) for one in row.members if one in of_task]
    parts = [row.gpu_s if on_gpu else row.cpu_s, *known]
    if None in parts or len(known) < len(row.members):
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
    """One panel per task, one line per model, the first on top; `words` say in the legend what our marks are."""
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
        pin(panel, [Outlier(task[line][0].model, task[line][1].value, line) for line in far], across=True)
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
    ours: dict[str, Any] = {"label": f"{words} 95 % interval over {units}", "marker": "o", "mec": "white"}
    entries = [ours | {"mew": 0.7, "ms": 7, "lw": 2.2}]
    if any(len(mark.seeds) > 1 for _, mark in marks):
        entries.append({"label": "each seed", "ls": "none", "marker": "o", "ms": 3})
    if any(mark.paper is not None for _, mark in marks):
        label = "paper" if all(row.same_data for row, _ in marks) else "paper (its own data)"
        entries.append({"label": label, "color": style.PAPER, "ls": "none", "marker": "|", "ms": 13, "mew": 2})
    return [Line2D([], [], **({"color": style.INK} | entry)) for entry in entries]


def _worded(metric: Metric) -> str:
    """A metric on an axis, with its unit and which way is better where it is not up."""
    notes = ", ".join(filter(None, [metric.unit, "lower is better" if metric.lower_is_better else ""]))
    return f"{metric.label} ({notes})" if notes else metric.label


def _by_task(rows: Sequence[tuple[Row, style.Drawn]]) -> list[list[tuple[Row, style.Drawn]]]:
    """Rows of each task, tasks in their order, each with what is drawn of it."""
    tasks = dict.fromkeys(row.task for row, _ in rows)
    return [[one for one in rows if one[0].task == task] for task in tasks]


# Values far out.

ENOUGH = 8  # models of which some may be called far out
FAR = 3.0  # interquartile ranges beyond the quartiles, the outer fences of Tukey's 'Exploratory Data Analysis' (1977)
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
    return [index for index, value in enumerate(values) if not first - margin <= value <= third + margin]


def pin(axes: Axes, far: Sequence[Outlier], across: bool) -> None:
    """Puts outliers beside a panel in which all else has been drawn: left and right, or below and above, one a line."""
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
        axes.annotate(text, (x, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize="small")
    for edge in [low] * bool(below) + [high] * bool(above):
        (axes.axvline if across else axes.axhline)(edge, color=style.INK, lw=0.8, ls=":")
    (axes.set_xlim if across else axes.set_ylim)(*ends)
