"""Lines of a text file that a person made, checked."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pam.io import UserError

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that show nothing and that other readers take for the end of a line or file."""


class Line(NamedTuple):
    """A line and where it stands."""

    text: str
    file: Path
    number: int

    def fault(self, message: str, hint: str) -> UserError:
        """An error at this line."""
        return UserError(message, file=self.file, line=self.number, hint=hint)


def read_lines(path: Path | str) -> list[str]:
    """Lines of a UTF-8 file without their ends, as `lines_of`.

    Raises:
        UserError: as `lines_of`, or a line has control characters; names the line.
    """
    lines = []
    for line in lines_of(Path(path)):
        control = CONTROL.search(line.text)
        if control:
            raise line.fault(
                f"control character U+{ord(control[0]):04X} in the text",
                "delete it; a line ends with LF or CR LF",
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
        raise UserError(
            "no permission to read this file", file=path, hint="change its permissions"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            "the compressed file is damaged or cut short",
            file=path,
            hint="delete it and fetch the data set again",
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
