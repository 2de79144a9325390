"""`significance`: outputs of some models held against the baseline's by sacreBLEU's own test."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "test translations against the baseline's: sacreBLEU's paired bootstrap"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baseline",
        type=Path,
        required=True,
        help="predictions of the baseline; run.yaml stands in the folder above theirs",
    )
    parser.add_argument(
        "--systems", type=Path, nargs="+", required=True, help="predictions of other models"
    )
    parser.add_argument("--data", type=Path, required=True, help="prepared data of the task")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--beam", type=int, required=True, help="with which they were made")
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")


def run(args: argparse.Namespace) -> int:
    from pam.config import load_run
    from pam.evaluation.metrics import of_beam
    from pam.evaluation.significance import paired_bootstrap
    from pam.io import write_json

    baseline, *runs = (
        load_run(path.parent.parent / "run.yaml") for path in (args.baseline, *args.systems)
    )
    systems = dict(zip((run.model for run in runs), args.systems, strict=True))
    tested = paired_bootstrap(
        args.baseline, systems, args.data, args.split, ("bleu", "sacrebleu", "chrf")
    )
    tests = [
        {
            "model": one.system,
            "metric": of_beam(one.metric, args.beam),
            "score": one.score,
            "baseline": one.baseline,
            "p": one.p,
            "signature": one.signature,
        }
        for one in tested
    ]
    record = {"task": baseline.task, "seed": baseline.seed, "baseline": baseline.model}
    write_json(args.out, record | {"tests": tests})
    return 0
