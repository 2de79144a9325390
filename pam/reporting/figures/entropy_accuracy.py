"""Accuracy as attention grows uncertain, and how often it is (Shankar & Sarawagi, Figure 3)."""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.reporting import analyses, style
from pam.reporting.analyses import TaskAnalyses

HELP = "accuracy of the next symbol by the entropy of attention, and how often it is that high"
add_arguments = analyses.add_arguments

FEWEST = 50
"""Symbols below which a bin's accuracy is noise and is left out."""


def draw(args: argparse.Namespace) -> Figure:
    """Two panels per task: accuracy above, the histogram of entropies below; seeds together."""
    tasks = analyses.read(args)
    figure, axes = style.task_panels(len(tasks), height=4.4, deep=2)
    for place, task in enumerate(tasks):
        upper, lower = axes[2 * place : 2 * place + 2]
        lower.sharex(upper)
        _accuracy(upper, task)
        _histogram(lower, task)
        if place % style.ACROSS == 0:
            upper.set_ylabel("right symbols (%)")
            lower.set_ylabel("share of symbols (%)")
    style.legend_models(figure, analyses.labels(tasks))
    return figure


def _accuracy(axes: Axes, task: TaskAnalyses) -> None:
    for model, own in task.models.items():
        edges = np.array(own[0].entropy.edges)
        count = task.total(model, lambda one: one.entropy.count)
        correct = task.total(model, lambda one: one.entropy.correct)
        shown = count >= FEWEST
        middles = (edges[:-1] + edges[1:]) / 2
        style.curve(axes, middles[shown], 100 * correct[shown] / count[shown], style.look(model))
    style.head(axes, task.label)
    axes.tick_params(labelbottom=False)


def _histogram(axes: Axes, task: TaskAnalyses) -> None:
    last = 0
    for model, own in task.models.items():
        edges = own[0].entropy.edges
        count = task.total(model, lambda one: one.entropy.count)
        style.steps(axes, edges, 100 * count / count.sum(), style.look(model))
        last = max(last, *np.flatnonzero(count >= FEWEST).tolist(), 0)
    axes.set_xlim(0, edges[last + 1])
    axes.set_xlabel("entropy of attention (nats)")
