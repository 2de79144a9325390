"""Text files: lines with their places, checked as they are read, and aligned pairs of files."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple, get_args

from pam.io import UserError, atomic_write

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that show nothing and that other readers take for the end of a line or file."""

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)

Files = Mapping[str, Path | Mapping[str, Path]]
"""Split name to its file, or to its files by what they hold, such as a language."""


class Line(NamedTuple):
    """A line and its place."""

    text: str
    file: Path
    number: int

    def error(self, message: str, hint: str) -> UserError:
        """An error at this line."""
        return UserError(message, file=self.file, line=self.number, hint=hint)


Pair = tuple[Line, Line]
"""A sentence and its translation."""


def read_lines(path: Path | str) -> list[str]:
    """Lines of a UTF-8 file without their ends, as `lines_of`.

    Raises:
        UserError: as `lines_of`, or a line has control characters; names the line.
    """
    lines = []
    for line in lines_of(Path(path)):
        control = CONTROL.search(line.text)
        if control:
            raise line.error(
                f"control character U+{ord(control[0]):04X} in the text", "delete it; a line ends with LF or CR LF"
            )
        lines.append(line.text)
    return lines


def lines_of(path: Path) -> Iterator[Line]:
    """Lines of a UTF-8 file, or of one that gzip compressed (`.gz`), read one after another.

    Ends of lines (LF or CR LF) and a byte order mark are dropped. Only line feeds end lines:
    characters such as U+2028 belong to the text.

    Raises:
        UserError: missing, empty, damaged, or not UTF-8; names the line.
    """
    empty = True
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                content = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                empty = empty and not content.strip()
                yield Line(_decoded(content, path, number), path, number)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError("no such file", file=path, hint="fetch the data set first") from error
    except PermissionError as error:
        raise UserError("no permission to read this file", file=path, hint="change its permissions") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            "the compressed file is damaged or cut short", file=path, hint="delete it and fetch the data set again"
        ) from error
    if empty:
        raise UserError("the file is empty", file=path, hint="fetch or write it again")


def _decoded(content: bytes, path: Path, number: int) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"this is not UTF-8 text: byte 0x{content[error.start]:02x}",
            file=path,
            line=number,
            hint="save the file as UTF-8",
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


class PairWriter:
    """Writes pairs of lines, none of them empty, into two files."""

    def __init__(self, files: tuple[IO[str], IO[str]]) -> None:
        self._files = files
        self.count = 0

    def write(self, source: str, target: str) -> None:
        """Adds a pair."""
        for file, text in zip(self._files, (source, target), strict=True):
            if not text or "\n" in text:
                raise ValueError(f"not a line of text: {text!r}")
            file.write(f"{text}\n")
        self.count += 1


@contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """A UTF-8 file with LF line ends to write to; it is whole, or as it was."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def pair_writer(folder: Path, split: str) -> Iterator[PairWriter]:
    """Writes `<folder>/<split>.{source,target}`; the files are whole, or as they were.

    Raises:
        UserError: nothing was written, or the disk is full.
    """
    with ExitStack() as stack:
        source, target = (stack.enter_context(text_file(folder / f"{split}.{side}")) for side in SIDES)
        writer = PairWriter((source, target))
        yield writer
        if writer.count == 0:
            raise UserError(f"no sentence pairs are left for {split}", hint="give more data")


def read_pairs(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a split that `pair_writer` wrote."""
    source, target = (lines_of(folder / f"{split}.{side}") for side in SIDES)
    for line, other in zip(source, target, strict=True):
        yield line.text, other.text
