"""`python -m pam prepare`: check the text of a data set and turn it into ids."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pam.verbs.fetch import REGISTRY, add_dataset_arguments

HELP = "check the text of a fetched data set and turn it into ids"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    add_dataset_arguments(parser)
    parser.add_argument(
        "--raw", type=Path, required=True, metavar="DIR", help="folder that fetch filled"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the prepared data"
    )


def run(args: argparse.Namespace) -> int:
    """Prepares; warnings go to stderr."""
    from pam.data.prepare import prepare
    from pam.data.registry import find_dataset

    dataset = find_dataset(args.registry or [REGISTRY], args.dataset)
    summary = prepare(args.dataset, dataset, args.raw, args.out)
    for warning in summary["warnings"]:
        sys.stderr.write(f"warning: {args.dataset}: {warning}\n")
    return 0
