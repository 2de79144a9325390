"""yoyodyne by its own command line: training with early stopping, greedy decoding."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from recipe_runs import RECIPES, Run

from pam.runtime.files import read_json, write_text

HERE = Path(__file__).resolve().parent
COMMAND = HERE / "cli_yoyodyne.py"
NUMBER_EDITS = HERE / "edits_yoyodyne.py"
TRANSDUCER = "yoyodyne-transducer"  # an edit distance guides it, which is trained before


def train(run: Run) -> dict[str, Any]:
    """Train on prepared data, whose files it reads; return what `training.json` holds."""
    data = run.data.folder
    costs = []
    if run.recipe == TRANSDUCER:
        edits = run.folder / "edits.pkl"
        costs.append(run.learn_edits(edits))
        costs.append(run.call(NUMBER_EDITS, edits, data / "train.tsv", _features_separator(run)))

    files = ("--data.train", data / "train.tsv", "--data.val", data / "dev.tsv")
    seed = ("--seed_everything", str(run.seed))
    costs.append(run.call(*_command(run, "fit"), *seed, *files, "--checkpoint.dirpath", run.folder))
    return run.training_record(*costs, **_notes(run))


def predict(run: Run, path: Path) -> dict[str, Any]:
    """Write predictions for the test split; return what `decoding.json` holds."""
    # A column of targets cannot be left out for the transducer, which then has an error of its own
    # (0.5.27). It predicts without them; the lemma stands in, so that none can leak.
    has_targets = run.recipe == TRANSDUCER
    lines = []
    for lemma, features, *_ in run.data.rows("test")[:]:
        columns = [lemma, features, lemma] if has_targets else [lemma, features]
        lines.append("\t".join(columns) + "\n")
    source = run.folder / "test.tsv"
    write_text(source, "".join(lines))

    outputs = run.folder / "outputs.txt"
    target_column = "3" if has_targets else "0"
    options: list[str | Path] = ["--data.target_col", target_column, "--data.predict", source]
    options += ["--prediction.path", outputs]
    checkpoint = ("--ckpt_path", run.folder / "best.ckpt")
    cost = run.call(*_command(run, "predict"), *options, *checkpoint)
    run.write_predictions(outputs, path)
    return {**cost, "beam": 1}


def _command(run: Run, mode: str) -> list[str | Path]:
    """Return a command of yoyodyne up to its files."""
    command: list[str | Path] = [COMMAND, mode]
    for recipe in ("yoyodyne", run.recipe):
        command += ["--config", RECIPES / f"{recipe}.yaml"]

    command += ["--data.model_dir", run.folder]
    command += ["--data.features_sep", _features_separator(run)]
    if run.recipe == TRANSDUCER:
        command += ["--model.init_args.sed_path", run.folder / "edits.pkl"]
    return command


def _features_separator(run: Run) -> str:
    """Return what stands between the features of a row."""
    return str(read_json(run.data.folder / "codec.json")["separator"])


def _notes(run: Run) -> dict[str, Any]:
    """Read the number of parameters from the log, epochs and the best one from the history."""
    log = run.log.read_text(encoding="utf-8")
    parameters = re.findall(r"Trainable parameters: ([\d,]+)", log)[-1]

    history = max(run.folder.rglob("metrics.csv"), key=lambda file: file.stat().st_mtime)
    with open(history, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("val_accuracy")]
    # As the checkpoint is chosen.
    best = max(rows, key=lambda row: float(row["val_accuracy"]))
    if run.recipe == TRANSDUCER:
        best = min(rows, key=lambda row: float(row["val_loss"]))
    return {
        "parameters": int(parameters.replace(",", "")),
        "epochs": len(rows),
        "best_epoch": 1 + rows.index(best),
        "dev_accuracy": float(best["val_accuracy"]),
    }
