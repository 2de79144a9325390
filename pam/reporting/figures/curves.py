"""Learning curves: development accuracy, where it was measured, and loss by epoch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pam.reporting import cells, style
from pam.reporting.histories import History, load, mean_over_seeds

HELP = "development loss by epoch beside accuracy or training loss, mean over seeds, seeds thin"


class Kind(NamedTuple):
    """What is drawn: a column of the history, its name, its unit and what it is multiplied by."""

    column: str
    words: str
    unit: str
    scale: float


LEFT = (
    Kind("dev_accuracy", "development accuracy", "%", 100.0),
    Kind("train_loss", "training loss", "nats a symbol", 1.0),
)
"""The first one that all histories of a task have."""
RIGHT = Kind("dev_loss", "development loss", "nats a symbol", 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiment", type=Path, required=True, help="configuration (YAML)")
    parser.add_argument(
        "--histories",
        type=Path,
        nargs="+",
        required=True,
        help="history.csv of every cell, its cell.yaml beside it",
    )


def draw(args: argparse.Namespace) -> Figure:
    """A row of panels per task: accuracy or training loss on the left, development loss right."""
    experiment = cells.load_experiment(args.experiment)
    histories = [load(path) for path in args.histories]
    tasks = [task for task in experiment.tasks if any(one.task == task for one in histories)]
    tasks += sorted({one.task for one in histories} - set(tasks))
    models = _in_order({one.model: one.label for one in histories}, experiment.models)
    figure, axes = style.panels(len(tasks), 2, height=0.75 + 2.5 * len(tasks))
    for index, task in enumerate(tasks):
        own = [one for one in histories if one.task == task]
        label = experiment.tasks[task].label if task in experiment.tasks else None
        left = next(kind for kind in LEFT if all(kind.column in one.columns for one in own))
        for panel, kind in zip(axes[2 * index :], (left, RIGHT), strict=False):
            _panel(panel, own, list(models), kind)
            panel.set_title(label or task)
    several = len({one.seed for one in histories}) > 1
    title = "mean over seeds; thin lines: each seed" if several else None
    style.legend_models(figure, models, title=title, marker=None)
    return figure


def _panel(axes: Axes, histories: Sequence[History], models: Sequence[str], kind: Kind) -> None:
    middles = []
    for model in models:
        own = [one for one in histories if one.model == model]
        if not own:
            continue
        look = style.look(model)
        if len(own) > 1:
            for one in own:
                values = kind.scale * one.columns[kind.column]
                axes.plot(one.columns["epoch"], values, color=look.colour, lw=0.6, alpha=0.35)
        epochs, mean = mean_over_seeds(own, kind.column)
        mean = kind.scale * mean
        middles.append(mean)
        # A single epoch makes no line.
        point = look.marker if len(epochs) == 1 else None
        axes.plot(epochs, mean, color=look.colour, ls=look.dashes, marker=point, lw=1.8, zorder=3)
    axes.set_ylabel(f"{kind.words} ({kind.unit})")
    axes.set_xlabel("epoch")
    if all(len(middle) == 1 for middle in middles):
        axes.set_xlim(0.5, 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _zoom(axes, middles)


def _zoom(axes: Axes, curves: Sequence[np.ndarray]) -> None:
    """Shows the part in which models differ: the first epochs leave the panel."""
    start = min(2, min(len(curve) for curve in curves) - 1)
    seen = np.concatenate([curve[start:] for curve in curves])
    low, high = float(seen.min()), float(seen.max())
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _in_order(labels: dict[str, str], models: Sequence[str]) -> dict[str, str]:
    known = [model for model in models if model in labels]
    return {model: labels[model] for model in [*known, *sorted(set(labels) - set(known))]}
