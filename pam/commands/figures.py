"""`figures`: one figure, as SVG and PNG."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

HELP = "draw one figure, as SVG and PNG"

KINDS = (
    *("quality", "gains", "cost", "curves", "attention"),
    *("entropy_accuracy", "coverage", "bleu_by_length", "bleu_by_size"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="its module in pam/reporting/figures/")
    # Read later, by the module of that kind: importing all of them would slow down every verb.
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options; `KIND --help` lists them")


def run(args: argparse.Namespace) -> int:
    from pam.reporting import style

    module = importlib.import_module(f"pam.reporting.figures.{args.kind}")
    parser = argparse.ArgumentParser(f"python -m pam figures {args.kind}", description=module.HELP)
    module.add_arguments(parser)
    parser.add_argument(
        "--out", type=Path, required=True, help="an .svg or .png; the other is written too"
    )
    options = parser.parse_args(args.rest)
    with style.styled():
        style.save(module.draw(options), options.out)
    return 0
