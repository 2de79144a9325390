"""Files that are found, read, and written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import glob
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pam.runtime.errors import UserError, storage_error

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

PACKAGE = Path(__file__).parents[1]
# The folder with the workflow, its configurations and profiles: that of a checkout, or the one that
# is installed with the package.
SHIPPED = PACKAGE.parent
if (PACKAGE / "shipped").is_dir():
    SHIPPED = PACKAGE / "shipped"
# The standard streams, which may be files, and the folders of descriptors.
STANDARD = ("/dev/stdout", "/dev/stderr")
DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
PART = ".part"  # how the name of a file ends that is not whole yet
SCRATCH = "pam-unpacked-"  # how the names of temporary folders begin
NEW_S = 60.0  # age in seconds from which a temporary folder without a lock is a leftover
# The names of such files, as `mkstemp` makes them.
PARTS = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.part", re.DOTALL)


def find_file(path: Path | str, *folders: Path) -> Path:
    """Return a path in the first folder that has it, or as it is if none has.

    The folder of work is looked at first, then `folders`, and last the workflow's own.
    """
    for candidate in (Path(path), *(folder / path for folder in (*folders, SHIPPED))):
        if is_there(candidate):
            return candidate
    return Path(path)


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists; none does of a name that no file can have."""
    try:
        return path.exists()
    except OSError:  # longer than the file system allows, or below a folder that may not be read
        return False


def are_one(path: Path, other: Path) -> bool:
    """Return whether two paths name one file, which may not be there yet; no device or pipe is."""
    if _is_stream(path) or _is_stream(other):
        return False
    return path.resolve() == other.resolve()


