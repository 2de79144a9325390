"""Draw a line per model: learning curves, BLEU by sentence length and by training pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from pam.evaluation.metrics import Floats
from pam.reporting import runs, style
from pam.reporting.comparison import Row, compare, frame_of
from pam.reporting.histories import History, load_histories
from pam.reporting.runs import TaskRuns
from pam.runtime.errors import UserError
from pam.runtime.files import read_json
from pam.tasks.translation.lengths import LengthBin, by_length

# Measurements on the development split after each epoch.


class Kind(NamedTuple):
    """A kind of measurement."""

    column: str  # of the history
    words: str  # its name on the axis
    unit: str  # `{}` stands for what is counted, such as a symbol
    read: Callable[[Floats], Floats] = np.asarray  # turns the column into what is drawn


def _in_per_cent(values: Floats) -> Floats:
    """Turn shares into per cent."""
    return 100 * values


LEFT = (  # the first one that all histories of a task have
    Kind("dev_accuracy", "development accuracy", "%", _in_per_cent),
    Kind("train_loss", "training loss", "nats {}"),
)
RIGHT = Kind("dev_loss", "development loss", "nats {}")
EVAL_METRICS = (  # shown by Figures 1 to 3 of Orlova et al., on the development split
    Kind("dev_token_accuracy", "next symbol right", "%", _in_per_cent),
    Kind("dev_objective", "objective", "nats {}"),
    Kind("dev_loss", "perplexity", "{}", np.exp),
)
POSITIONS = Kind("dev_positions", "positions summed over", "{}")

MARKS = 6  # marks of a curve, which tell it from others without colors
WIDE = 3.0  # largest by smallest loss from which a panel has a log scale

COUNTED = {"symbols": "a symbol", "actions": "an action"}  # the unit of losses, by what is written
Panel = tuple[Kind, dict[str, list[History]]]  # what a panel shows, and of which models


def curves(experiment: Path, histories: Sequence[Path], eval_metrics: bool) -> style.Drawing:
    """Draw a row of panels per task: accuracy or training loss, then development loss.

    With `eval_metrics`, the panels show `EVAL_METRICS`. Losses by symbol and losses by action have
    panels of their own.
    """
    config = runs.load_experiment(experiment)
    tasks = load_histories(histories, config)
    all_histories = [history for models in tasks.values() for history in _all_of(models)]
    panels_of = {
        task: _by_unit(models, _kinds(models, all_histories, eval_metrics))
        for task, models in tasks.items()
    }
    labels = runs.labels(tasks)
    looks = style.looks_of_lines(list(labels), config.baseline)
    figure, rows = _rows_of_panels([len(panels) for panels in panels_of.values()])

    for row, (task, panels) in zip(rows, panels_of.items(), strict=True):
        # An epoch is named by its steps of training where they are the same for all.
        epoch = "epoch"
        steps = {int(history.columns["step"][0]) for history in _all_of(tasks[task])}
        if len(steps) == 1:
            epoch = f"epoch of {steps.pop():,} steps"

        for panel, (kind, models) in zip(row, panels, strict=True):
            _panel(panel, models, kind, looks)
            panel.set_xlabel(style.below(panel, epoch))
        style.head(row[0], runs.label_of(task, config), across=style.columns_of(row[0]))

    title = None
    if len({history.seed for history in all_histories}) > 1:
        title = "mean over seeds; thin lines: each seed"

    ordered = dict.fromkeys([*config.model_names, *labels])
    listed = {model: labels[model] for model in ordered if model in labels}
    style.legend_models(figure, listed, title=title, looks=looks)
    return style.Drawing(figure, _measured(all_histories))


def _rows_of_panels(counts: Sequence[int]) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure with a row of panels for each task; on a phone they stand below each other.

    Args:
        counts: panels of each task.
    """
    if style.is_narrow():
        figure, axes = style.panels(sum(counts), 1, height=0.75 + 2.2 * sum(counts))
        panels = iter(axes)
        return figure, [list(islice(panels, count)) for count in counts]

    columns = max(counts)
    figure, axes = style.panels(len(counts), columns, height=0.75 + 2.5 * len(counts))
    for index, count in enumerate(counts):
        # Other tasks may have more panels.
        for panel in axes[columns * index + count : columns * (index + 1)]:
            panel.set_visible(False)
    return figure, [axes[columns * index :][:count] for index, count in enumerate(counts)]


def _all_of(models: dict[str, list[History]]) -> list[History]:
    """Return the histories of all seeds of all models."""
    return [history for seeds in models.values() for history in seeds]


