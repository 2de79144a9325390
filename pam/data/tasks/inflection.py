"""Morphological inflection: a lemma and features give an inflected form.

A row's source is its features, one symbol each, then the characters of its lemma; its target is
the characters of its form.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from pam.data.alignment import Aligner
from pam.data.dataset import SPLITS, Split
from pam.data.tasks import Files, Side, Stage
from pam.data.text import read_lines
from pam.data.vocabulary import Vocabulary
from pam.io import Strict, UserError, sha256_of, write_text

COLUMNS = ("lemma", "features", "form")

FILES: tuple[str, ...] = ()

ALIGNED = ("train", "dev")
"""Splits whose alignments are given: those that training may look at."""


class Format(Strict):
    """How the columns of a data set's files are to be read."""

    columns: list[str] = Field(list(COLUMNS), description="order of the columns")
    separator: str = Field(",", min_length=1, description="what stands between two features")

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: list[str]) -> list[str]:
        if sorted(columns) != sorted(COLUMNS):
            raise ValueError(f"name each of {', '.join(COLUMNS)} once")
        return columns


class Row(NamedTuple):
    """One checked row; features are separated by commas."""

    lemma: str
    features: str
    form: str


class Codec:
    """Symbols of lemmas, features and forms; see `pam.data.tasks.Codec`."""

    columns: tuple[str, ...] = COLUMNS

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Symbols of (lemma, features): each feature, then each character of the lemma.

        A feature of one character, such as `V`, becomes `feature=V`: it is not the letter.

        Raises:
            UserError: not two columns, or the lemma is empty.
        """
        if len(columns) != 2 or not columns[0].strip():
            raise UserError(
                "expected a lemma, a tab and features",
                hint="for example: Haus<TAB>case=dative,number=plural",
            )
        lemma, features = (unicodedata.normalize("NFC", column).strip() for column in columns)
        return [*_feature_symbols(features), *lemma]

    def target_symbols(self, target: str) -> list[str]:
        """Characters of a form."""
        return list(unicodedata.normalize("NFC", target).strip())

    def typed_source(self, line: str) -> tuple[str, ...]:
        """The lemma and the features of `LEMMA<tab>FEATURES`.

        Raises:
            UserError: it is not that.
        """
        columns = tuple(line.split("\t"))
        self.source_symbols(columns)
        return columns

    def target_text(self, symbols: Sequence[str]) -> str:
        """The form that characters spell."""
        return "".join(symbols)

    def readable(self, target: str) -> str:
        """A form as it is."""
        return target

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        """Each symbol is one of its own."""
        return list(range(len(symbols)))


def _feature_symbols(features: str) -> list[str]:
    listed = [feature.strip() for feature in features.split(",")]
    return [f"feature={name}" if len(name) == 1 else name for name in listed if name]


def codec(folder: Path) -> Codec:
    """The same codec everywhere: it needs no files."""
    return Codec()


def splits(layout: Format) -> tuple[str, ...]:
    """Train, dev and test."""
    return SPLITS


def keys(step: str) -> tuple[str, ...]:
    """All."""
    return tuple(Format.model_fields)


def modules(step: str, layout: Format) -> list[str]:
    """This one."""
    return [__name__]


def read_rows(path: Path, layout: Format) -> list[Row]:
    """Rows of a file of three tab-separated columns, in Unicode's composed form (NFC).

    Raises:
        UserError: empty, not UTF-8, a wrong number of columns, an empty lemma or form; names the
            line.
    """
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        cells = [cell.strip() for cell in unicodedata.normalize("NFC", line).split("\t")]
        if len(cells) != len(COLUMNS):
            raise UserError(
                f"{len(cells)} columns instead of 3" if line.strip() else "the line is blank",
                file=path,
                line=number,
                hint=f"write {', '.join(layout.columns)}, with one tab between two columns",
            )
        named = dict(zip(layout.columns, cells, strict=True))
        for name in ("lemma", "form"):
            if not named[name]:
                raise UserError(
                    f"the {name} is empty",
                    file=path,
                    line=number,
                    hint="complete the line or delete it",
                )
        features = (feature.strip() for feature in named["features"].split(layout.separator))
        rows.append(Row(named["lemma"], ",".join(filter(None, features)), named["form"]))
    return rows


def prepare(files: Files, layout: Format, out: Path) -> dict[str, Any]:
    """Checks the text of each split and writes a prepared folder; see `pam.data.tasks.Stage`."""
    splits = {name: read_rows(_one_file(name, own), layout) for name, own in files.items()}
    symbols = Codec()
    sources = {
        name: [symbols.source_symbols(row[:2]) for row in rows] for name, rows in splits.items()
    }
    targets = {
        name: [symbols.target_symbols(row.form) for row in rows] for name, rows in splits.items()
    }
    source, target = Vocabulary.of(sources["train"]), Vocabulary.of(targets["train"])
    aligner = Aligner.fit([(row.lemma, row.form) for row in splits["train"]])
    source.save(out / "source.vocab")
    target.save(out / "target.vocab")
    counts: dict[str, Any] = {}
    for name, rows in splits.items():
        text = out / f"{name}.tsv"
        write_text(text, "".join("\t".join(row) + "\n" for row in rows))
        Split.from_rows(
            map(source.encode, sources[name]),
            map(target.encode, targets[name]),
            _alignments(aligner, rows, sources[name]) if name in ALIGNED else None,
            {"source": source.digest, "target": target.digest, "text": sha256_of(text)},
        ).save(out, name)
        counts[name] = _counts(rows) | {
            "unseen_source": _unseen(sources[name], source),
            "unseen_target": _unseen(targets[name], target),
        }
    shared = _shared_lemmas(splits)
    return {
        "source_symbols": len(source),
        "target_symbols": len(target),
        "splits": counts,
        "lemmas_in_two_splits": shared,
        "warnings": [
            f"{names} share lemmas: {found['count']}, for example "
            f"{', '.join(found['examples'])}; scores on them are too good"
            for names, found in shared.items()
        ],
    }


def _one_file(split: str, own: Path | Mapping[str, Path]) -> Path:
    if not isinstance(own, Path):
        raise UserError(f"split {split} has several files", hint="name one file of three columns")
    return own


def _alignments(
    aligner: Aligner, rows: Sequence[Row], sources: Sequence[list[str]]
) -> Iterable[list[int]]:
    """Positions in the source row, where the lemma stands behind the features."""
    aligned = aligner.align([(row.lemma, row.form) for row in rows])
    for row, symbols, positions in zip(rows, sources, aligned, strict=True):
        offset = len(symbols) - len(row.lemma)
        yield [offset + position for position in positions]


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    forms_of = Counter((row.lemma, row.features) for row in set(rows))
    return {
        "rows": len(rows),
        "lemmas": len({row.lemma for row in rows}),
        "duplicate_rows": len(rows) - len(set(rows)),
        "cells_with_several_forms": sum(count > 1 for count in forms_of.values()),
    }


def _unseen(rows: Iterable[Sequence[str]], vocabulary: Vocabulary) -> dict[str, int]:
    """How often each symbol that training did not contain occurs."""
    unseen = Counter(symbol for row in rows for symbol in row if symbol not in vocabulary)
    return dict(sorted(unseen.items()))


def _shared_lemmas(splits: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, Any]]:
    """For each two splits that share lemmas, how many and the first few."""
    lemmas = {name: {row.lemma for row in rows} for name, rows in splits.items()}
    shared = {
        f"{one} and {other}": sorted(lemmas[one] & lemmas[other])
        for one, other in combinations(lemmas, 2)
    }
    return {
        names: {"count": len(found), "examples": found[:5]}
        for names, found in shared.items()
        if found
    }


STAGES: dict[str, Stage] = {"index": prepare}
