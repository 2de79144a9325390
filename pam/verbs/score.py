"""`score`: predictions to one cell's record of scores."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

HELP = "score predictions: accuracy over forms and paradigms with intervals, and cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--predictions",
        type=Path,
        required=True,
        help="tab-separated: lemma, features, form, predicted (first line names the columns)",
    )
    parser.add_argument(
        "--split", type=Path, help="prepared test split (test.tsv) that the rows must agree with"
    )
    parser.add_argument("--cell", type=Path, help="cell.yaml, which says whose scores these are")
    parser.add_argument("--training", type=Path, help="training.json, for the cost")
    parser.add_argument("--decoding", type=Path, help="decoding.json, for the cost")
    parser.add_argument("--out", type=Path, help="scores.json; without it, metrics are printed")


def run(args: argparse.Namespace) -> int:
    from pam.scoring import inflection, record

    rows = inflection.read_predictions(args.predictions)
    if args.split is not None:
        inflection.check_against_split(rows, args.predictions, args.split)
    scores = record.make(
        inflection.count(rows),
        inflection.METRICS,
        _identity(args.cell),
        _content(args.training),
        _content(args.decoding),
    )
    if args.out is not None:
        record.save(scores, args.out)
        return 0
    for name, value in scores.metrics.items():
        sys.stdout.write(
            f"{name}: {value.value:.2f} {value.unit} [{value.low:.2f}, {value.high:.2f}] "
            f"of {value.n}, {scores.lemmas} lemmas\n"
        )
    return 0


def _identity(cell: Path | None) -> dict[str, Any]:
    from pam.config import load_cell

    if cell is None:
        return {}
    known = load_cell(cell)
    return {
        "experiment": known.experiment,
        "task": known.task,
        "model": known.model,
        "label": known.label,
        "seed": known.seed,
    }


def _content(path: Path | None) -> dict[str, Any]:
    from pam.errors import UserError
    from pam.files import read_json

    if path is None:
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError("expected keys and values", file=path, remedy="delete it and make it again")
    return content
