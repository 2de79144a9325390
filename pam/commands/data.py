"""`fetch`, `prepare` and `word-alignments`: from addresses to ids."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.commands import Command

if TYPE_CHECKING:
    from pam.data.registry import Dataset

REGISTRY = "config/datasets.yaml"


def _add_dataset(parser: argparse.ArgumentParser, out: str) -> None:
    """Declares the options that name a data set, and the folder to write."""
    parser.add_argument("--dataset", required=True, metavar="NAME", help="its name in a registry")
    parser.add_argument(
        "--registry",
        action="append",
        metavar="FILE",
        help=f"registry of data sets; may be repeated (default: {REGISTRY})",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=out)


def _dataset(args: argparse.Namespace) -> Dataset:
    from pam.data.registry import find_dataset

    return find_dataset(args.registry or [REGISTRY], args.dataset)


def _add_raw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--raw", type=Path, required=True, metavar="DIR", help="folder that fetch filled")


def add_fetch(parser: argparse.ArgumentParser) -> None:
    _add_dataset(parser, "folder for the files")
    parser.add_argument(
        "--mirror",
        metavar="PLACE",
        help="folder or base address laid out DATASET/FILE, tried first (default: $PAM_MIRROR)",
    )


def run_fetch(args: argparse.Namespace) -> int:
    from pam.data.download import fetch

    fetch(args.dataset, _dataset(args), args.out, args.mirror, say=_say)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def add_prepare(parser: argparse.ArgumentParser) -> None:
    _add_dataset(parser, "folder for the prepared data")
    _add_raw(parser)
    parser.add_argument("--format", metavar="YAML", help="keys that override the data set's `format`: {key: value}")
    parser.add_argument("--stage", metavar="NAME", help="this stage alone, after those before it (default: all)")


def run_prepare(args: argparse.Namespace) -> int:
    from pam.data.prepare import prepare

    dataset = _dataset(args)
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


def add_word_alignments(parser: argparse.ArgumentParser) -> None:
    _add_dataset(parser, "folder for the prepared alignments")
    _add_raw(parser)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the task's prepared data")


def run_word_alignments(args: argparse.Namespace) -> int:
    from pam.data.word_alignments import prepare_word_alignments

    prepare_word_alignments(args.dataset, _dataset(args), args.raw, args.data, args.out)
    return 0


FETCH = Command("bring the files of a data set, checked against their hashes", add_fetch, run_fetch)
PREPARE = Command("check the text of a fetched data set and turn it into ids", add_prepare, run_prepare)
WORD_ALIGNMENTS = Command(
    "prepare word alignments that people made, to compare attention with", add_word_alignments, run_word_alignments
)
