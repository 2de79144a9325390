"""The one kind of failure that a user can mend, and how it is worded."""

from __future__ import annotations

from pathlib import Path


class UserError(Exception):
    """Something in the user's hands is wrong: an input, an option, a disk that is full.

    The command line prints it as one message and ends with exit code 2; nothing is left half
    written.

    Args:
        message: what is wrong, one sentence without a full stop.
        file: the file at fault, where there is one.
        line: its line, counted from 1.
        remedy: what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        remedy = f"\n  remedy: {self.remedy}" if self.remedy else ""
        return f"{place}{self.message}{remedy}"
