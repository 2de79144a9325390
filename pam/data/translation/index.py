"""Stage `index`: symbols to numbers, and the prepared folder as every kind of task has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pam.data.dataset import SPLITS, Ids, Offsets, Split
from pam.data.subwords import count_words
from pam.data.tasks import Files, Side
from pam.data.translation import codec, segment, tokenize
from pam.data.translation.folder import SIDES, reading
from pam.data.translation.format import Format
from pam.data.vocabulary import UNK, Vocabulary
from pam.io import atomic_write, sha256_of

NAME = "index"

REFERRED = ("dev", "test")
"""Splits whose outputs are compared with references."""


def index(files: Files, layout: Format, out: Path) -> dict[str, Any]:
    """Writes texts, vocabularies, ids and the codec into the prepared folder.

    Returns:
        sizes of the vocabularies; for each split its rows, its symbols and how many of them are
        unknown; training pairs that are in another split too.
    """
    vocabularies = {side: _vocabulary(side, layout, out) for side in SIDES}
    for side, vocabulary in vocabularies.items():
        vocabulary.save(out / f"{side}.vocab")
    counts = {split: _write_split(split, vocabularies, out) for split in SPLITS}
    _copy(out / segment.NAME / codec.FILE, out)
    for split in REFERRED:
        _copy(out / tokenize.NAME / tokenize.REFERENCES.format(split=split), out)
    shared = _seen_in_training(out)
    return {
        "languages": {"source": layout.source, "target": layout.target},
        "source_symbols": len(vocabularies["source"]),
        "target_symbols": len(vocabularies["target"]),
        "splits": counts,
        "pairs_in_train_too": shared,
        "warnings": [
            f"{count} pairs of {split} are in train too; scores on them are too good"
            for split, count in shared.items()
            if count
        ],
    }


def _symbols(out: Path, split: str, side: Side) -> Iterator[list[str]]:
    place = SIDES.index(side)
    return (pair[place].split(" ") for pair in reading(out / segment.NAME, split))


def _vocabulary(side: Side, layout: Format, out: Path) -> Vocabulary:
    words, language = layout.vocabulary, layout.language(side)
    counts = count_words(_symbols(out, "train", side))
    return Vocabulary.by_frequency(counts, words.size_for(language), words.min_count)


def _write_split(split: str, vocabularies: dict[Side, Vocabulary], out: Path) -> dict[str, Any]:
    text = out / f"{split}.tsv"
    with (
        atomic_write(text) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as tsv,
    ):
        for pair in reading(out / tokenize.NAME, split):
            tsv.write("\t".join(pair) + "\n")
    ids = {
        side: map(vocabulary.encode, _symbols(out, split, side))
        for side, vocabulary in vocabularies.items()
    }
    digests: dict[str, str] = {side: own.digest for side, own in vocabularies.items()}
    made = Split.from_rows(ids["source"], ids["target"], None, digests | {"text": sha256_of(text)})
    made.save(out, split)
    return {
        "rows": len(made),
        "source": side_counts(made.source, made.source_offsets),
        "target": side_counts(made.target, made.target_offsets),
    }


def side_counts(ids: Ids, offsets: Offsets) -> dict[str, int]:
    """Symbols without those that end rows, which of them are unknown, and the longest row's."""
    return {
        "symbols": len(ids) - len(offsets) + 1,
        "unknown": int((ids == UNK).sum()),
        "longest": int(np.diff(offsets).max()) - 1,
    }


def _seen_in_training(out: Path) -> dict[str, int]:
    """How many pairs of the other splits training holds word for word."""
    seen = {hash(pair) for pair in reading(out / tokenize.NAME, "train")}
    return {
        split: sum(hash(pair) in seen for pair in reading(out / tokenize.NAME, split))
        for split in REFERRED
    }


def _copy(file: Path, folder: Path) -> None:
    with atomic_write(folder / file.name) as temporary:
        shutil.copyfile(file, temporary)
