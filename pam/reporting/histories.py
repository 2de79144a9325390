"""Training histories, `history.csv`, read and checked."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.config import load_cell
from pam.errors import UserError
from pam.scoring.metrics import Floats

REQUIRED = ("epoch", "step", "train_loss", "dev_loss")
OPTIONAL = ("dev_accuracy", "dev_token_accuracy", "dev_objective")
"""Columns that are empty where a training did not measure them after each epoch."""


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
    known = [*REQUIRED, *(name for name in OPTIONAL if any(row.get(name) for row in read))]
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
