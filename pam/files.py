"""Files that are either whole or not there: written aside, flushed, then renamed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pam.errors import UserError

PART = ".part"
"""How the name of a file ends that is not whole yet."""


@contextmanager
def write_aside(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path in the folder of `path`; on success it takes `path`'s place.

    The file is flushed to disk before the rename, so that a crash leaves the old file or the new
    one, never a part. On any failure the temporary file is removed.

    Raises:
        UserError: the disk is full, or the folder may not be written to.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(PART, f".{path.name}.", path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        _flush(temporary)
        # mkstemp makes files private; results are to be read by others as any file is.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def clear_parts(folder: Path) -> None:
    """Removes what processes that were killed while writing left half written in a folder.

    Whoever calls this holds a lock, as it spares nothing that somebody is writing.
    """
    for left in folder.rglob(f"*{PART}"):
        left.unlink()


def check_writable(folder: Path | str) -> None:
    """Checks a folder and all in it, before much is computed that could not be kept.

    Raises:
        UserError: it is there and may not be written to, or a folder in it may not.
    """
    for place, _, _ in os.walk(folder):
        if not os.access(place, os.W_OK | os.X_OK):
            raise storage_error(PermissionError(errno.EACCES, ""), place)


def storage_error(error: OSError, path: Path | str) -> UserError | OSError:
    """Words a full disk, a missing permission, a wrong place; other errors are left alone."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError("the disk is full", file=path, remedy="free some space and run again")
    if error.errno == errno.EFBIG:
        return UserError(
            "the file would be larger than is allowed here",
            file=path,
            remedy="raise the limit (`ulimit -f`), or choose a folder on another disk",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(
            "no permission to write here",
            file=path,
            remedy="choose a folder you may write to, or change its permissions",
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
        return UserError(
            "a file stands where a folder is needed, or a folder where a file is",
            file=path,
            remedy="choose another place, or move what is there",
        )
    return error


def _flush(path: Path) -> None:
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path | str, text: str) -> None:
    """Writes `text` as UTF-8 with LF line ends, whole or not at all."""
    with write_aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path | str, value: Any) -> None:
    """Writes `value` as indented JSON with a stable order of keys as given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Reads JSON; a file whose name ends in `.gz` is unpacked first.

    Raises:
        UserError: the file is missing or is not JSON.
    """
    try:
        content = Path(path).read_bytes()
        if Path(path).suffix == ".gz":
            content = gzip.decompress(content)
        return json.loads(content.decode("utf-8"))
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, remedy="make it first") from error
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        line = getattr(error, "lineno", None)
        raise UserError(
            "this is not valid JSON", file=path, line=line, remedy="delete it and make it again"
        ) from error


def sha256_of(path: Path | str) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
