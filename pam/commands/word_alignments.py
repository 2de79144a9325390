"""`python -m pam gold`: prepare word alignments that people made for a task's models."""

from __future__ import annotations

import argparse
from pathlib import Path

from pam.commands.fetch import REGISTRY, add_dataset_arguments

HELP = "prepare word alignments that people made, to hold attention to"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    add_dataset_arguments(parser)
    parser.add_argument(
        "--raw", type=Path, required=True, metavar="DIR", help="folder that fetch filled"
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the task's prepared data"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the prepared alignments"
    )


def run(args: argparse.Namespace) -> int:
    """Prepares."""
    from pam.data.prepare import prepare_word_alignments
    from pam.data.registry import find_dataset

    dataset = find_dataset(args.registry or [REGISTRY], args.dataset)
    prepare_word_alignments(args.dataset, dataset, args.raw, args.data, args.out)
    return 0
