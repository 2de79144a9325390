"""The neural transducer of Makarov, Clematide and Wehrli, by its own command line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from recipe_runs import Run

from pam.runtime.errors import UserError
from pam.runtime.files import write_text

EDITS = Path(__file__).resolve().parent / "edits_trans.py"


def train(run: Run) -> dict[str, Any]:
    """Train on prepared data, and decode with the best epoch; return what `training.json` holds."""
    for split in ("train", "dev", "test"):
        _write_rows(run, split)

    # Its own code for the edit distance does the same in far more time.
    edits = run.folder / "edits.pkl"
    costs = [run.learn_edits(edits), run.call(EDITS, edits)]

    words: list[str | Path] = ["--output", run.folder / "model", "--sed-params", edits]
    for split in ("train", "dev", "test"):
        words += [f"--{split}", run.folder / f"{split}.tsv"]
    for name, value in {"pytorch-seed": run.seed, **run.options}.items():
        words += [f"--{name}", str(value)]
    costs.append(run.call("-m", "trans.train", *words))
    return run.training_record(*costs, **_notes(run))


def predict(run: Run, path: Path) -> dict[str, Any]:
    """Write the predictions that training ended with; return what `decoding.json` holds.

    Their seconds are among those of training.
    """
    beam = int(run.options["beam-width"])
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
