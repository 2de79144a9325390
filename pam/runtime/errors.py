"""Errors that a user can correct, told in one message with the place and what to do."""

from __future__ import annotations

import difflib
import errno
from pathlib import Path

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


class UserError(Exception):
    """Something in the user's hands is wrong, as an input, an option, a full disk.

    The command ends with exit code 2. `message` is one sentence without a full stop, `line` counts
    from 1, `hint` says what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.line = line
        self.hint = hint
        self.file = None if file is None else str(file)
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.message
        if self.file is not None and self.line is not None:
            text = f"{self.file}:{self.line}: {text}"
        elif self.file is not None:
            text = f"{self.file}: {text}"

        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


def unknown(noun: str, name: str, names: list[str], file: Path | str | None = None) -> UserError:
    """Return the error for a name that nothing has, with the closest one."""
    hint = f"known: {', '.join(names) or 'none'}"
    closest = difflib.get_close_matches(name, names, n=1)
    if closest:
        hint = f"did you mean `{closest[0]}`? {hint}"
    return UserError(f"unknown {noun} `{name}`", file=file, hint=hint)


def storage_error(error: OSError, path: Path | str) -> UserError | OSError:
    """Word a full disk, a missing permission, a wrong place; return other errors as they are."""
    for codes, message, hint in STORAGE_ERRORS:
        if error.errno in codes:
            return UserError(message, file=path, hint=hint)
    return error


STORAGE_ERRORS = (
    ((errno.ENOSPC, errno.EDQUOT), "the disk is full", "free some space and run again"),
    (
        (errno.EFBIG,),
        "the file would be larger than is allowed here",
        "raise the limit (`ulimit -f`), or choose a folder on another disk",
    ),
    (
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "no permission to write here",
        "choose a folder you may write to, or change its permissions",
    ),
    (
        (errno.ENAMETOOLONG,),
        "this name is longer than the file system allows",
        "choose a shorter one",
    ),
    ((errno.ENOTEMPTY,), "the folder is not empty", "name a new folder"),
    (
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
        "a file is where a folder is needed, or a folder where a file is",
        "choose another place, or move what is there",
    ),
)
