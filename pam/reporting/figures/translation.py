"""Translation: attention's uncertainty and coverage, BLEU by length and by training pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.evaluation.attention import COVERED, Analysis, Coverage
from pam.evaluation.metrics import Floats
from pam.evaluation.translation import LengthBin, by_length
from pam.io import UserError, read_json
from pam.reporting.comparison import Row, compare
from pam.reporting.figures import style
from pam.reporting.runs import TaskRuns, check_known, label_of, labels, load_analyses, load_experiment, load_runs

FEWEST_SYMBOLS, FEWEST_SENTENCES = 50, 10
"""Below that a bin's accuracy, or its BLEU, is noise and is left out."""


def entropy_accuracy(experiment: Path, analyses: Sequence[Path]) -> Figure:
    """Accuracy as attention grows uncertain, and how often it is (Shankar & Sarawagi, Figure 3).

    Two panels per task: accuracy above, the histogram of entropies below; seeds together.
    """
    known = load_experiment(experiment)
    tasks = load_analyses(analyses, known)
    figure, axes = style.task_panels(len(tasks), height=4.4, deep=2)
    for place, (task, models) in enumerate(tasks.items()):
        upper, lower = axes[2 * place : 2 * place + 2]
        lower.sharex(upper)
        _accuracy(upper, models)
        _entropies(lower, models)
        style.head(upper, label_of(task, known))
        if place % style.ACROSS == 0:
            upper.set_ylabel("right symbols (%)")
            lower.set_ylabel("share of symbols (%)")
    style.legend_models(figure, labels(tasks))
    return figure


def _total(analyses: Sequence[Analysis], counts: Callable[[Analysis], Sequence[int]]) -> Floats:
    """Counts, such as those of a histogram, added up over seeds."""
    total: Floats = np.sum([counts(one) for one in analyses], axis=0, dtype=np.float64)
    return total


def _accuracy(axes: Axes, models: dict[str, list[Analysis]]) -> None:
    for model, own in models.items():
        edges = np.array(own[0].entropy.edges)
        count = _total(own, lambda one: one.entropy.count)
        correct = _total(own, lambda one: one.entropy.correct)
        shown = count >= FEWEST_SYMBOLS
        middles = (edges[:-1] + edges[1:]) / 2
        style.curve(axes, middles[shown], 100 * correct[shown] / count[shown], style.look(model))
    axes.tick_params(labelbottom=False)


def _entropies(axes: Axes, models: dict[str, list[Analysis]]) -> None:
    last = 0
    for model, own in models.items():
        edges = own[0].entropy.edges
        count = _total(own, lambda one: one.entropy.count)
        style.steps(axes, edges, 100 * count / count.sum(), style.look(model))
        last = max(last, *np.flatnonzero(count >= FEWEST_SYMBOLS).tolist(), 0)
    axes.set_xlim(0, edges[last + 1])
    axes.set_xlabel("entropy of attention (nats)")


def coverage(experiment: Path, analyses: Sequence[Path]) -> Figure:
    """How much of a source sentence attention covers (Shankar & Sarawagi, Figure 4).

    Two panels per task: distribution over sentences above, over source words below.
    """
    known = load_experiment(experiment)
    tasks = load_analyses(analyses, known)
    figure, axes = style.task_panels(len(tasks), height=4.4, deep=2)
    for place, (task, models) in enumerate(tasks.items()):
        upper, lower = axes[2 * place : 2 * place + 2]
        _coverages(upper, models, lambda found: found.sentences)
        _coverages(lower, models, lambda found: found.words)
        style.head(upper, label_of(task, known))
        upper.set_xlabel(f"share of source words attended {COVERED} or more in all")
        lower.set_xlabel("attention that a source word got in all, at most 1")
        if place % style.ACROSS == 0:
            upper.set_ylabel("sentences (%)")
            lower.set_ylabel("source words (%)")
    style.legend_models(figure, labels(tasks), marker=None)
    return figure


def _coverages(axes: Axes, models: dict[str, list[Analysis]], counts: Callable[[Coverage], Sequence[int]]) -> None:
    for model, own in models.items():
        count = _total(own, lambda one: counts(one.coverage))
        style.steps(axes, own[0].coverage.edges, 100 * count / count.sum(), style.look(model))
    axes.set_xlim(0, 1)


