"""`fetch`, `prepare` and `word-alignments`: from addresses to ids."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Any

from pam.commands import command, folder, option

if TYPE_CHECKING:
    from pam.data.registry import Dataset

REGISTRY = "config/datasets.yaml"
DATASET = (
    option("--dataset", "its name in a registry", required=True, metavar="NAME"),
    option(
        "--registry", f"registry of data sets; may be repeated (default: {REGISTRY})", action="append", metavar="FILE"
    ),
)
RAW = folder("--raw", "folder that fetch filled", required=True)


@command(
    "bring the files of a data set, checked against their hashes",
    *DATASET,
    folder("--out", "folder for the files", required=True),
    option(
        "--mirror", "folder or base address laid out DATASET/FILE, tried first (default: $PAM_MIRROR)", metavar="PLACE"
    ),
)
def fetch(args: Namespace) -> int:
    from pam.data import download

    download.fetch(args.dataset, _dataset(args), args.out, args.mirror, say=partial(print, file=sys.stderr))
    return 0


@command(
    "check the text of a fetched data set and turn it into ids",
    *DATASET,
    folder("--out", "folder for the prepared data", required=True),
    RAW,
    option("--format", "keys that override the data set's `format`: {key: value}", metavar="YAML"),
    option("--stage", "this stage alone, after those before it (default: all)", metavar="NAME"),
)
def prepare(args: Namespace) -> int:
    from pam.data import prepare as preparation

    dataset = _dataset(args)
    if args.format is not None:
        dataset = dataset.with_format(overrides(args.format, dataset))
    counts = preparation.prepare(args.dataset, dataset, args.raw, args.out, args.stage)
    for warning in counts["warnings"]:
        sys.stderr.write(f"warning: {args.dataset}: {warning}\n")
    return 0


@command(
    "prepare word alignments that people made, to compare attention with",
    *DATASET,
    folder("--out", "folder for the prepared alignments", required=True),
    RAW,
    folder("--data", "the task's prepared data", required=True),
)
def word_alignments(args: Namespace) -> int:
    from pam.data.translation import prepare_word_alignments

    prepare_word_alignments(args.dataset, _dataset(args), args.raw, args.data, args.out)
    return 0


def _dataset(args: Namespace) -> Dataset:
    from pam.data.registry import find_dataset

    return find_dataset(args.registry or [REGISTRY], args.dataset)


def overrides(text: str, dataset: Dataset) -> dict[str, Any]:
    """Keys given with --format, checked with those of the data set that they do not override; wrong ones: UserError."""
    from pam.data.registry import load_task
    from pam.io import UserError, parse, parse_yaml

    given = parse_yaml(text, "--format")
    if not isinstance(given, dict):
        raise UserError("no keys", file="--format", hint="write {key: value, ...}")
    parse(load_task(dataset.task).Format, dataset.format | given, "--format")
    return given
