"""Morphological inflection: predictions read, checked and counted per lemma."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pam.errors import UserError
from pam.scoring.units import Units

REQUIRED = ("lemma", "features", "form", "predicted")
COLUMNS = ("correct", "forms", "whole", "paradigms")
METRICS = ("accuracy", "paradigm_accuracy")


class Prediction(NamedTuple):
    """One test row and what a model made of it."""

    lemma: str
    features: str
    form: str
    predicted: str


def read_predictions(path: Path | str) -> list[Prediction]:
    """Reads a tab-separated file whose first line names its columns.

    Columns beyond `REQUIRED` are allowed and ignored; an empty prediction is a wrong one.

    Raises:
        UserError: missing or empty file, missing column, a line with too few or too many columns,
            an empty lemma or form, text that is not UTF-8; names file and line.
    """
    lines = _lines(path)
    _, header = next(lines, (1, ""))
    names = header.split("\t")
    for column in REQUIRED:
        if column not in names:
            raise UserError(
                f"missing column `{column}`",
                file=path,
                line=1,
                remedy=f"the first line names the columns: {', '.join(REQUIRED)}, tab separated",
            )
    places = [names.index(column) for column in REQUIRED]
    rows = []
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(names):
            raise UserError(
                f"expected {len(names)} columns, found {len(cells)}",
                file=path,
                line=number,
                remedy="delete the file and predict again",
            )
        row = Prediction(*(cells[place] for place in places))
        if not row.lemma or not row.form:
            raise UserError(
                "empty lemma or form",
                file=path,
                line=number,
                remedy="every row names a lemma and the form to be predicted",
            )
        rows.append(row)
    if not rows:
        raise UserError("no predictions", file=path, remedy="delete the file and predict again")
    return rows


def check_against_split(rows: list[Prediction], path: Path | str, split: Path | str) -> None:
    """Checks that predictions read from `path` belong to a prepared split, row by row.

    Args:
        split: checked text without a header, lemma, features and form.

    Raises:
        UserError: another row or another number of rows; names the first line that differs.
    """
    expected = [tuple(line.split("\t")) for _, line in _lines(split)]
    for index, (row, wanted) in enumerate(zip(rows, expected, strict=False)):
        if row[:3] != wanted:
            raise UserError(
                f"this row is not line {index + 1} of {split}: {' '.join(wanted)}",
                file=path,
                line=index + 2,
                remedy="predict again on this data set",
            )
    if len(rows) != len(expected):
        raise UserError(
            f"{len(rows)} predictions for {len(expected)} rows of {split}",
            file=path,
            line=min(len(rows), len(expected)) + 2,
            remedy="predict again on this data set",
        )


def count(rows: list[Prediction]) -> Units:
    """Counts per lemma: forms right, forms, whether all are right, and 1.

    Strings are compared in Unicode NFC: a vowel and its umlaut written as two code points are the
    letter that they show. Lemmas keep the order in which they first appear.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        entry = counts.setdefault(row.lemma, [0, 0])
        entry[0] += _composed(row.predicted) == _composed(row.form)
        entry[1] += 1
    table = [[right, forms, int(right == forms), 1] for right, forms in counts.values()]
    references = "".join(f"{row.lemma}\t{row.features}\t{row.form}\n" for row in rows)
    return Units(
        names=tuple(counts),
        columns=COLUMNS,
        counts=np.array(table, dtype=np.float64),
        references=hashlib.sha256(references.encode()).hexdigest(),
    )


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without line ends; blank lines at the end do not count."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, remedy="make it first") from error
    if not data.strip():
        raise UserError("empty file", file=path, remedy="delete the file and make it again")
    for number, line in enumerate(data.rstrip(b"\r\n").split(b"\n"), start=1):
        try:
            yield number, line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                "this is not UTF-8 text", file=path, line=number, remedy="save it as UTF-8"
            ) from error
