"""BLEU by the amount of training data (Koehn & Knowles 2017, Figure 1)."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.io import UserError, read_json
from pam.reporting import runs, style
from pam.reporting.comparison import Row, compare
from pam.reporting.runs import TaskRuns

HELP = "BLEU of models trained on more and more pairs of the same data, mean over seeds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiment", type=Path, required=True, help="configuration (YAML)")
    parser.add_argument(
        "--scores", type=Path, nargs="+", required=True, help="scores.json of every run"
    )
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="summary.json of the tasks' data"
    )


def draw(args: argparse.Namespace) -> Figure:
    """One panel per data set, one line per model, one point per task; pairs on a log scale.

    Raises:
        UserError: scores without BLEU, or a task whose data is not told.
    """
    experiment = runs.load_experiment(args.experiment)
    tasks = runs.load_runs(args.scores, experiment)
    sizes = {path.parent.parent.name: _pairs(path) for path in args.data}
    for task in tasks:
        if task.name not in sizes:
            raise UserError(
                f"no summary of the data of {task.name}", hint="name it with --data too"
            )
    rows = compare(tasks, experiment, ["bleu_b*"], None, first=True)
    groups: dict[str, list[TaskRuns]] = {}
    for task in tasks:
        groups.setdefault(task.config.family(), []).append(task)
    figure, axes = style.task_panels(len(groups), height=3.0)
    for place, (panel, group) in enumerate(zip(axes, groups.values(), strict=True)):
        largest = max(group, key=lambda task: sizes[task.name])
        style.head(panel, largest.label)
        _panel(panel, [row for row in rows if row.task in {one.name for one in group}], sizes)
        if place % style.ACROSS == 0:
            panel.set_ylabel("BLEU, 95 %")
    style.legend_models(figure, {row.model: row.label for row in rows})
    return figure


def _pairs(summary: Path) -> int:
    return int(read_json(summary)["splits"]["train"]["rows"])


def _panel(axes: Axes, rows: list[Row], sizes: dict[str, int]) -> None:
    for model in dict.fromkeys(row.model for row in rows):
        own = sorted((sizes[row.task], row) for row in rows if row.model == model)
        pairs = np.array([size for size, _ in own])
        style.curve(axes, pairs, np.array([row.mean for _, row in own]), style.look(model))
        lows, highs = ([getattr(row.interval, end) for _, row in own] for end in ("low", "high"))
        axes.vlines(pairs, lows, highs, color=style.look(model).colour, lw=1.2)
    axes.set_xscale("log")
    axes.set_xlabel("training pairs")
