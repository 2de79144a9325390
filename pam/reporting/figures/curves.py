"""Learning curves: what was measured on the development split after each epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pam.evaluation.metrics import Floats
from pam.io import UserError
from pam.reporting.figures import style
from pam.reporting.runs import History, load_experiment, load_history


class Kind(NamedTuple):
    """What is drawn: a column of the history, its name, its unit and how it is read."""

    column: str
    words: str
    unit: str
    read: Callable[[Floats], Floats]


def _same(values: Floats) -> Floats:
    return values


def _in_per_cent(values: Floats) -> Floats:
    return 100 * values


LEFT = (
    Kind("dev_accuracy", "development accuracy", "%", _in_per_cent),
    Kind("train_loss", "training loss", "nats a symbol", _same),
)
"""The first one that all histories of a task have."""
RIGHT = Kind("dev_loss", "development loss", "nats a symbol", _same)

EVAL_METRICS = (
    Kind("dev_token_accuracy", "next symbol right", "%", _in_per_cent),
    Kind("dev_objective", "objective", "nats a symbol", _same),
    Kind("dev_loss", "perplexity", "a symbol", np.exp),
)
"""What Figures 1 to 3 of Orlova et al. show, on the development split."""


def curves(experiment: Path, histories: Sequence[Path], eval_metrics: bool) -> Figure:
    """A row of panels per task: accuracy or training loss, then development loss.

    Args:
        histories: `history.csv` of every run, its `run.yaml` in the same folder.
        eval_metrics: draw `EVAL_METRICS` instead.
    """
    known = load_experiment(experiment)
    read = [load_history(path) for path in histories]
    tasks = [task for task in known.tasks if any(one.task == task for one in read)]
    tasks += sorted({one.task for one in read} - set(tasks))
    models = _in_order({one.model: one.label for one in read}, known.models)
    columns = len(EVAL_METRICS) if eval_metrics else 2
    figure, axes = style.panels(len(tasks), columns, height=0.75 + 2.5 * len(tasks))
    for index, task in enumerate(tasks):
        own = [one for one in read if one.task == task]
        label = known.tasks[task].label if task in known.tasks else None
        kinds = EVAL_METRICS if eval_metrics else (_left(own), RIGHT)
        row = axes[columns * index :]
        for panel, kind in zip(row, kinds, strict=False):
            _panel(panel, own, list(models), kind)
        style.head(row[0], label or task, across=columns)
    several = len({one.seed for one in read}) > 1
    title = "mean over seeds; thin lines: each seed" if several else None
    style.legend_models(figure, models, title=title, marker=None)
    return figure


def _left(histories: Sequence[History]) -> Kind:
    return next(kind for kind in LEFT if all(kind.column in one.columns for one in histories))


def _panel(axes: Axes, histories: Sequence[History], models: Sequence[str], kind: Kind) -> None:
    middles = []
    for model in models:
        own = [one for one in histories if one.model == model]
        if not own:
            continue
        look = style.look(model)
        curves = [kind.read(_column(one, kind)) for one in own]
        if len(own) > 1:
            for one, curve in zip(own, curves, strict=True):
                axes.plot(one.columns["epoch"], curve, color=look.color, lw=0.6, alpha=0.35)
        # Of the epochs that every seed has reached.
        count = min(map(len, curves))
        mean = np.mean([curve[:count] for curve in curves], axis=0)
        middles.append(mean)
        # A single epoch makes no line.
        point = look.marker if count == 1 else None
        epochs = own[0].columns["epoch"][:count]
        axes.plot(epochs, mean, color=look.color, ls=look.dashes, marker=point, lw=1.8, zorder=3)
    axes.set_ylabel(f"{kind.words} ({kind.unit})")
    axes.set_xlabel(_epoch(histories))
    if all(len(middle) == 1 for middle in middles):
        axes.set_xlim(0.5, 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _zoom(axes, middles)


def _column(history: History, kind: Kind) -> Floats:
    """A column of a history.

    Raises:
        UserError: it was not measured.
    """
    if kind.column not in history.columns:
        raise UserError(
            f"the training of {history.model} on {history.task} has not measured {kind.column}",
            hint="set `training: {eval_metrics: true}` and train again",
        )
    return history.columns[kind.column]


def _epoch(histories: Sequence[History]) -> str:
    """What an epoch is, in steps of training where they are the same for all."""
    steps = {int(one.columns["step"][0]) for one in histories}
    return f"epoch of {steps.pop():,} steps" if len(steps) == 1 else "epoch"


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
