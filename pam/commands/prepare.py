"""`python -m pam prepare`: check the text of a data set and turn it into ids."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.commands.fetch import REGISTRY, add_dataset_arguments

if TYPE_CHECKING:
    from pam.data.registry import Dataset

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
    parser.add_argument(
        "--format", metavar="YAML", help="keys that override the data set's `format`: {key: value}"
    )
    parser.add_argument(
        "--stage", metavar="NAME", help="this stage alone, after those before it (default: all)"
    )


def run(args: argparse.Namespace) -> int:
    """Prepares; warnings go to stderr."""
    from pam.data.prepare import prepare
    from pam.data.registry import find_dataset

    dataset = find_dataset(args.registry or [REGISTRY], args.dataset)
    if args.format is not None:
        dataset = dataset.with_format(overrides(args.format, dataset))
    counts = prepare(args.dataset, dataset, args.raw, args.out, args.stage)
    for warning in counts["warnings"]:
        sys.stderr.write(f"warning: {args.dataset}: {warning}\n")
    return 0


def overrides(text: str, dataset: Dataset) -> dict[str, Any]:
    """Keys given with --format, checked with those of the data set that they do not override.

    Raises:
        UserError: not YAML, or not what this kind of task knows.
    """
    from pam.data.registry import load_task
    from pam.io import UserError, parse, parse_yaml

    given = parse_yaml(text, "--format")
    if not isinstance(given, dict):
        raise UserError("no keys", file="--format", hint="write {key: value, ...}")
    parse(load_task(dataset.task).Format, dataset.format | given, "--format")
    return given
