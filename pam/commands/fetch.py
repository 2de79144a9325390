"""`python -m pam fetch`: bring the files of a data set."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "bring the files of a data set, checked against their hashes"
REGISTRY = "config/datasets.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    add_dataset_arguments(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the files"
    )
    parser.add_argument(
        "--mirror",
        metavar="PLACE",
        help="folder or base address laid out DATASET/FILE, tried first (default: $PAM_MIRROR)",
    )


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options that name a data set."""
    parser.add_argument("--dataset", required=True, metavar="NAME", help="its name in a registry")
    parser.add_argument(
        "--registry",
        action="append",
        metavar="FILE",
        help=f"registry of data sets; may be repeated (default: {REGISTRY})",
    )


def run(args: argparse.Namespace) -> int:
    """Fetches; what happens is told on stderr."""
    from pam.data.download import fetch
    from pam.data.registry import find_dataset

    dataset = find_dataset(args.registry or [REGISTRY], args.dataset)
    fetch(args.dataset, dataset, args.out, args.mirror, say=_say)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