def from_here(path: Path | str) -> Path:
    """Return a path as messages name it: from the folder of work, if it is in there."""
    if Path(path).is_relative_to(Path.cwd()):
        return Path(path).relative_to(Path.cwd())
    return Path(path)


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`, whose file takes its place, or is removed on failure.

    It is flushed first, so that a crash leaves the old file or the new one. A symbolic link stays
    one. A device or a pipe gets the content once it is whole. A UserError is as `storage_error`
    words it.
    """
    path = Path(path)
    try:
        if _is_stream(path):
            with scratch_folder() as folder:
                temporary = folder / "content"
                temporary.touch()
                yield temporary
                with open(temporary, "rb") as content, open(path, "ab") as stream:
                    shutil.copyfileobj(content, stream)
            return

        check_place(path)
        place = path.resolve() if path.is_symlink() else path
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(place.parent, place.name)
        with part_of(place) as temporary:
            yield temporary
            _flush(temporary)

            # mkstemp makes files private; others may read results as any other file.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(place)
    except OSError as error:
        raise storage_error(error, path) from error


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device or a pipe, or the standard output whatever that is."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    is_kept = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return not is_kept or str(path) in STANDARD or str(path.parent) in DESCRIPTORS


def check_place(path: Path) -> None:
    """Check that a file can be written at a path, before much is computed.

    A UserError is as `storage_error` words it.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        if _is_stream(path):
            return
        parent = next(parent for parent in path.absolute().parents if is_there(parent))
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        raise storage_error(error, path) from error


# A file that is not whole yet is hidden, and locked by the process that writes it. The kernel gives
# the lock back when that process ends, however it ends, so a lock that is free says that the file
# is a leftover. Locks hold between hosts where the file system has them. Where it has none,
# leftovers stay; nothing reads them there either.


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Yield the path of a new empty file beside `path`, and remove it if it is still there."""
    temporary, descriptor = _locked_part(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _locked_part(path: Path) -> tuple[Path, int]:
    """Make a file beside `path` and lock it; return its path and the locked descriptor."""
    while True:
        descriptor, name = tempfile.mkstemp(PART, f".{path.name}.", path.parent)
        # Until it is locked, another process may take it for a leftover and remove it.
        if _has_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return Path(name), descriptor
        os.close(descriptor)


def _has_lock(descriptor: int) -> bool:
    """Lock an open file; False if another process has the lock, True where locks are missing."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True

    return True


def remove_leftovers(folder: Path | str, name: str | None = None) -> None:
    """Remove what killed processes left half written, of one file of a folder or of all below it.

    What a living process writes stays, whatever its host, and so does what this process may not
    remove.
    """
    for parent, folders, files in os.walk(folder):
        if name is not None:
            folders.clear()
        for file in files:
            match = PARTS.fullmatch(file)
            if match is not None and name in (None, match["name"]):
                _remove_if_left(Path(parent, file))


def _remove_if_left(part: Path) -> None:
    """Remove a file that is not whole if no process has its lock."""
    try:
        # Network file systems lock only what is opened for writing.
        descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return  # its process has just removed it, or it is another user's

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink(missing_ok=True)
    except OSError:
        return  # it is locked, there are no locks here, or the folder may not be written to
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed at the end.

    Those that killed processes left are removed first.
    """
    for leftover in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with suppress(OSError):
            _remove_folder_if_left(leftover)

    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _has_lock(descriptor)
            yield Path(folder)
        finally:
            os.close(descriptor)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which takes its place once it is whole.

    An error removes it. What killed processes left is removed first. `path` itself must not exist,
    or be an empty folder.

    Raises:
        UserError: the folder cannot be written; see `storage_error`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
            match = PARTS.fullmatch(left.name)
            if match is not None and match["name"] == path.name:
                with suppress(OSError):
                    _remove_folder_if_left(left, new_s=0.0)

        temporary, descriptor = _locked_folder(path)
        try:
            yield temporary
            for file in whole_files(temporary, below=True):
                _flush(file)
            # mkdtemp makes folders private; others may read results as any other folder.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o777 & ~mask)
            temporary.replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            os.close(descriptor)
    except OSError as error:
        raise storage_error(error, path) from error


def _locked_folder(path: Path) -> tuple[Path, int]:
    """Make a folder beside `path` and lock it; return its path and the locked descriptor."""
    while True:
        name = tempfile.mkdtemp(PART, f".{path.name}.", path.parent)
        # Until it is locked, another process may take it for a leftover and remove it.
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if _has_lock(descriptor) and os.path.isdir(name):
            return Path(name), descriptor
        os.close(descriptor)


def _remove_folder_if_left(folder: Path, new_s: float | None = None) -> None:
    """Remove a temporary folder of this user if no process has its lock.

    One that is younger than `new_s` seconds may not be locked yet, and stays; None: `NEW_S`.
    """
    youngest = NEW_S if new_s is None else new_s
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        age_s = time.time() - os.fstat(descriptor).st_ctime
        if os.fstat(descriptor).st_uid == os.geteuid() and age_s >= youngest:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)


def whole_files(folder: Path, below: bool = False) -> list[Path]:
    """Return the files of a folder by name, with `below` those of its folders too.

    Hidden ones are left out: they are never results.
    """
    paths = sorted(folder.rglob("*") if below else folder.glob("*"))
    return [path for path in paths if path.is_file() and not _is_hidden(path.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def check_writable(folder: Path | str) -> None:
    """Check that a folder, and all below it, may be written to, where they exist.

    It is called before much is computed. A UserError names one that may not.
    """
    for parent, _, _ in os.walk(folder):
        if not os.access(parent, os.W_OK | os.X_OK):
            raise storage_error(PermissionError(errno.EACCES, ""), parent)


def _flush(path: Path) -> None:
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def write_text(path: Path | str, text: str) -> None:
    """Write `text` as UTF-8 with LF line ends, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON with a stable order of keys as given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Read JSON, also packed (`.gz`); a UserError if the file is missing or is not JSON."""
    try:
        content = Path(path).read_bytes()
        if Path(path).suffix == ".gz":
            content = gzip.decompress(content)
        return json.loads(content.decode("utf-8"))
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise UserError(
            "this is not valid JSON",
            file=path,
            line=getattr(error, "lineno", None),
            hint="delete it and make it again",
        ) from error


def sha256_of(path: Path | str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