def _kinds(
    models: dict[str, list[History]], all_histories: Sequence[History], eval_metrics: bool
) -> Sequence[Kind]:
    """Return the kinds of measurements that a task's panels show."""
    if eval_metrics:
        if all(POSITIONS.column in history.columns for history in all_histories):
            return (*EVAL_METRICS, POSITIONS)
        return EVAL_METRICS

    histories = _all_of(models)
    left = next(
        kind for kind in LEFT if all(kind.column in history.columns for history in histories)
    )
    return (left, RIGHT)


def _measured(histories: Sequence[History]) -> pd.DataFrame:
    """Return a row for each epoch of each run, with all that was measured."""
    names = ("task", "model", "label", "seed", "targets")
    frames = []
    for history in histories:
        of_run = {name: getattr(history, name) for name in names}
        frames.append(pd.DataFrame(of_run | history.columns))

    return pd.concat(frames).astype({"epoch": int, "step": int})


def _by_unit(models: dict[str, list[History]], kinds: Sequence[Kind]) -> list[Panel]:
    """Return a panel for each kind of measurement.

    A kind that is counted by symbol or by action has a panel for each unit that the models have.
    """
    units = list(dict.fromkeys(seeds[0].targets for seeds in models.values()))
    panels: list[Panel] = []
    for kind in kinds:
        if "{}" not in kind.unit:
            panels.append((kind, dict(models)))
            continue
        for unit in units:
            counted_so = {
                model: seeds for model, seeds in models.items() if seeds[0].targets == unit
            }
            named = kind._replace(unit=kind.unit.format(COUNTED.get(unit, "")))
            panels.append((named, counted_so))

    return panels


