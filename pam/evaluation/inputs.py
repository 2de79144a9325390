"""What is scored: predictions, an analysis and prepared data, read and checked; records as JSON.

`pam.evaluation.scores.KINDS` has a function from `EvalInputs` to `Counts` for each kind of task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pam.data.dataset import Prepared
from pam.evaluation.metrics import Units
from pam.io import Strict, UserError, parse, read_json, write_text

PREDICT_AGAIN = "delete the file and predict again"
Record = TypeVar("Record", bound=Strict)
Row = TypeVar("Row", bound=NamedTuple)


@dataclass(frozen=True)
class EvalInputs:
    """What is scored. What is used and not there is a UserError."""

    predictions: Sequence[Path] = ()  # the main beam's first
    beams: Sequence[int | None] = ()  # of each; None where it is not known
    analysis: Path | None = None  # `analysis.json` of teacher forcing, where there is one
    data: Path | None = (
        None  # the prepared folder that holds `split`; None: nothing is checked against it
    )
    split: str = "test"

    @property
    def by_beam(self) -> list[tuple[Path, int | None]]:
        if not self.predictions:
            raise UserError("no predictions to score", hint="name files with --predictions")
        return list(zip(self.predictions, self.beams, strict=True))

    @property
    def prepared(self) -> Prepared:
        if self.data is None:
            raise UserError(
                "these scores need the prepared data", hint="name its folder with --data"
            )
        return Prepared(self.data)


@dataclass(frozen=True)
class Counts:
    units: Units
    metrics: tuple[str, ...]  # names of metrics whose counts are there
    over: str  # the units in words, such as `sentences`
    # what else scores hold: signatures, counts of oddities
    details: dict[str, Any] = field(default_factory=dict)


def read_predictions(path: Path | str, required: Sequence[str]) -> list[tuple[str, ...]]:
    """The `required` columns, in that order, of a tab-separated file whose first line names its
    columns.

    A UserError names file and line: missing or empty file, missing column, a line with too few or
    too many columns, text that is not UTF-8.
    """
    lines = _lines(path)
    names = next(lines, (1, ""))[1].split("\t")
    for column in required:
        if column not in names:
            hint = f"the first line names the columns: {', '.join(required)}, tab separated"
            raise UserError(f"missing column `{column}`", file=path, line=1, hint=hint)
    places = [names.index(column) for column in required]
    rows = []
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(names):
            problem = f"expected {len(names)} columns, found {len(fields)}"
            raise UserError(problem, file=path, line=number, hint=PREDICT_AGAIN)
        rows.append(tuple(fields[place] for place in places))
    if not rows:
        raise UserError("no predictions", file=path, hint=PREDICT_AGAIN)
    return rows


def columns_of(path: Path | str) -> list[str]:
    """The names of the columns of predictions, from the file's first line; a UserError as
    `read_predictions`.
    """
    return next(_lines(path))[1].split("\t")


def read_checked(path: Path, inputs: EvalInputs, kind: type[Row]) -> list[Row]:
    """Reads predictions of the split, of which one may be empty; a UserError if they are faulty, or
    of others.
    """
    rows = [kind._make(row) for row in read_predictions(path, kind._fields)]
    check_against_split(rows, path, inputs.prepared.folder / f"{inputs.split}.tsv")
    return rows


def check_against_split(
    rows: Sequence[tuple[str, ...]], path: Path | str, split: Path | str
) -> None:
    """Checks that predictions read from `path` begin with the columns of a prepared split, a file
    without a header.

    A UserError names the first line that differs, or is missing.
    """
    expected = [tuple(line.split("\t")) for _, line in _lines(split)]
    hint = "predict again on this data set"
    for index, (row, reference) in enumerate(zip(rows, expected, strict=False)):
        if row[: len(reference)] != reference:
            # it may be an article
            problem = f"this row is not line {index + 1} of {split}: {' '.join(reference)[:80]}"
            raise UserError(problem, file=path, line=index + 2, hint=hint)
    if len(rows) != len(expected):
        problem = f"{len(rows)} predictions for {len(expected)} rows of {split}"
        raise UserError(problem, file=path, line=min(len(rows), len(expected)) + 2, hint=hint)


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without line ends; blank lines at the end do not count."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    if not data.strip():
        raise UserError("empty file", file=path, hint="delete the file and make it again")
    for number, line in enumerate(data.rstrip(b"\r\n").split(b"\n"), start=1):
        try:
            yield number, line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                "this is not UTF-8 text", file=path, line=number, hint="save it as UTF-8"
            ) from error


def load(kind: type[Record], path: Path | str) -> Record:
    """Reads JSON that an earlier step wrote, as `kind`; the hint of a UserError is to make it
    again.
    """
    content = read_json(path)
    try:
        return parse(kind, content, path)
    except UserError as error:
        raise UserError(
            error.message, file=path, line=error.line, hint="delete it and make it again"
        ) from error


def save(record: Strict, path: Path | str) -> None:
    """Write JSON, whole or not at all, for people to read too: a line for each entry."""
    text, sections = partial(json.dumps, ensure_ascii=False), []
    for key, value in record.model_dump().items():
        content = text(value)
        if isinstance(value, dict) and value:
            entries = [f"    {text(name)}: {text(entry)}" for name, entry in value.items()]
            content = "{\n" + ",\n".join(entries) + "\n  }"
        sections.append(f"  {text(key)}: {content}")
    write_text(path, "{\n" + ",\n".join(sections) + "\n}\n")
