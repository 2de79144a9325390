"""How much of a source sentence attention covers (Shankar & Sarawagi, Figure 4)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.evaluation.attention import COVERED, Coverage
from pam.reporting import analyses, style
from pam.reporting.analyses import TaskAnalyses

HELP = "how much of a source sentence, and of a source word, attention has covered at the end"
add_arguments = analyses.add_arguments


def draw(args: argparse.Namespace) -> Figure:
    """Two panels per task: distribution over sentences above, over source words below."""
    tasks = analyses.read(args)
    figure, axes = style.task_panels(len(tasks), height=4.4, deep=2)
    for place, task in enumerate(tasks):
        upper, lower = axes[2 * place : 2 * place + 2]
        _histogram(upper, task, lambda found: found.sentences)
        _histogram(lower, task, lambda found: found.words)
        style.head(upper, task.label)
        upper.set_xlabel(f"share of source words attended {COVERED} or more in all")
        lower.set_xlabel("attention that a source word got in all, at most 1")
        if place % style.ACROSS == 0:
            upper.set_ylabel("sentences (%)")
            lower.set_ylabel("source words (%)")
    style.legend_models(figure, analyses.labels(tasks), marker=None)
    return figure


def _histogram(axes: Axes, task: TaskAnalyses, counts: Callable[[Coverage], Sequence[int]]) -> None:
    for model, own in task.models.items():
        count = task.total(model, lambda one: counts(one.coverage))
        style.steps(axes, own[0].coverage.edges, 100 * count / count.sum(), style.look(model))
    axes.set_xlim(0, 1)
