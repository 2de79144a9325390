"""`fetch`, `prepare` and `word-alignments`: from addresses to ids."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pam.commands import Command, Option, folder, option

if TYPE_CHECKING:
    from pam.data.registry import Dataset

REGISTRY = "config/datasets.yaml"


def run_fetch(args: argparse.Namespace) -> int:
    from pam.data.download import fetch

    fetch(args.dataset, _dataset(args), args.out, args.mirror, say=_say)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def run_prepare(args: argparse.Namespace) -> int:
    from pam.data.prepare import prepare

    dataset = _dataset(args)
    if args.format is not None:
        dataset = dataset.with_format(overrides(args.format, dataset))
    counts = prepare(args.dataset, dataset, args.raw, args.out, args.stage)
    for warning in counts["warnings"]:
        sys.stderr.write(f"warning: {args.dataset}: {warning}\n")
    return 0


def run_word_alignments(args: argparse.Namespace) -> int:
    from pam.data.word_alignments import prepare_word_alignments

    prepare_word_alignments(args.dataset, _dataset(args), args.raw, args.data, args.out)
    return 0


def _dataset(args: argparse.Namespace) -> Dataset:
    from pam.data.registry import find_dataset

    return find_dataset(args.registry or [REGISTRY], args.dataset)


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


def _dataset_to(out: str) -> tuple[Option, ...]:
    """The options that name a data set, and the folder to write."""
    return (
        option("--dataset", "its name in a registry", required=True, metavar="NAME"),
        option(
            "--registry",
            f"registry of data sets; may be repeated (default: {REGISTRY})",
            action="append",
            metavar="FILE",
        ),
        folder("--out", out, required=True),
    )


RAW = folder("--raw", "folder that fetch filled", required=True)
FETCH = Command(
    "bring the files of a data set, checked against their hashes",
    run_fetch,
    (
        *_dataset_to("folder for the files"),
        option(
            "--mirror",
            "folder or base address laid out DATASET/FILE, tried first (default: $PAM_MIRROR)",
            metavar="PLACE",
        ),
    ),
)
PREPARE = Command(
    "check the text of a fetched data set and turn it into ids",
    run_prepare,
    (
        *_dataset_to("folder for the prepared data"),
        RAW,
        option("--format", "keys that override the data set's `format`: {key: value}", metavar="YAML"),
        option("--stage", "this stage alone, after those before it (default: all)", metavar="NAME"),
    ),
)
WORD_ALIGNMENTS = Command(
    "prepare word alignments that people made, to compare attention with",
    run_word_alignments,
    (
        *_dataset_to("folder for the prepared alignments"),
        RAW,
        folder("--data", "the task's prepared data", required=True),
    ),
)
