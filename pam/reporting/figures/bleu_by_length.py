"""BLEU by sentence length (Luong et al. 2015, Figure 6)."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.evaluation.lengths import LengthBin, by_length
from pam.reporting import runs, style
from pam.reporting.runs import TaskRuns

HELP = "BLEU of sentences of similar length by model, with the main beam, mean over seeds"

FEWEST = 10
"""Sentences below which BLEU is noise and is left out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiment", type=Path, required=True, help="configuration (YAML)")
    parser.add_argument(
        "--scores", type=Path, nargs="+", required=True, help="scores.json of every run"
    )


def draw(args: argparse.Namespace) -> Figure:
    """One panel per task, one line per model."""
    experiment = runs.load_experiment(args.experiment)
    tasks = runs.load_runs(args.scores, experiment)
    runs.check_known(["bleu_b*"], tasks)
    tasks = [task for task in tasks if task.metrics(["bleu_b*"])]
    figure, axes = style.task_panels(len(tasks), height=3.0)
    for place, (panel, task) in enumerate(zip(axes, tasks, strict=True)):
        _panel(panel, task)
        if place % style.ACROSS == 0:
            panel.set_ylabel("BLEU")
    names = {model: own[0].label for task in tasks for model, own in task.models.items()}
    style.legend_models(figure, names)
    return figure


def _panel(axes: Axes, task: TaskRuns) -> None:
    beam = int(task.metrics(["bleu_b*"])[0].rpartition("_b")[2])
    shown = [one for one in by_length(task.runs[0].scores, beam) if one.sentences >= FEWEST]
    lows = [one.low for one in shown]
    for model, own in task.models.items():
        by_seed = [
            [one.value for one in by_length(run.scores, beam) if one.low in lows] for run in own
        ]
        values = np.mean(np.array(by_seed, dtype=np.float64), axis=0)
        style.curve(axes, range(len(shown)), values, style.look(model))
    style.head(axes, task.label)
    axes.set_xticks(range(len(shown)), [_named(one) for one in shown])
    axes.set_xlabel("words of the source, and sentences")


def _named(found: LengthBin) -> str:
    """Its lengths, and below them how many sentences have one of them."""
    lengths = f"{found.low}+" if found.high is None else f"{max(found.low, 1)}–{found.high - 1}"
    return f"{lengths}\n{found.sentences:,}"
