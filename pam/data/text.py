"""Lines of a text file that a person made, checked."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from pam.errors import UserError

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that show nothing and that other readers take for the end of a line or file."""


def read_lines(path: Path | str) -> list[str]:
    """Lines of a UTF-8 file without their ends (LF or CR LF); a byte order mark is dropped.

    Only line feeds end lines: characters such as U+2028 belong to the text.

    Raises:
        UserError: missing, empty, not UTF-8, or with control characters; names the line.
    """
    try:
        content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError("no such file", file=path, remedy="fetch the data set first") from error
    except PermissionError as error:
        raise UserError(
            "no permission to read this file", file=path, remedy="change its permissions"
        ) from error
    if not content.strip():
        raise UserError("the file is empty", file=path, remedy="fetch or write it again")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"this is not UTF-8 text: byte 0x{content[error.start]:02x}",
            file=path,
            line=content.count(b"\n", 0, error.start) + 1,
            remedy="save the file as UTF-8",
        ) from error
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    for number, line in enumerate(lines, 1):
        control = CONTROL.search(line)
        if control:
            raise UserError(
                f"control character U+{ord(control[0]):04X} in the text",
                file=path,
                line=number,
                remedy="delete it; a line ends with LF or CR LF",
            )
    return lines
