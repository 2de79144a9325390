"""Read the histories of trainings, `history.csv` of each run."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.evaluation.metrics import Floats
from pam.experiments.experiment import Experiment
from pam.experiments.run_config import load_run
from pam.reporting.runs import ByTask, OfRun, by_task, check_task
from pam.runtime.errors import UserError

HISTORY_COLUMNS = ("epoch", "step", "train_loss", "dev_loss")
# empty where not measured
OPTIONAL_COLUMNS = ("dev_accuracy", "dev_token_accuracy", "dev_objective", "dev_positions")


@dataclass(frozen=True)
class History(OfRun):
    """One `history.csv`."""

    columns: dict[str, Floats]  # by name
    targets: str  # unit of the losses: `symbols`, or `actions` of a pointer


def load_histories(paths: Sequence[Path], experiment: Experiment) -> ByTask[History]:
    """Read and group histories, each with the `run.yaml` in its folder.

    Raises:
        UserError: one is of an unknown task.
    """
    histories = []
    for path in paths:
        run = load_run(path.with_name("run.yaml"))
        check_task(run.task, path, experiment)
        history = History(
            path=path,
            task=run.task,
            model=run.model,
            label=run.label,
            seed=run.seed,
            columns=history_columns(path),
            targets=run.components.targets,
        )
        histories.append(history)

    return by_task(histories, experiment)


def history_columns(path: Path) -> dict[str, Floats]:
    """Return the columns of `history.csv`, each (epochs,).

    Raises:
        UserError: a column or a number is missing, or there are no epochs.
    """
    hint = "delete the run's history and train again"
    if not path.is_file():
        raise UserError("no such file", file=path, hint="train the run first")

    reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    for column in HISTORY_COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise UserError(f"missing column `{column}`", file=path, line=1, hint=hint)

    rows = list(reader)
    measured = [name for name in OPTIONAL_COLUMNS if any(row.get(name) for row in rows)]
    columns = [*HISTORY_COLUMNS, *measured]

    values = []
    for line, row in enumerate(rows, start=2):
        try:
            values.append([float(row[column]) for column in columns])
        except (TypeError, ValueError) as error:
            raise UserError(
                "a number is missing or is not a number", file=path, line=line, hint=hint
            ) from error
    if not values:
        raise UserError("no epochs", file=path, hint=hint)

    return dict(zip(columns, np.array(values).T, strict=True))
