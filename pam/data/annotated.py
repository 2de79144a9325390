"""Readers of annotated texts: words with lemmas (CoNLL-U), sentences with corrections (M2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pam.data.reading import DividingReader
from pam.data.sampling import Languages, Pair
from pam.data.text_files import Line, lines_of
from pam.runtime.errors import UserError, unknown

# the columns of CoNLL-U, in their order
FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
FORM = FIELDS.index("form")
LEMMA = FIELDS.index("lemma")
MISSING = "_"


def words_of(lines: Iterable[Line], columns: Sequence[int]) -> Iterator[tuple[Line, list[str]]]:
    """Yield the lines of words with their columns, without comments and without empty nodes.

    A word that is written together with others, such as `im`, comes as its parts. Where `columns`
    has that of lemmas, words without one are left out.
    """
    for line in lines:
        if not line.text.strip() or line.text.startswith("#"):
            continue

        cells = line.text.split("\t")
        if len(cells) != len(FIELDS):
            hint = "write ten columns with one tab between two, or delete the line"
            raise line.error(f"{len(cells)} columns instead of {len(FIELDS)}", hint)
        lacks_lemma = LEMMA in columns and cells[LEMMA] == MISSING != cells[FORM]
        if cells[0].isdigit() and not lacks_lemma:
            yield line, cells


def different_words(lines: Iterable[Line], columns: Sequence[int]) -> Iterator[Line]:
    """Yield the lines of words, but none that has the same text in `columns` as one before."""
    seen = set()
    for line, cells in words_of(lines, columns):
        texts = tuple(cells[column] for column in columns)
        if texts not in seen:
            seen.add(texts)
            yield line


class Conllu(DividingReader):
    """Words of CoNLL-U; source and target are two of its columns, such as `form` and `lemma`."""

    kind: Literal["conllu"] = "conllu"
    repeated: Literal["drop", "keep"] = Field(
        "drop", description="`drop` reads each pair of words of a file once, `keep` each time"
    )

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        for language in languages:
            if language not in FIELDS:
                raise unknown("column of CoNLL-U", language, list(FIELDS))
        if not isinstance(files, Path):
            raise UserError(f"split {split} has several files", hint="name one with all words")

        columns = [FIELDS.index(language) for language in languages]
        lines = lines_of(files)
        if self.repeated == "drop":
            lines = different_words(lines, columns)
        for line, cells in words_of(lines, columns):
            source, target = (line._replace(text=cells[column]) for column in columns)
            yield source, target


class M2(DividingReader):
    """Sentences with corrections of their errors; further annotators give further references."""

    kind: Literal["m2"] = "m2"

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        if not isinstance(files, Path):
            raise UserError(f"split {split} has several files", hint="name one M2 file")

        sentence: Line | None = None
        edits: list[Line] = []
        for line in lines_of(files):
            if line.text.startswith("A "):
                edits.append(line)
            elif line.text.startswith("S "):
                if sentence is not None:
                    yield _corrected(sentence, edits)
                sentence = line
                edits = []
            elif line.text.strip():
                hint = "a line begins with `S ` (a sentence) or `A ` (a correction)"
                raise line.error("this is not M2", hint)

        if sentence is None:
            raise UserError("no sentences", file=files, hint="write them as `S ...`")
        yield _corrected(sentence, edits)


def _corrected(sentence: Line, edits: list[Line]) -> Pair:
    """Return a sentence, and what each annotator makes of it."""
    words = sentence.text.split(" ")[1:]
    by_annotator: dict[str, list[tuple[int, int, str]]] = {}
    for line in edits:
        match = re.fullmatch(
            r"A (-?\d+) (-?\d+)\|\|\|([^|]*)\|\|\|(.*?)\|\|\|.*\|\|\|(\d+)", line.text.rstrip()
        )
        if match is None:
            hint = "write `A 1 2|||TYPE|||correction|||REQUIRED|||-NONE-|||0`"
            raise line.error("this is not a correction of M2", hint)

        begin, end, kind, correction, annotator = match.groups()
        changes = by_annotator.setdefault(annotator, [])
        if kind != "noop":
            # Of alternatives the first is taken.
            changes.append((int(begin), int(end), correction.split("||")[0]))

    texts = []
    for changes in by_annotator.values() or [[]]:
        corrected = list(words)
        # From the end, so that the places of earlier words stay.
        for begin, end, correction in sorted(changes, reverse=True):
            corrected[begin:end] = [] if correction == "-NONE-" else correction.split()
        texts.append(" ".join(corrected))

    first, *more = texts
    source = sentence._replace(text=" ".join(words))
    return source, sentence._replace(text=first, more=tuple(more))
