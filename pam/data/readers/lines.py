"""A file for each language, in which line n of one translates line n of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from pydantic import Field

from pam.data.divide import Divide, files_wanted, in_splits
from pam.data.readers import Pair
from pam.data.tasks import Files
from pam.data.text import Line, lines_of
from pam.io import Strict, UserError


class Options(Strict):
    """Whether the text is divided into splits here."""

    divide: Divide | None = Field(
        None, description="null: each split has its own files; else all pairs stand in one"
    )


def splits(options: Options) -> tuple[str, ...]:
    """Train, dev and test, or all in one."""
    return files_wanted(options.divide)


def read(
    files: Files, languages: tuple[str, str], options: Options
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """Each split's pairs; see `Reader.read`."""
    for split, source, target in known_files(files, languages):
        yield from in_splits(split, aligned(source, target), languages, options.divide)


def known_files(files: Files, languages: tuple[str, str]) -> Iterator[tuple[str, Path, Path]]:
    """Each split with its two files.

    Raises:
        UserError: a language has none.
    """
    for split, own in files.items():
        known = {} if isinstance(own, Path) else own
        for language in languages:
            if language not in known:
                raise UserError(
                    f"split {split} has no file for the language `{language}`",
                    hint=f"name it in the registry: {split}: {{{language}: FILE, ...}}",
                )
        yield split, known[languages[0]], known[languages[1]]


def aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Lines of two files side by side.

    Raises:
        UserError: one has more lines; names both counts.
    """
    return side_by_side(lines_of(source), lines_of(target), (source, target))


def side_by_side(
    lines: Iterator[Line], others: Iterator[Line], files: tuple[Path, Path]
) -> Iterator[Pair]:
    """Lines of two `files` in pairs.

    Raises:
        UserError: one has more; names both counts.
    """
    for number, (line, other) in enumerate(zip_longest(lines, others), 1):
        if line is None or other is None:
            # The longer one is read to its end, for its count.
            count = number + sum(1 for _ in (others if line is None else lines))
            counts = (number - 1, count) if line is None else (count, number - 1)
            raise UserError(
                f"{counts[0]} lines, but {files[1]} has {counts[1]}",
                file=files[0],
                hint="line n of one file must translate line n of the other",
            )
        yield line, other
