"""List the tables and figures of a report, with the kind of task and the files that each needs.

Those of a kind of task are in its folder, `pam/tasks/<kind>/tables.py`. The workflow reads nothing
else to know them, and none of these files imports anything that is slow. A report has each table
and figure that at least one of the experiment's tasks can fill.

To add a table: write an entry in `TABLES` of its kind and, unless it compares models, the function
that builds it in `BUILDERS`. To add a figure: write an entry in `FIGURES` and, if nothing draws it
yet, its function in `DRAWINGS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import Field

from pam.experiments.experiment import Experiment, TaskConfig
from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import placed, read_yaml
from pam.reporting.items import (
    ANALYSES,
    COSTS,
    HISTORIES,
    RUN_CONFIG,
    SCORES,
    FigureSpec,
    Item,
    TableSpec,
)
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import find_file
from pam.tasks import OfKinds


def refers_to_papers(experiment: Experiment) -> bool:
    """Check whether a task of an experiment names a row of a paper's table.

    Experiments on a user's own data do not.
    """
    return any(task.paper or task.paper_reference for task in experiment.tasks.values())


DEMONSTRATION = "demonstration"


def is_demonstration(task: TaskConfig) -> bool:
    """Check whether the label or the note of a task calls it a demonstration."""
    return DEMONSTRATION in f"{task.label} {task.note}".lower()


def menu_label(item: Item, experiment: Experiment) -> str:
    """Return the name of a table or a figure in the report's menu.

    It has its number in the paper if the experiment refers to papers.
    """
    if refers_to_papers(experiment):
        return item.label

    label = re.sub(r"^(Table|Figure) \d+: ", "", item.label)
    return label[0].upper() + label[1:]


_costs = partial(TableSpec, kind=None, files=SCORES, category=COSTS)


_BUILT_BY = "pam.reporting.tables"
BUILDERS = {
    "comparison": f"{_BUILT_BY}.comparisons:comparison",
    "gains": f"{_BUILT_BY}.comparisons:gains",
    "sweeps": f"{_BUILT_BY}.sweeps:sweeps",
    "lengths": f"{_BUILT_BY}.lengths:lengths",
    "attentions": f"{_BUILT_BY}.attentions:attentions",
    "examples": f"{_BUILT_BY}.examples:examples",
    "overhead": f"{_BUILT_BY}.costs:overhead",
    "costs": f"{_BUILT_BY}.costs:costs",
    "environment": f"{_BUILT_BY}.costs:environment",
}
"""Each kind of table and the function that builds it; its tables are made again if it changes."""


_FIGURES = "pam.reporting.figures"
DRAWINGS = {
    "quality": f"{_FIGURES}.models:quality",
    "gains": f"{_FIGURES}.models:gains",
    "cost": f"{_FIGURES}.models:cost",
    "sweep": f"{_FIGURES}.sweeps:sweep",
    "attention": f"{_FIGURES}.attention:attention",
    "curves": f"{_FIGURES}.curves:curves",
    "bleu_by_length": f"{_FIGURES}.curves:bleu_by_length",
    "bleu_by_size": f"{_FIGURES}.curves:bleu_by_size",
    "entropy_accuracy": f"{_FIGURES}.attention:entropy_accuracy",
    "coverage": f"{_FIGURES}.attention:coverage",
}
"""Each kind of figure and the function that draws it; its figures are drawn again if it changes."""


# What belongs to no kind of task.
_COMMON_TABLES: dict[str, TableSpec] = {
    "sweeps": TableSpec(
        "Sweeps: value by value",
        None,
        SCORES,
        ("sweep",),
        title="Each value of the options that are swept",
        builder="sweeps",
    ),
    "attentions": TableSpec(
        "All models at a glance",
        None,
        SCORES | {"gold-scores": "{run}/gold_scores.json"} | ANALYSES,
        title="All models at a glance",
        builder="attentions",
    ),
    "overhead": _costs(
        "Time over the baseline's",
        title="Time of every model over the baseline's",
        builder="overhead",
        paper="overhead",
    ),
    "costs": _costs("Cost of every run", title="Cost of every training", builder="costs"),
    "environment": _costs(
        "Versions and hardware", title="Versions and hardware", builder="environment"
    ),
}

_CURVES = FigureSpec(
    "Learning curves", None, HISTORIES, also_reads=RUN_CONFIG, trained=True, draws="curves"
)
_COMMON_FIGURES: dict[str, FigureSpec] = {
    "sweep": FigureSpec("Sweeps", None, SCORES, ("sweep",), draws="sweep"),
    "curves": _CURVES,
    "curves_watched": replace(
        _CURVES,
        label="Learning curves: symbols and bound",
        needs=("eval_metrics",),
        options=("--eval-metrics",),
    ),
}


def _place(table: TableSpec) -> tuple[bool, bool, bool]:
    """Order tables: comparisons of a kind of task, overviews, outputs, costs."""
    return table.category == COSTS, table.builder == "examples", table.kind is None


TABLES: Mapping[str, TableSpec] = OfKinds("tables", _COMMON_TABLES, _place)
FIGURES: Mapping[str, FigureSpec] = OfKinds("figures", _COMMON_FIGURES)
"""The figures of a whole experiment. Heat maps, by `attention`, are of one task and seed each."""

MAP = re.compile(r"attention_(.+)_seed(\d+)")
"""The name of a figure of heat maps, with its task and seed."""


def kind_of(name: str) -> str:
    """Return the kind of a figure; empty if the catalogue has the figure no longer."""
    if MAP.fullmatch(name):
        return "attention"
    return FIGURES[name].draws if name in FIGURES else ""


# The papers' results, read from one data file.


class PaperTable(Strict):
    """One table of a paper: metric -> row -> model -> value, null where unreadable."""

    source: str = Field(description="paper, section and number of the table")
    note: str = Field("", description="what a reader has to know about its values")
    size: dict[str, int] = Field(
        {}, description="sizes of the network that the paper states, by keys of `network`"
    )
    metrics: dict[str, dict[str, dict[str, float | None]]]

    def value(self, metric: str, row: str | None, model: str) -> float | None:
        """Return the paper's value, or None where it has none or it cannot be read."""
        return self.metrics.get(metric, {}).get(row or "", {}).get(model)


def load_papers(path: Path | str) -> dict[str, PaperTable]:
    """Read all tables of the papers' results.

    Raises:
        UserError: it is not YAML, or a value is no number; the error names the line.
    """
    content = read_yaml(find_file(path))
    if not isinstance(content, dict):
        raise UserError("expected tables by name", file=path, hint="see config/README.md")

    return {
        str(name): parse(PaperTable, value, path, [str(name)]) for name, value in content.items()
    }


def check_rows(
    papers: Mapping[str, PaperTable], experiment: Experiment, files: Sequence[Path | str] = ()
) -> None:
    """Check that tasks are compared with rows that the papers' tables have.

    Args:
        files: those of the experiment's configuration.

    Raises:
        UserError: a task names an unknown row; the error has the place in one of `files`.
    """
    rows = dict.fromkeys(
        row for table in papers.values() for by_row in table.metrics.values() for row in by_row
    )

    for name, task in experiment.tasks.items():
        for key, row in {"paper": task.paper, "paper_reference": task.paper_reference}.items():
            if row is not None and row not in rows:
                error = unknown("row of the papers' tables", row, list(rows))
                raise placed(error, files, ["tasks", name, key])
