"""What the figures made from scores have in common: arguments, reading, legends."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pam.evaluation.metrics import Metric
from pam.io import unknown
from pam.reporting import paper, runs, style
from pam.reporting.comparison import Row, compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of a figure that compares models."""
    parser.add_argument("--experiment", type=Path, required=True, help="configuration (YAML)")
    parser.add_argument(
        "--scores", type=Path, nargs="+", required=True, help="scores.json of every run"
    )
    parser.add_argument(
        "--metric",
        default="accuracy",
        help="its name, or a pattern such as bleu_b*, of which each task's first is drawn "
        "(%(default)s)",
    )
    parser.add_argument(
        "--paper",
        type=Path,
        default=Path("config/paper_figures.yaml"),
        help="the papers' figures (%(default)s)",
    )
    parser.add_argument(
        "--paper-table", help="table of that file to set beside ours; none: no paper's marks"
    )


def read(args: argparse.Namespace) -> list[Row]:
    """The rows to draw, compared as in the tables.

    Raises:
        UserError: no such metric or table, or scores that cannot be compared.
    """
    papers = paper.load(args.paper) if args.paper_table else {}
    if args.paper_table and args.paper_table not in papers:
        raise unknown("table", args.paper_table, sorted(papers), file=args.paper)
    experiment = runs.load_experiment(args.experiment)
    tasks = runs.load_runs(args.scores, experiment)
    if papers:
        paper.check_rows(papers, tasks)
    return compare(tasks, experiment, [args.metric], papers.get(args.paper_table), first=True)


def worded(metric: Metric) -> str:
    """A metric on an axis, with its unit and which way is better where it is not up."""
    unit = [metric.unit] if metric.unit else []
    notes = ", ".join([*unit, *(["lower is better"] if metric.lower_is_better else [])])
    return f"{metric.label} ({notes})" if notes else metric.label


def units(rows: Sequence[Row]) -> str:
    """What was resampled."""
    return " or ".join(dict.fromkeys(row.metric.over for row in rows))


def by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of each task, tasks in their order."""
    tasks = dict.fromkeys(row.task for row in rows)
    return [[row for row in rows if row.task == task] for task in tasks]


def model_panels(tasks: Sequence[Sequence[Row]]) -> tuple[Figure, list[Axes]]:
    """Panels with one line per model; models are named at the left edge where all are the same."""
    height = 0.9 + 0.36 * max(len(task) for task in tasks)
    figure, axes = style.task_panels(len(tasks), height)
    same = len({tuple(row.label for row in task) for task in tasks}) == 1
    for place, (panel, task) in enumerate(zip(axes, tasks, strict=True)):
        _name_models(panel, task, named=not same or place % style.ACROSS == 0)
    return figure, axes


def _name_models(axes: Axes, rows: Sequence[Row], named: bool) -> None:
    """One line per model, the first on top."""
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelleft=named)
    axes.grid(axis="y", visible=False)


def paper_word(rows: Sequence[Row]) -> str:
    """What the paper's mark means here."""
    return "paper" if all(row.same_data for row in rows) else "paper (its own data)"


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A legend in one line below all panels."""
    figure.legend(handles=list(handles), loc="outside lower center", ncols=len(handles))


def paper_handle(rows: Sequence[Row]) -> Line2D:
    """The legend's entry for a paper's figure."""
    return Line2D(
        [], [], ls="none", marker="|", color=style.PAPER, ms=13, mew=2, label=paper_word(rows)
    )


def ours_handle(words: str) -> Line2D:
    """The legend's entry for our figure with its interval."""
    return Line2D(
        [], [], color=style.INK, marker="o", mec="white", mew=0.7, ms=7, lw=2.2, label=words
    )
