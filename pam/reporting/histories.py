"""Training histories, `history.csv`, read and checked."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.config import load_cell
from pam.errors import UserError
from pam.scoring.metrics import Floats

REQUIRED = ("epoch", "train_loss", "dev_loss")
ACCURACY = "dev_accuracy"
"""A column that is empty where a training did not search outputs after each epoch."""


@dataclass(frozen=True)
class History:
    """One training: the cell it belongs to and a column of numbers per name."""

    task: str
    model: str
    label: str
    seed: int
    columns: dict[str, Floats]


def load(path: Path | str) -> History:
    """Reads a history and the `cell.yaml` beside it.

    Raises:
        UserError: a missing column, no epoch at all, or a cell that is not a number; names file
            and line.
    """
    path = Path(path)
    cell = load_cell(path.with_name("cell.yaml"))
    return History(cell.task, cell.model, cell.label, cell.seed, _columns(path))


def mean_over_seeds(histories: Sequence[History], name: str) -> tuple[Floats, Floats]:
    """Epochs that every seed has reached, and the mean of a column there."""
    count = min(len(history.columns["epoch"]) for history in histories)
    values = np.stack([history.columns[name][:count] for history in histories])
    return histories[0].columns["epoch"][:count], values.mean(axis=0)


def _columns(path: Path) -> dict[str, Floats]:
    remedy = "delete the cell's history and train again"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, remedy="train the cell first") from error
    reader = csv.DictReader(lines)
    for column in REQUIRED:
        if column not in (reader.fieldnames or ()):
            raise UserError(f"missing column `{column}`", file=path, line=1, remedy=remedy)
    read = list(reader)
    known = [*REQUIRED, *([ACCURACY] if any(row.get(ACCURACY) for row in read) else [])]
    rows = []
    for line, row in enumerate(read, start=2):
        try:
            rows.append([float(row[column]) for column in known])
        except (TypeError, ValueError) as error:
            raise UserError(
                "a number is missing or is none", file=path, line=line, remedy=remedy
            ) from error
    if not rows:
        raise UserError("no epochs", file=path, remedy=remedy)
    return dict(zip(known, np.array(rows).T, strict=True))