def _panel(
    axes: Axes, models: dict[str, list[History]], kind: Kind, looks: Mapping[str, style.Look]
) -> None:
    """Draw one measurement of all models by epoch.

    Raises:
        UserError: a training has not measured it.
    """
    means = []
    for model, seeds in models.items():
        look = looks[model]
        curves = []
        for history in seeds:
            if kind.column not in history.columns:
                words = (
                    f"the training of {history.model} on {history.task} has not measured"
                    f" {kind.column}"
                )
                raise UserError(words, hint="set `training: {eval_metrics: true}` and train again")

            curve = kind.read(history.columns[kind.column])
            curves.append(curve)
            if len(seeds) > 1:
                axes.plot(
                    history.columns["epoch"], curve, color=look.color, lw=0.6, alpha=0.35, zorder=1
                )

        # The mean is over the epochs that every seed has reached.
        count = min(map(len, curves))
        mean = np.mean([curve[:count] for curve in curves], axis=0)
        means.append(mean)
        axes.plot(
            seeds[0].columns["epoch"][:count],
            mean,
            color=look.color,
            ls=look.dashes,
            marker=look.marker or _marker_of_point(count),
            markevery=max(1, count // MARKS),
            ms=4.5,
            mew=0,
            lw=1.6,
            zorder=style.depth(look),
        )

    axes.set_ylabel(f"{kind.words}\n({kind.unit})")
    if all(len(mean) == 1 for mean in means):
        axes.set_xlim(0.5, 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if kind.unit != "%":
        _scale(axes, np.concatenate(means))


def _marker_of_point(epochs: int) -> str:
    """Return the mark of a gray line, which has one only where a single epoch makes no line."""
    return "o" if epochs == 1 else ""


def _scale(axes: Axes, values: Floats) -> None:
    """Show all epochs, and still the part in which models differ: far losses are on a log scale."""
    low = float(values.min())
    high = float(values.max())
    if low <= 0 or high < WIDE * low:
        return

    axes.set_yscale("log")
    axes.set_ylim(low / 1.15, high * 1.15)
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    shown = [tick for tick in ticks if low / 1.15 <= tick <= high * 1.15]
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel(f"{axes.get_ylabel()}, log scale")


# BLEU by sentence length and by training pairs.

FEWEST_SENTENCES = 10  # a bin of lengths with fewer is left out, as its BLEU is noise


def bleu_by_length(experiment: Path, scores: Sequence[Path]) -> style.Drawing:
    """Draw BLEU by sentence length (Luong et al. 2015, Figure 6).

    One panel per task, one line per model.
    """
    config = runs.load_experiment(experiment)
    tasks = runs.load_runs(scores, config)
    runs.check_known(["bleu_b*"], tasks)
    tasks = [task for task in tasks if task.metrics(["bleu_b*"])]
    labels = runs.labels({task.name: task.models for task in tasks})
    looks = style.looks_of_lines(list(labels), config.baseline)
    data: dict[tuple[str, str, int], tuple[int | None, int, float]] = {}

    def draw(task: TaskRuns, axes: Axes) -> None:
        beam = int(task.metrics(["bleu_b*"])[0].rpartition("_b")[2])
        all_bins = by_length(task.runs[0].scores.counts(), beam)
        bins = [length_bin for length_bin in all_bins if length_bin.sentences >= FEWEST_SENTENCES]
        # All models are shown at the lengths that have enough sentences.
        lows = [length_bin.low for length_bin in bins]
        for model, seeds in task.models.items():
            by_seed = [
                [
                    length_bin.value
                    for length_bin in by_length(run.scores.counts(), beam)
                    if length_bin.low in lows
                ]
                for run in seeds
            ]
            means = np.mean(np.array(by_seed, dtype=np.float64), axis=0)
            style.curve(axes, looks[model], range(len(bins)), means)
            for length_bin, mean in zip(bins, means, strict=True):
                key = (task.name, model, length_bin.low)
                data[key] = (length_bin.high, length_bin.sentences, float(mean))

        ticks = [f"{_words_of(length_bin)}\n{length_bin.sentences:,}" for length_bin in bins]
        axes.set_xticks(range(len(bins)), ticks)
        axes.set_xlabel("words of the source, and sentences")

    figure = style.draw_tasks([(task.label, task) for task in tasks], draw, 3.0, ("BLEU",))
    style.legend_models(figure, labels, looks=looks)
    columns = ["task", "model", "words_from", "words_below", "sentences", "bleu"]
    records = [(*key, *measured) for key, measured in data.items()]
    return style.Drawing(figure, pd.DataFrame(records, columns=columns, dtype=object))


def _words_of(length_bin: LengthBin) -> str:
    """Return the range of a bin of lengths, such as `10–19`, or `60+`."""
    if length_bin.high is None:
        return f"{length_bin.low}+"
    return f"{max(length_bin.low, 1)}–{length_bin.high - 1}"


def bleu_by_size(experiment: Path, scores: Sequence[Path], data: Sequence[Path]) -> style.Drawing:
    """Draw BLEU by the amount of training data (Koehn & Knowles 2017, Figure 1).

    One panel per data set, one line per model, one point per task; pairs on a log scale.

    Args:
        data: `summary.json` of every task's prepared data.

    Raises:
        UserError: scores without BLEU, or a task without a summary of its data.
    """
    config = runs.load_experiment(experiment)
    tasks = runs.load_runs(scores, config)
    sizes = {
        path.parent.parent.name: int(read_json(path)["splits"]["train"]["rows"]) for path in data
    }
    for task in tasks:
        if task.name not in sizes:
            raise UserError(
                f"no summary of the data of {task.name}", hint="name it with --data too"
            )
    rows = compare(tasks, config, ["bleu_b*"], None, first=True)

    # A panel is of the tasks that differ in the amount of training data alone.
    families: dict[str, list[TaskRuns]] = {}
    for task in tasks:
        families.setdefault(task.config.family(), []).append(task)
    labeled = []
    for family in families.values():
        names = {task.name for task in family}
        # The data set is named after its task with the most training pairs.
        largest = max(family, key=lambda task: sizes[task.name])
        sized_rows = [(sizes[row.task], row) for row in rows if row.task in names]
        labeled.append((largest.label, sized_rows))

    labels = {row.model: row.label for row in rows}
    looks = style.looks_of_lines(list(labels), config.baseline)
    figure = style.draw_tasks(labeled, partial(_draw_sizes, looks), 3.0, ("BLEU, 95 %",))
    style.legend_models(figure, labels, looks=looks)

    drawn = frame_of(rows)[["task", "model", "metric", "mean", "low", "high"]]
    return style.Drawing(figure, drawn.assign(pairs=[sizes[row.task] for row in rows]))


def _draw_sizes(
    looks: Mapping[str, style.Look], sized_rows: list[tuple[int, Row]], axes: Axes
) -> None:
    """Draw the rows of a data set, each with its number of training pairs."""
    for model in dict.fromkeys(row.model for _, row in sized_rows):
        points = sorted((size, row) for size, row in sized_rows if row.model == model)
        pairs = [size for size, _ in points]
        style.curve(axes, looks[model], pairs, [row.mean for _, row in points])
        axes.vlines(
            pairs,
            [row.low for _, row in points],
            [row.high for _, row in points],
            color=looks[model].color,
            lw=1.2,
            zorder=style.depth(looks[model]),
        )

    axes.set_xscale("log")
    axes.set_xlabel("training pairs")
