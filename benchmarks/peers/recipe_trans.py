"""The neural transducer of Makarov, Clematide and Wehrli, by its own command line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import yaml
from recipe_runs import RECIPES, Run

from pam.runtime.errors import UserError
from pam.runtime.files import write_text

EDITS = Path(__file__).resolve().parent / "edits_trans.py"


def train(run: Run) -> dict[str, Any]:
    """Train on prepared data, and decode with the best epoch; return what `training.json` holds."""
    for split in ("train", "dev", "test"):
        _write_rows(run, split)

    # Its own code for the edit distance takes hours for what maxwell's, a copy of it, does in a
    # minute: ten steps of the EM algorithm.
    pairs, edits = run.data.folder / "train.tsv", run.folder / "edits.pkl"
    costs = [
        run.call("-m", "maxwell.train", "--target_col", "3", "--train", pairs, "--output", edits),
        run.call(EDITS, edits),
    ]

    files: list[str | Path] = ["--output", run.folder / "model", "--sed-params", edits]
    for split in ("train", "dev", "test"):
        files += [f"--{split}", run.folder / f"{split}.tsv"]
    seed = ("--pytorch-seed", str(run.seed))
    costs.append(run.call("-m", "trans.train", *files, *seed, *_options(run)))
    return run.training_record(*costs, **_notes(run))


def predict(run: Run, path: Path) -> dict[str, Any]:
    """Write the predictions that training ended with; return what `decoding.json` holds.

    Their seconds are among those of training.
    """
    beam = int(_recipe(run)["beam-width"])
    written = run.folder / f"model/test_beam{beam}.predictions"
    forms = [line.split("\t")[1] for line in written.read_text(encoding="utf-8").splitlines()]
    outputs = run.folder / "outputs.txt"
    write_text(outputs, "".join(f"{form}\n" for form in forms))
    run.write_predictions(outputs, path)
    return {"wall_s": 0.0, "cpu_s": 0.0, "beam": beam}


def _write_rows(run: Run, split: str) -> None:
    """Write the rows of a split as it reads them; those of the test split without their forms.

    Raises:
        UserError: it would read a row otherwise.
    """
    lines = []
    for lemma, features, form, *_ in run.data.rows(split)[:]:
        line = f"{lemma}\t{'' if split == 'test' else form}\t{features}"
        if line != line.rstrip() or len(line.splitlines()) != 1:
            raise UserError(f"{run.recipe} cannot read the row of `{lemma}`", file=run.data.folder)
        lines.append(f"{line}\n")
    write_text(run.folder / f"{split}.tsv", "".join(lines))


def _recipe(run: Run) -> dict[str, Any]:
    """Return the options of its command line by their names."""
    text = (RECIPES / f"{run.recipe}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def _options(run: Run) -> list[str]:
    """Return the recipe as words of a command."""
    return [word for name, value in _recipe(run).items() for word in (f"--{name}", str(value))]


def _notes(run: Run) -> dict[str, Any]:
    """Read epochs and the best one from its history."""
    with open(run.folder / "model/train.log", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    # The first of equally good ones is kept.
    best = max(rows, key=lambda row: float(row["dev_accuracy"]))
    return {
        "epochs": len(rows),
        "best_epoch": 1 + rows.index(best),
        "dev_accuracy": float(best["dev_accuracy"]),
    }