def bleu_by_length(experiment: Path, scores: Sequence[Path]) -> Figure:
    """BLEU by sentence length (Luong et al. 2015, Figure 6): a panel per task, a line per model."""
    tasks = load_runs(scores, load_experiment(experiment))
    check_known(["bleu_b*"], tasks)
    tasks = [task for task in tasks if task.metrics(["bleu_b*"])]
    figure, axes = style.task_panels(len(tasks), height=3.0)
    for place, (panel, task) in enumerate(zip(axes, tasks, strict=True)):
        _lengths_panel(panel, task)
        if place % style.ACROSS == 0:
            panel.set_ylabel("BLEU")
    style.legend_models(figure, labels({task.name: task.models for task in tasks}))
    return figure


def _lengths_panel(axes: Axes, task: TaskRuns) -> None:
    beam = int(task.metrics(["bleu_b*"])[0].rpartition("_b")[2])
    shown = [one for one in by_length(task.runs[0].scores.counts(), beam) if one.sentences >= FEWEST_SENTENCES]
    lows = [one.low for one in shown]
    for model, own in task.models.items():
        by_seed = [[one.value for one in by_length(run.scores.counts(), beam) if one.low in lows] for run in own]
        values = np.mean(np.array(by_seed, dtype=np.float64), axis=0)
        style.curve(axes, range(len(shown)), values, style.look(model))
    style.head(axes, task.label)
    axes.set_xticks(range(len(shown)), [_named(one) for one in shown])
    axes.set_xlabel("words of the source, and sentences")


def _named(found: LengthBin) -> str:
    """Its lengths, and below them how many sentences have one of them."""
    lengths = f"{found.low}+" if found.high is None else f"{max(found.low, 1)}–{found.high - 1}"
    return f"{lengths}\n{found.sentences:,}"


def bleu_by_size(experiment: Path, scores: Sequence[Path], data: Sequence[Path]) -> Figure:
    """BLEU by the amount of training data (Koehn & Knowles 2017, Figure 1).

    One panel per data set, one line per model, one point per task; pairs on a log scale.

    Args:
        data: `summary.json` of every task's prepared data.

    Raises:
        UserError: scores without BLEU, or a task without a summary of its data.
    """
    known = load_experiment(experiment)
    tasks = load_runs(scores, known)
    sizes = {path.parent.parent.name: _pairs(path) for path in data}
    for task in tasks:
        if task.name not in sizes:
            raise UserError(f"no summary of the data of {task.name}", hint="name it with --data too")
    rows = compare(tasks, known, ["bleu_b*"], None, first=True)
    groups: dict[str, list[TaskRuns]] = {}
    for task in tasks:
        groups.setdefault(task.config.family(), []).append(task)
    figure, axes = style.task_panels(len(groups), height=3.0)
    for place, (panel, group) in enumerate(zip(axes, groups.values(), strict=True)):
        largest = max(group, key=lambda task: sizes[task.name])
        style.head(panel, largest.label)
        _sizes_panel(panel, [row for row in rows if row.task in {one.name for one in group}], sizes)
        if place % style.ACROSS == 0:
            panel.set_ylabel("BLEU, 95 %")
    style.legend_models(figure, {row.model: row.label for row in rows})
    return figure


def _pairs(summary: Path) -> int:
    return int(read_json(summary)["splits"]["train"]["rows"])


def _sizes_panel(axes: Axes, rows: list[Row], sizes: dict[str, int]) -> None:
    for model in dict.fromkeys(row.model for row in rows):
        own = sorted((sizes[row.task], row) for row in rows if row.model == model)
        pairs = np.array([size for size, _ in own])
        style.curve(axes, pairs, np.array([row.mean for _, row in own]), style.look(model))
        lows, highs = [row.low for _, row in own], [row.high for _, row in own]
        axes.vlines(pairs, lows, highs, color=style.look(model).color, lw=1.2)
    axes.set_xscale("log")
    axes.set_xlabel("training pairs")
