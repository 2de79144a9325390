"""The cells of one experiment, in the order in which its configuration names them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from pam.config import Experiment, TaskConfig
from pam.errors import UserError
from pam.parsing import parse, unknown
from pam.scoring import record
from pam.scoring.metrics import metric
from pam.scoring.record import Scores
from pam.yaml_files import read_yaml


@dataclass(frozen=True)
class ScoredCell:
    """One `scores.json` whose owner is known."""

    path: Path
    task: str
    model: str
    label: str
    seed: int
    scores: Scores

    @property
    def decodings(self) -> dict[str, dict[str, Any]]:
        """What decoding recorded, by beam, the main one first."""
        recorded = self.scores.decoding
        return {str(recorded["beam"]): recorded} if "beam" in recorded else recorded


@dataclass(frozen=True)
class TaskCells:
    """All cells of one task; models in the order of the configuration, seeds ascending."""

    name: str
    label: str
    config: TaskConfig
    models: dict[str, list[ScoredCell]]

    @property
    def cells(self) -> list[ScoredCell]:
        """All of them, model by model."""
        return [cell for of_model in self.models.values() for cell in of_model]

    def metrics(self, patterns: Sequence[str]) -> list[str]:
        """Names of the metrics that every cell has and that match a pattern such as `bleu_b*`.

        They are in the order of the patterns, and of the cells' scores within one.
        """
        known = [
            name
            for name in self.cells[0].scores.metrics
            if all(name in cell.scores.metrics for cell in self.cells)
        ]
        matching = [name for one in patterns for name in known if fnmatchcase(name, one)]
        return list(dict.fromkeys(matching))


def load_experiment(path: Path | str) -> Experiment:
    """Reads the experiment's configuration (YAML or JSON)."""
    return parse(Experiment, read_yaml(path), path)


def load_cells(paths: Sequence[Path | str], experiment: Experiment) -> list[TaskCells]:
    """Reads and groups scored cells.

    Raises:
        UserError: a cell of another experiment or of no known task, two files of one cell, or
            cells of one task that were scored on different test sets.
    """
    cells: dict[tuple[str, str, int], ScoredCell] = {}
    for path in paths:
        cell = _read(Path(path), experiment)
        key = (cell.task, cell.model, cell.seed)
        if key in cells:
            raise UserError(
                f"the same cell as {cells[key].path}: {cell.task}, {cell.model}, seed {cell.seed}",
                file=path,
                remedy="name each file once",
            )
        cells[key] = cell
    if not cells:
        raise UserError("no scores to report", remedy="name at least one scores.json")
    return [
        _task(name, config, [cell for cell in cells.values() if cell.task == name], experiment)
        for name, config in experiment.tasks.items()
        if any(cell.task == name for cell in cells.values())
    ]


def _read(path: Path, experiment: Experiment) -> ScoredCell:
    scores = record.load(path)
    if scores.task is None or scores.model is None or scores.seed is None:
        raise UserError(
            "these scores do not say which cell they belong to",
            file=path,
            remedy="score the predictions again with --cell",
        )
    if scores.experiment != experiment.experiment or scores.task not in experiment.tasks:
        raise UserError(
            f"this is task `{scores.task}` of experiment `{scores.experiment}`, "
            f"not of `{experiment.experiment}`",
            file=path,
            remedy="report each experiment on its own",
        )
    return ScoredCell(
        path, scores.task, scores.model, scores.label or scores.model, scores.seed, scores
    )


def _task(
    name: str, config: TaskConfig, cells: list[ScoredCell], experiment: Experiment
) -> TaskCells:
    for cell in cells[1:]:
        check_comparable(cells[0], cell)
    present = list(dict.fromkeys(cell.model for cell in cells))
    known = [model for model in experiment.models_of(name) if model in present]
    order = known + [model for model in present if model not in known]
    models = {
        model: sorted((cell for cell in cells if cell.model == model), key=lambda cell: cell.seed)
        for model in order
    }
    return TaskCells(name, config.label or name, config, models)


def check_comparable(first: ScoredCell, other: ScoredCell) -> None:
    """Checks that two cells were scored on the same units, in the same order.

    Raises:
        UserError: names the first unit that differs and its line in the second file.
    """
    if first.scores.references == other.scores.references:
        return
    mine, theirs = first.scores.counts(), other.scores.counts()
    counted = sorted({metric(name).counted for name in first.scores.metrics})
    judged = [place for place, name in enumerate(mine.columns) if name in counted]
    what, line = "what was to be predicted differs", None
    for index, name in enumerate(theirs.names):
        same = mine.names[index : index + 1] == (name,)
        if not same or not np.array_equal(mine.counts[index, judged], theirs.counts[index, judged]):
            what, line = f"the first difference is `{name}`", _line_of(other.path, name)
            break
    raise UserError(
        f"scored on another test set than {first.path}: {what}",
        file=other.path,
        line=line,
        remedy="predict and score both cells on the same prepared data",
    )


def check_known(patterns: Sequence[str], tasks: Sequence[TaskCells]) -> None:
    """Checks that some task has a metric that matches.

    Raises:
        UserError: none has; names the closest that there is.
    """
    if not any(task.metrics(patterns) for task in tasks):
        known = dict.fromkeys(name for task in tasks for name in task.metrics(["*"]))
        raise unknown("metric", ", ".join(patterns), list(known))


def _line_of(path: Path, unit: str) -> int | None:
    """The line of `scores.json` that holds a unit's counts."""
    start = f"    {json.dumps(unit, ensure_ascii=False)}: ["
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.startswith(start):
            return number
    return None
