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
    from pam.evaluation.translation import Significance, paired_bootstrap
    from pam.io import write_json

    baseline, *runs = (
        load_run(path.parent.parent / "run.yaml") for path in (args.baseline, *args.systems)
    )
    systems = dict(zip((run.model for run in runs), args.systems, strict=True))
    metrics = ("bleu", "sacrebleu", "chrf")
    tests = paired_bootstrap(args.baseline, systems, args.data, args.split, metrics, args.beam)
    record = Significance(
        task=baseline.task, seed=baseline.seed, baseline=baseline.model, tests=tests
    )
    write_json(args.out, record.model_dump())
    return 0
