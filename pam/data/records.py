"""Readers of records, of which two fields hold source and target: JSON, Parquet, Arrow, Excel."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from pam.data.dataset import SPLITS
from pam.data.forms import form_of_file
from pam.data.reading import GroupingReader
from pam.data.sampling import ALL, Languages, Pair
from pam.data.text_files import Line, cleaned, lines_of, refuse_half_characters
from pam.runtime.errors import UserError, unknown

Record = Mapping[str, Any]
LOOKED_AT = 1000  # lines within which an array of JSON begins


class Records(GroupingReader):
    """Records, of which two fields hold source and target.

    The fields are the format's `source` and `target`. A list in place of a target has several
    references, of which the first is learned. A list of pieces of one text, such as its words, is
    named in `joined`. Fields may be one level deeper, as in `{"translation": {"de": ...}}`.
    """

    blank_hint = "write text under this key, in each of several references, or delete the row"

    joined: list[str] = Field(
        [], description="keys whose lists are one text in pieces, such as words or sentences"
    )
    only: dict[str, dict[str, str]] = Field(
        {},
        description=(
            "split to the records that it takes: key to a regular expression of its whole value"
        ),
    )

    @field_validator("only")
    @classmethod
    def _expressions(cls, only: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for split, keys in only.items():
            if split not in (*SPLITS, ALL):
                raise ValueError(str(unknown("split", split, [*SPLITS, ALL])))
            for key, expression in keys.items():
                try:
                    re.compile(expression)
                except re.error as error:
                    raise ValueError(
                        f"`{expression}` of `{key}` is no regular expression: {error}"
                    ) from error
        return only

    @abstractmethod
    def records(self, path: Path) -> Iterator[tuple[Line, Record]]:
        """Yield the records of a file with their places; a UserError says that it has none."""

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        if not isinstance(files, Path):
            raise UserError(f"split {split} has several files", hint="name one with all records")

        patterns = {
            key: re.compile(expression) for key, expression in self.only.get(split, {}).items()
        }
        source_key, target_key = languages
        for line, whole_record in self.records(files):
            record = with_keys(line, whole_record, (*languages, *patterns))
            if not all(pattern.fullmatch(str(record[key])) for key, pattern in patterns.items()):
                continue

            # Only a target may be a list, of references.
            source = self._text(line, source_key, record[source_key])
            if source.more:
                hint = (
                    f"write `read: {{kind: {self.kind}, joined: [{source_key}]}}` if it is one text"
                    " in pieces"
                )
                raise line.error(f"`{source_key}` is a list, and a source is one text", hint)
            source = source._replace(group=self._group(line, record))
            yield source, self._text(line, target_key, record[target_key])

    def _group(self, line: Line, record: Record) -> str:
        """Return the name of the group of a record; empty: it has none."""
        if self.scores_by is None:
            return ""

        name = record.get(self.scores_by, "")
        if name is None:
            return ""
        if isinstance(name, (list, dict)):
            raise line.error(f"`{self.scores_by}` is not text", "write the name of one group")
        return str(name)

    def _text(self, line: Line, key: str, value: Any) -> Line:
        """Return the text, or the several texts, of a key; a UserError says that it is none."""
        texts = value if isinstance(value, list) else [value]
        if key in self.joined and isinstance(value, list):
            is_nested = bool(value) and all(isinstance(pieces, list) for pieces in value)
            lists = value if is_nested else [value]
            texts = [self._joined(line, key, pieces) for pieces in lists]

        if not all(isinstance(text, str) for text in texts):
            hint = "write a string there, in quotes, or a list of strings"
            raise line.error(f"`{key}` is not text", hint)

        # None of several references may be empty, as nothing can be compared with it.
        if not texts or not all(cleaned(text) for text in texts):
            texts = [""]
        first, *more = texts
        return line._replace(text=first, more=tuple(more))

    @staticmethod
    def _joined(line: Line, key: str, pieces: list[Any]) -> str:
        if not all(isinstance(piece, str) for piece in pieces):
            raise line.error(
                f"`{key}` is not a list of pieces of text", "write a list of strings there"
            )
        return " ".join(pieces)


def with_keys(line: Line, record: Record, keys: Sequence[str]) -> Record:
    """Return a record with its nested fields; a UserError names a key that it does not have."""
    fields = flat(record)
    for key in keys:
        if key not in fields:
            listed = ", ".join(f"`{name}`" for name in fields) or "none"
            raise line.error(
                f"no key `{key}`", f"keys of this line: {listed}; correct `format` in the registry"
            )
    return fields


def flat(record: Record) -> Record:
    """Return the fields of a record, those of its records included."""
    fields: dict[str, Any] = {}
    for value in record.values():
        if isinstance(value, dict):
            fields |= value
    return fields | dict(record)


class JsonLines(Records):
    """JSON: an object a line, or one array of objects."""

    kind: Literal["jsonl"] = "jsonl"

    def records(self, path: Path) -> Iterator[tuple[Line, Record]]:
        return json_records(path)


def json_records(path: Path) -> Iterator[tuple[Line, Record]]:
    """Yield the objects of a file with their places: one a line, or those of an array."""
    lines = lines_of(path)
    head = list(islice(lines, LOOKED_AT))
    lines = chain(head, lines)
    first = next((line for line in head if line.text.strip()), None)
    is_array = first is not None and first.text.lstrip().startswith("[")

    values = _array(lines, path) if is_array else ((line, _json(line)) for line in lines)
    for line, value in values:
        if not isinstance(value, dict):
            raise line.error("this is not an object", 'write {"key": "text", ...} on each line')
        yield line, value


def _json(line: Line) -> Any:
    """Parse a line of JSON."""
    refuse_half_characters(line)
    try:
        return json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise line.error(
            f"this is not JSON: {error}", "write one object a line, or delete the line"
        ) from error


def _array(lines: Iterator[Line], path: Path) -> Iterator[tuple[Line, Any]]:
    """Yield the values of an array with the lines at which they begin."""
    text = "\n".join(line.text for line in lines)
    decoder = json.JSONDecoder()
    between = re.compile(r"[\s,]*")
    position = between.match(text).end()  # type: ignore[union-attr]
    position += 1
    number = 1
    counted = 0

    while True:
        position = between.match(text, position).end()  # type: ignore[union-attr]
        number += text.count("\n", counted, position)
        counted = position
        line = Line("", path, number)
        if text.startswith("]", position):
            rest = text[position + 1 :].lstrip()
            if rest:
                line = Line("", path, number + text.count("\n", position, len(text) - len(rest)))
                hint = "write one array, or one object a line"
                raise line.error("text after the end of the array", hint)
            return

        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            hint = "complete the array, or write one object a line"
            raise line.error(f"this is not JSON: {error}", hint) from error

        refuse_half_characters(line._replace(text=text[position:end]))
        position = end
        yield line, value


class Table(Records):
    """A table of named columns: Parquet, Arrow or an Excel workbook, told by its content."""

    kind: Literal["table"] = "table"

    def records(self, path: Path) -> Iterator[tuple[Line, Record]]:
        return table_records(path)


def table_records(path: Path) -> Iterator[tuple[Line, Record]]:
    """Yield the rows of a table by the names of its columns, numbered as Excel does, from 2."""
    form = form_of_file(path)
    if form is None or form.read_table is None:
        hint = "write `read: columns` for TSV and CSV, or `read: jsonl` for JSON"
        raise UserError("this is no Parquet, Arrow or Excel file", file=path, hint=hint)
    if find_spec(form.package) is None:
        hint = f"pip install {form.package}"
        raise UserError(f"{form.name} needs the package {form.package}", file=path, hint=hint)

    try:
        frame = form.read_table(path)
    except (ValueError, OSError, KeyError) as error:
        hint = "write the file again, or fetch it again"
        raise UserError(
            f"{form.name} that cannot be read: {error}", file=path, hint=hint
        ) from error

    names = [str(name) for name in frame.columns]
    for number, values in enumerate(frame.itertuples(index=False, name=None), 2):
        yield Line("", path, number), dict(zip(names, map(_plain, values), strict=True))


def _plain(value: Any) -> Any:
    """Return a cell as JSON would have it: arrays are lists, and a missing value is empty text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if pd.isna(value):
        return ""
    return value
