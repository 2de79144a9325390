"""`score`: predictions, or alignments, to one run's record of scores."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

HELP = "score predictions or alignments, with intervals, and add up the cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--predictions",
        type=Path,
        nargs="+",
        default=[],
        help="files of predictions, one a beam, the main beam's first",
    )
    parser.add_argument("--data", type=Path, help="prepared data that the rows must agree with")
    parser.add_argument("--split", default="test", help="the split of --data that was predicted")
    parser.add_argument("--analysis", type=Path, help="analysis.json, for perplexity or alignments")
    parser.add_argument("--kind", help="kind of scoring (default: the kind of task of --data)")
    parser.add_argument("--run", type=Path, help="run.yaml, which says whose scores these are")
    parser.add_argument("--training", type=Path, help="training.json, for the cost")
    parser.add_argument(
        "--decoding",
        type=Path,
        nargs="+",
        default=[],
        help="decoding.json of each file of predictions, for beam and cost",
    )
    parser.add_argument("--out", type=Path, help="scores.json; without it, metrics are printed")


def run(args: argparse.Namespace) -> int:
    from pam.evaluation import scores as record
    from pam.evaluation.inputs import EvalInputs

    kind = args.kind or _kind_of(args.data)
    decoding = _decoding(args)
    inputs = EvalInputs(
        predictions=tuple(args.predictions),
        beams=tuple(found.get("beam") for found in decoding) or (None,) * len(args.predictions),
        analysis=args.analysis,
        data=args.data,
        split=args.split,
    )
    scores = record.make(
        kind,
        record.count(kind, inputs),
        _identity(args.run),
        _content(args.training),
        {str(found.get("beam", 1)): found for found in decoding},
    )
    if args.out is not None:
        record.save(scores, args.out)
        return 0
    for name, value in scores.metrics.items():
        unit = f" {value.unit}" if value.unit else ""
        sys.stdout.write(
            f"{name}: {value.value:.2f}{unit} [{value.low:.2f}, {value.high:.2f}] "
            f"of {value.n}, {len(scores.units)} {scores.over}\n"
        )
    return 0


def _kind_of(data: Path | None) -> str:
    """The kind of task of prepared data.

    Raises:
        UserError: no data was named.
    """
    from pam.data.dataset import Prepared
    from pam.io import UserError

    if data is None:
        raise UserError(
            "what kind of predictions these are is not said",
            hint="name the prepared data with --data, or the kind with --kind inflection",
        )
    return str(Prepared(data).summary["task"])


def _decoding(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The records of decoding, one for each file of predictions, or none.

    Raises:
        UserError: another number of them, or two of the same beam.
    """
    from pam.io import UserError

    found = [_content(path) for path in args.decoding]
    if found and len(found) != len(args.predictions):
        raise UserError(
            f"{len(args.predictions)} files of predictions and {len(found)} of decoding",
            hint="name one --decoding for each of --predictions, in the same order",
        )
    beams = [content.get("beam") for content in found] or [None] * len(args.predictions)
    if len(set(beams)) < len(beams):
        raise UserError(
            f"several files of predictions, of beams {', '.join(map(str, beams))}",
            hint="name their records with --decoding, each beam once",
        )
    return found


def _identity(run: Path | None) -> dict[str, Any]:
    from pam.config import load_run

    if run is None:
        return {}
    known = load_run(run)
    return {
        "experiment": known.experiment,
        "task": known.task,
        "model": known.model,
        "label": known.label,
        "seed": known.seed,
    }


def _content(path: Path | None) -> dict[str, Any]:
    from pam.io import UserError, read_json

    if path is None:
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError("expected keys and values", file=path, hint="delete it and make it again")
    return content
