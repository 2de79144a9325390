"""Texts for people: numbers of things, short texts, aligned rows, and streams of UTF-8."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


def write_utf8() -> None:
    """Let this process write and read UTF-8 in its streams, whatever the language settings say."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What is no character, as in some file names, is shown by its number.
            errors = None if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding="utf-8", errors=errors)


def counted(number: int, noun: str) -> str:
    """Write a number of things, such as `1 task` or `2 tasks`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def shortened(text: str, width: int = 60) -> str:
    """Return the beginning of a text that is longer than `width` letters."""
    if len(text) > width:
        return f"{text[: width - 3]}..."
    return text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())

    return lines
