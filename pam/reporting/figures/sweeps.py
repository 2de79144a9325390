"""Draw what an option changes: the metric of a task by the values of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pam.experiments.experiment import Experiment
from pam.experiments.sweep import Point, Sweep, short_names, text
from pam.reporting import style
from pam.reporting.comparison import Row, compare_sweeps, frame_of
from pam.reporting.figures.models import worded
from pam.reporting.runs import load_experiment, load_runs

NAMES = ("task", "model", "metric")  # columns of the data, besides options and values
ASIDE = 0.12  # by how much the lines of a panel stand beside each other, in steps of the axis


class SweepPanel(NamedTuple):
    """The models of one sweep on one task."""

    sweep: Sweep
    rows: list[tuple[Point, Row]]
    baseline: Row | None  # None where it was not run, or is one of the sweep's own models


def sweep(experiment: Path, scores: Sequence[Path]) -> style.Drawing:
    """Draw a metric by the values of each sweep, with 95 % intervals, seeds and the baseline.

    Values stand side by side in the order of the configuration. Of several options the first is the
    axis, and each combination of the others has a line.
    """
    config = load_experiment(experiment)
    rows = compare_sweeps(load_runs(scores, config), config)
    labeled = _panels(rows, config)

    figure = style.draw_tasks(labeled, _draw, 2.9, most=2)
    style.legend_of(figure, _handles(labeled), most=3)
    return style.Drawing(figure, _data(rows, config))


def _panels(rows: Sequence[Row], config: Experiment) -> list[tuple[str, SweepPanel]]:
    """Return the heading and the content of each panel: one for each task and sweep."""
    points = config.points()
    labeled = []
    for task in dict.fromkeys(row.task for row in rows):
        by_model = {row.model: row for row in rows if row.task == task}
        for sweep in config.sweeps():
            trained_points = [
                (point, by_model[point.name]) for point in sweep.points() if point.name in by_model
            ]
            if not trained_points:
                continue

            baseline = by_model.get(config.baseline)
            if baseline is not None and baseline.model in points:
                baseline = None
            first = trained_points[0][1]
            model = first.label.removesuffix(f", {trained_points[0][0].words}")
            labeled.append(
                (f"{first.task_label}: {model}", SweepPanel(sweep, trained_points, baseline))
            )

    return labeled


def _draw(panel: SweepPanel, axes: Axes) -> None:
    """Draw one panel: a line for each combination of the options that are not the axis."""
    if panel.baseline is not None:
        color = style.look(panel.baseline.model).color
        axes.axhspan(panel.baseline.low, panel.baseline.high, color=color, alpha=0.12, lw=0)
        axes.axhline(panel.baseline.mean, color=color, lw=1.2, ls="--")

    ticks = list(dict.fromkeys(text(value) for value in _axis_values(panel)))
    lines = _lines(panel)
    for number, (name, of_line) in enumerate(lines.items()):
        color, marker, dashes = style.look(name)
        aside = ASIDE * (number - (len(lines) - 1) / 2)
        positions = []
        for point, row in of_line:
            position = ticks.index(text(_axis_value(point))) + aside
            positions.append(position)
            axes.plot([position] * 2, [row.low, row.high], color=color, lw=1.8)
            if row.seeds > 1:
                axes.plot(
                    [position + ASIDE / 3] * row.seeds,
                    row.values,
                    "o",
                    color=color,
                    ms=2.8,
                    mew=0,
                    alpha=0.8,
                )

        means = [row.mean for _, row in of_line]
        axes.plot(positions, means, color=color, ls=dashes, marker=marker, mec="white", ms=7)

    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.set_xlabel(next(iter(panel.rows[0][0].values)))
    axes.set_ylabel(worded(panel.rows[0][1].metric))


def _axis_value(point: Point) -> object:
    """Return the value of the option that is the axis: the first one."""
    return next(iter(point.values.values()))


def _axis_values(panel: SweepPanel) -> list[object]:
    """Return the values of the axis, as often as models have them."""
    return [_axis_value(point) for point, _ in panel.rows]


def _line_of(point: Point) -> str:
    """Return the values of the options that are not the axis; empty where there are none."""
    names = short_names(list(point.values))
    others = list(point.values.items())[1:]
    return ", ".join(f"{names[option]} {text(value)}" for option, value in others)


def _lines(panel: SweepPanel) -> dict[str, list[tuple[Point, Row]]]:
    """Return the models of each line, by the name that gives the line its look."""
    lines: dict[str, list[tuple[Point, Row]]] = {}
    for point, row in panel.rows:
        name = " ".join(filter(None, [panel.sweep.name, _line_of(point)]))
        lines.setdefault(name, []).append((point, row))
    return lines


def _handles(labeled: Sequence[tuple[str, SweepPanel]]) -> list[Line2D]:
    """Return the entries of the legend."""
    panels = [panel for _, panel in labeled]
    rows = [row for panel in panels for _, row in panel.rows]
    units = " or ".join(dict.fromkeys(row.metric.over for row in rows))
    is_over_seeds = any(row.seeds > 1 for row in rows)
    if is_over_seeds:
        units = f"{units} and seeds"

    ours = {"label": f"95 % interval over {units}", "marker": "o", "mec": "white", "lw": 1.8}
    entries: list[dict[str, Any]] = [{"color": style.INK} | ours]
    if is_over_seeds:
        seeds = {"label": "each seed", "ls": "none", "marker": "o", "ms": 3}
        entries.append({"color": style.INK} | seeds)

    for panel in panels:
        for name, of_line in _lines(panel).items():
            label = _line_of(of_line[0][0])
            if label:
                color, marker, dashes = style.look(name)
                entries.append({"label": label, "color": color, "marker": marker, "ls": dashes})

    baselines = [panel.baseline for panel in panels if panel.baseline is not None]
    if baselines:
        color = style.look(baselines[0].model).color
        entries.append({"label": f"{baselines[0].label}, the baseline", "color": color, "ls": "--"})

    by_label = {str(entry["label"]): entry for entry in entries}
    return [Line2D([], [], **entry) for entry in by_label.values()]


def _data(rows: Sequence[Row], config: Experiment) -> pd.DataFrame:
    """Return the numbers that are drawn, with options and values; the baseline has none."""
    points = config.points()
    swept = [points.get(row.model) for row in rows]
    frame = frame_of(rows)[[*NAMES, "mean", "low", "high", "n"]]
    frame.insert(2, "options", ["; ".join(point.values) if point else "" for point in swept])
    values = ["; ".join(map(text, point.values.values())) if point else "" for point in swept]
    frame.insert(3, "values", values)
    return frame
