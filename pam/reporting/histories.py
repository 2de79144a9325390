"""Training histories, `history.csv`, read and checked."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.config import load_run
from pam.evaluation.metrics import Floats
from pam.io import UserError

REQUIRED = ("epoch", "step", "train_loss", "dev_loss")
OPTIONAL = ("dev_accuracy", "dev_token_accuracy", "dev_objective")
"""Columns that are empty where a training did not measure them after each epoch."""


@dataclass(frozen=True)
class History:
    """One training: the run it belongs to and a column of numbers per name."""

    task: str
    model: str
    label: str
    seed: int
    columns: dict[str, Floats]


def load(path: Path | str) -> History:
    """Reads a history and the `run.yaml` beside it.

    Raises:
        UserError: a missing column, no epoch at all, or a run that is not a number; names file
            and line.
    """
    path = Path(path)
    run = load_run(path.with_name("run.yaml"))
    return History(run.task, run.model, run.label, run.seed, _columns(path))


def _columns(path: Path) -> dict[str, Floats]:
    hint = "delete the run's history and train again"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="train the run first") from error
    reader = csv.DictReader(lines)
    for column in REQUIRED:
        if column not in (reader.fieldnames or ()):
            raise UserError(f"missing column `{column}`", file=path, line=1, hint=hint)
    read = list(reader)
    known = [*REQUIRED, *(name for name in OPTIONAL if any(row.get(name) for row in read))]
    rows = []
    for line, row in enumerate(read, start=2):
        try:
            rows.append([float(row[column]) for column in known])
        except (TypeError, ValueError) as error:
            raise UserError(
                "a number is missing or is none", file=path, line=line, hint=hint
            ) from error
    if not rows:
        raise UserError("no epochs", file=path, hint=hint)
    return dict(zip(known, np.array(rows).T, strict=True))
