"""A line per model: learning curves, BLEU by sentence length and by training pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pam.evaluation.metrics import Floats
from pam.evaluation.translation import by_length
from pam.io import UserError, read_json
from pam.reporting import runs, style
from pam.reporting.comparison import Row, compare, frame_of
from pam.reporting.runs import History, TaskRuns

# What was measured on the development split after each epoch.


class Kind(NamedTuple):
    column: str  # of the history
    words: str
    unit: str  # with the place of what is counted, such as a symbol
    read: Callable[[Floats], Floats] = np.asarray


def _in_per_cent(values: Floats) -> Floats:
    return 100 * values


LEFT = (  # the first one that all histories of a task have
    Kind("dev_accuracy", "development accuracy", "%", _in_per_cent),
    Kind("train_loss", "training loss", "nats {}"),
)
RIGHT = Kind("dev_loss", "development loss", "nats {}")
EVAL_METRICS = (  # what Figures 1 to 3 of Orlova et al. show, on the development split
    Kind("dev_token_accuracy", "next symbol right", "%", _in_per_cent),
    Kind("dev_objective", "objective", "nats {}"),
    Kind("dev_loss", "perplexity", "{}", np.exp),
)
POSITIONS = Kind("dev_positions", "positions summed over", "{}")


# what models write: what losses are divided by
COUNTED = {"symbols": "a symbol", "actions": "an action"}
Panel = tuple[Kind, dict[str, list[History]]]  # what it shows, of which models


def curves(experiment: Path, histories: Sequence[Path], eval_metrics: bool) -> style.Drawing:
    """A row of panels per task: accuracy or training loss, then development loss; or
    `EVAL_METRICS`.

    What is counted by symbol and what by action has a panel of its own.
    """
    known = runs.load_experiment(experiment)
    tasks = runs.load_histories(histories, known)
    every = [one for of_task in tasks.values() for seeds in of_task.values() for one in seeds]
    summed = all(POSITIONS.column in one.columns for one in every)
    measured = (*EVAL_METRICS, POSITIONS) if summed else EVAL_METRICS
    shown: dict[str, list[Panel]] = {}
    for task, of_task in tasks.items():
        own = [one for seeds in of_task.values() for one in seeds]
        left = next(kind for kind in LEFT if all(kind.column in one.columns for one in own))
        shown[task] = _by_unit(of_task, measured if eval_metrics else (left, RIGHT))
    columns = max(map(len, shown.values()))
    figure, axes = style.panels(len(tasks), columns, height=0.75 + 2.5 * len(tasks))
    for index, (task, panels) in enumerate(shown.items()):
        own = [one for seeds in tasks[task].values() for one in seeds]
        # An epoch is named by its steps of training where they are the same for all.
        steps = {int(one.columns["step"][0]) for one in own}
        epoch = f"epoch of {steps.pop():,} steps" if len(steps) == 1 else "epoch"
        row = axes[columns * index :][:columns]
        for panel, (kind, models) in zip(row, panels, strict=False):
            _panel(panel, models, kind)
            panel.set_xlabel(epoch)
        for panel in row[len(panels) :]:
            panel.set_visible(False)
        style.head(row[0], runs.label_of(task, known), across=columns)
    several = len({one.seed for task in tasks.values() for own in task.values() for one in own}) > 1
    title = "mean over seeds; thin lines: each seed" if several else None
    names = runs.labels(tasks)
    listed = {model: names[model] for model in [*known.model_names, *names] if model in names}
    style.legend_models(figure, listed, title=title, marker=None)
    return style.Drawing(figure, _measured(every))


def _measured(histories: Sequence[History]) -> pd.DataFrame:
    """A row for each epoch of each run, with all that was measured."""
    names = ("task", "model", "label", "seed", "targets")
    frames = [
        pd.DataFrame({name: getattr(one, name) for name in names} | one.columns)
        for one in histories
    ]
    return pd.concat(frames).astype({"epoch": int, "step": int})


def _by_unit(models: dict[str, list[History]], kinds: Sequence[Kind]) -> list[Panel]:
    """A panel for each kind, or one for symbols and one for actions where its unit is of them and a
    task has both.
    """
    found: list[Panel] = []
    units = list(dict.fromkeys(seeds[0].targets for seeds in models.values()))
    for kind in kinds:
        for unit in units if "{}" in kind.unit else [None]:
            own = {
                name: seeds for name, seeds in models.items() if unit in (None, seeds[0].targets)
            }
            found.append((kind._replace(unit=kind.unit.format(COUNTED.get(unit or "", ""))), own))
    return found


def _panel(axes: Axes, models: dict[str, list[History]], kind: Kind) -> None:
    means = []
    for model, own in models.items():
        look, curves = style.look(model), []
        for one in own:
            if kind.column not in one.columns:
                words = f"the training of {one.model} on {one.task} has not measured {kind.column}"
                raise UserError(words, hint="set `training: {eval_metrics: true}` and train again")
            curves.append(kind.read(one.columns[kind.column]))
            if len(own) > 1:
                axes.plot(one.columns["epoch"], curves[-1], color=look.color, lw=0.6, alpha=0.35)
        # Of the epochs that every seed has reached.
        count = min(map(len, curves))
        means.append(np.mean([curve[:count] for curve in curves], axis=0))
        # A single epoch makes no line.
        mark = look.marker if count == 1 else None
        line = {"color": look.color, "ls": look.dashes, "marker": mark, "lw": 1.8, "zorder": 3}
        axes.plot(own[0].columns["epoch"][:count], means[-1], **line)
    axes.set_ylabel(f"{kind.words}\n({kind.unit})")
    if all(len(mean) == 1 for mean in means):
        axes.set_xlim(0.5, 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    # The first epochs leave the panel, so that it shows the part in which models differ.
    start = min(2, min(map(len, means)) - 1)
    seen = np.concatenate([mean[start:] for mean in means])
    low, high = float(seen.min()), float(seen.max())
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


# BLEU by sentence length and by training pairs.

FEWEST_SENTENCES = 10  # below that the BLEU of a bin of lengths is noise and is left out


def bleu_by_length(experiment: Path, scores: Sequence[Path]) -> style.Drawing:
    """BLEU by sentence length (Luong et al. 2015, Figure 6): a panel per task, a line per model."""
    tasks = runs.load_runs(scores, runs.load_experiment(experiment))
    runs.check_known(["bleu_b*"], tasks)
    tasks = [task for task in tasks if task.metrics(["bleu_b*"])]
    data: list[tuple[str, str, int, int | None, int, float]] = []

    def draw(task: TaskRuns, axes: Axes) -> None:
        beam = int(task.metrics(["bleu_b*"])[0].rpartition("_b")[2])
        shown = [
            one
            for one in by_length(task.runs[0].scores.counts(), beam)
            if one.sentences >= FEWEST_SENTENCES
        ]
        lows = [one.low for one in shown]
        for model, own in task.models.items():
            by_seed = [
                [one.value for one in by_length(run.scores.counts(), beam) if one.low in lows]
                for run in own
            ]
            means = np.mean(np.array(by_seed, dtype=np.float64), axis=0)
            style.curve(axes, model, range(len(shown)), means)
            for one, mean in zip(shown, means, strict=True):
                data.append((task.name, model, one.low, one.high, one.sentences, float(mean)))
        lengths = [
            f"{one.low}+" if one.high is None else f"{max(one.low, 1)}–{one.high - 1}"
            for one in shown
        ]
        counts = [f"{one.sentences:,}" for one in shown]
        axes.set_xticks(range(len(shown)), map("\n".join, zip(lengths, counts, strict=True)))
        axes.set_xlabel("words of the source, and sentences")

    figure = style.draw_tasks([(task.label, task) for task in tasks], draw, 3.0, ("BLEU",))
    style.legend_models(figure, runs.labels({task.name: task.models for task in tasks}))
    columns = ["task", "model", "words_from", "words_below", "sentences", "bleu"]
    return style.Drawing(figure, pd.DataFrame(data, columns=columns, dtype=object))


def bleu_by_size(experiment: Path, scores: Sequence[Path], data: Sequence[Path]) -> style.Drawing:
    """BLEU by the amount of training data (Koehn & Knowles 2017, Figure 1).

    One panel per data set, one line per model, one point per task; pairs on a log scale.

    Args:
        data: `summary.json` of every task's prepared data.

    Raises:
        UserError: scores without BLEU, or a task without a summary of its data.
    """
    known = runs.load_experiment(experiment)
    tasks = runs.load_runs(scores, known)
    sizes = {
        path.parent.parent.name: int(read_json(path)["splits"]["train"]["rows"]) for path in data
    }
    for task in tasks:
        if task.name not in sizes:
            raise UserError(
                f"no summary of the data of {task.name}", hint="name it with --data too"
            )
    rows = compare(tasks, known, ["bleu_b*"], None, first=True)
    groups: dict[str, list[TaskRuns]] = {}
    for task in tasks:
        groups.setdefault(task.config.family(), []).append(task)
    named = []
    for group in groups.values():
        names = {one.name for one in group}
        largest = max(group, key=lambda task: sizes[task.name])
        named.append((largest.label, [(sizes[row.task], row) for row in rows if row.task in names]))

    def draw(sized: list[tuple[int, Row]], axes: Axes) -> None:
        for model in dict.fromkeys(row.model for _, row in sized):
            pairs, own = zip(
                *sorted((size, row) for size, row in sized if row.model == model), strict=True
            )
            style.curve(axes, model, pairs, [row.mean for row in own])
            lows, highs = [row.low for row in own], [row.high for row in own]
            axes.vlines(pairs, lows, highs, color=style.look(model).color, lw=1.2)
        axes.set_xscale("log")
        axes.set_xlabel("training pairs")

    figure = style.draw_tasks(named, draw, 3.0, ("BLEU, 95 %",))
    style.legend_models(figure, {row.model: row.label for row in rows})
    drawn = frame_of(rows)[["task", "model", "metric", "mean", "low", "high"]]
    return style.Drawing(figure, drawn.assign(pairs=[sizes[row.task] for row in rows]))
