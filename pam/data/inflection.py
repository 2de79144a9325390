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
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, field_validator

from pam.data import class_names
from pam.data.character_aligner import CharacterAligner
from pam.data.dataset import SPLITS, write_split
from pam.data.tasks import Stage, Task
from pam.data.text import read_lines
from pam.data.tokenizers import InflectionCodec
from pam.data.vocabulary import Vocabulary
from pam.io import Strict, UserError

ALIGNED = ("train", "dev")
"""Splits whose alignments are given: those that training may look at."""


class InflectionFormat(Strict):
    """How the columns of a data set's files are to be read."""

    columns: list[str] = Field(list(InflectionCodec.columns), description="order of the columns")
    separator: str = Field(",", min_length=1, description="separates two features")

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: list[str]) -> list[str]:
        if sorted(columns) != sorted(InflectionCodec.columns):
            raise ValueError(f"name each of {', '.join(InflectionCodec.columns)} once")
        return columns


class Row(NamedTuple):
    """One checked row; features are separated by commas."""

    lemma: str
    features: str
    form: str


class Index(Stage[InflectionFormat]):
    """The one stage: checks the text of each split and writes a prepared folder."""

    keys = tuple(InflectionFormat.model_fields)

    def run(self) -> dict[str, Any]:
        """Prepares; see `Stage.run`.

        Returns:
            sizes of the vocabularies; for each split its rows, and which of its symbols training
            lacks; lemmas that are in two splits.
        """
        rows = {name: self._rows(name, own) for name, own in self.files.items()}
        source, target = (Vocabulary.of(_sources(rows["train"])), Vocabulary.of(_targets(rows["train"])))
        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        aligner = CharacterAligner.fit([(row.lemma, row.form) for row in rows["train"]])
        counts = {}
        for name, own in rows.items():
            alignment = _alignments(aligner, own) if name in ALIGNED else None
            symbols = _sources(own), _targets(own)
            write_split(self.out, name, own, symbols, (source, target), alignment)
            counts[name] = _counts(own) | {
                "unseen_source": _unseen(_sources(own), source),
                "unseen_target": _unseen(_targets(own), target),
            }
        shared = _shared_lemmas(rows)
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

    def _rows(self, split: str, own: Path | Mapping[str, Path]) -> list[Row]:
        if not isinstance(own, Path):
            raise UserError(f"split {split} has several files", hint="name one file of three columns")
        return read_rows(own, self.layout)


class Inflection(Task[InflectionFormat]):
    """The kind of task; the only one whose characters are aligned, as pointer actions need it."""

    Format = InflectionFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {"index": Index}
    has_actions = True

    def splits(self, layout: InflectionFormat) -> tuple[str, ...]:
        """Train, dev and test."""
        return SPLITS

    def modules(self, stage: str, layout: InflectionFormat) -> list[str]:
        """The stage's class, or the codec's."""
        return class_names(InflectionCodec if stage == "codec" else self.STAGES[stage])


def read_rows(path: Path, layout: InflectionFormat) -> list[Row]:
    """Rows of a file of three tab-separated columns, in Unicode's composed form (NFC).

    Raises:
        UserError: empty, not UTF-8, a wrong number of columns, an empty lemma or form; names the line.
    """
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        cells = [cell.strip() for cell in unicodedata.normalize("NFC", line).split("\t")]
        if len(cells) != len(layout.columns):
            raise UserError(
                f"{len(cells)} columns instead of 3" if line.strip() else "the line is blank",
                file=path,
                line=number,
                hint=f"write {', '.join(layout.columns)}, with one tab between two columns",
            )
        named = dict(zip(layout.columns, cells, strict=True))
        for name in ("lemma", "form"):
            if not named[name]:
                raise UserError(f"the {name} is empty", file=path, line=number, hint="complete the line or delete it")
        features = (feature.strip() for feature in named["features"].split(layout.separator))
        rows.append(Row(named["lemma"], ",".join(filter(None, features)), named["form"]))
    return rows


def _sources(rows: Iterable[Row]) -> Iterable[list[str]]:
    codec = InflectionCodec()
    return (codec.source_symbols(row[:2]) for row in rows)


def _targets(rows: Iterable[Row]) -> Iterable[list[str]]:
    codec = InflectionCodec()
    return (codec.target_symbols(row.form) for row in rows)


def _alignments(aligner: CharacterAligner, rows: Sequence[Row]) -> Iterable[list[int]]:
    """Positions in the source row, where the lemma comes after the features."""
    aligned = aligner.align([(row.lemma, row.form) for row in rows])
    for row, symbols, positions in zip(rows, _sources(rows), aligned, strict=True):
        offset = len(symbols) - len(row.lemma)
        yield [offset + position for position in positions]


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
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
    shared = {f"{one} and {other}": sorted(lemmas[one] & lemmas[other]) for one, other in combinations(lemmas, 2)}
    return {names: {"count": len(found), "examples": found[:5]} for names, found in shared.items() if found}
