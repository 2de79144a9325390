"""One file that holds a sentence pair a line, in columns; it can be divided into the splits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from pam.data.divide import Divide, files_wanted, in_splits
from pam.data.readers import Pair
from pam.data.tasks import Files
from pam.data.text import lines_of
from pam.io import Strict, UserError


class Options(Strict):
    """Where the sentences stand."""

    columns: dict[str, int] = Field(
        description="language to its column, counted from 0, or from -1 backwards"
    )
    separator: str = Field("\t", min_length=1, description="what stands between two columns")
    divide: Divide | None = Field(
        None, description="null: each split has its own file; else all pairs stand in one"
    )


def splits(options: Options) -> tuple[str, ...]:
    """Train, dev and test, or all in one."""
    return files_wanted(options.divide)


def read(
    files: Files, languages: tuple[str, str], options: Options
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """Each split's pairs; see `Reader.read`."""
    for language in languages:
        if language not in options.columns:
            raise UserError(
                f"no column is known for the language `{language}`",
                hint=f"write read: {{kind: columns, columns: {{{language}: NUMBER, ...}}}}",
            )
    places = [options.columns[language] for language in languages]
    for split, path in files.items():
        if not isinstance(path, Path):
            raise UserError(f"split {split} has several files", hint="name one with columns")
        pairs = _pairs(path, places, options.separator)
        yield from in_splits(split, pairs, languages, options.divide)


def _pairs(path: Path, places: list[int], separator: str) -> Iterator[Pair]:
    for line in lines_of(path):
        cells = line.text.split(separator)
        if not all(-len(cells) <= place < len(cells) for place in places):
            raise line.fault(
                f"{len(cells)} columns are too few" if line.text.strip() else "the line is blank",
                "complete the line or delete it, or correct `read` in the registry",
            )
        source, target = (line._replace(text=cells[place]) for place in places)
        yield source, target
