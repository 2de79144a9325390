"""Archives (tar, also compressed, and zip), which are not trusted.

Nothing is written outside a folder, links are not followed, and bombs are refused.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast

from pam.runtime.errors import UserError, storage_error

LARGEST = 8 * 2**30  # bytes of all files of an archive together
MAX_FILES = 100_000
NAME_MAX = 255  # bytes of a file's name
MAX_HEADER = 2**20  # bytes of the longest header of a tar's member, which tarfile reads whole
PADDING = 2**20  # bytes that may follow the last member
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    # Raised by the content of headers: numbers, text, flags that nobody knows, headers of headers.
    ValueError,
    LookupError,
    OverflowError,
    struct.error,
    NotImplementedError,
    RuntimeError,
)

# the first bytes of a file, and what opens it
MARKS: dict[bytes, Callable[[Path], Any]] = {
    b"PK": zipfile.ZipFile,
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"": FileIO,
}


class BoundedReads:
    """A file that is read little by little, so that no size in a header can fill the memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes; a ReadError if no real archive needs so many."""
        if not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


@dataclass(frozen=True)
class Member:
    """A file in an archive: its name, its size, and a function that opens it."""

    name: PurePosixPath
    size: int
    open: Callable[[], IO[bytes]]


def extract_all(
    archive: Path, folder: Path, largest: int = LARGEST, names: Collection[str] = ()
) -> None:
    """Write all files of an archive into a folder, once every one of them has been checked.

    With `names`, only files that are called so are written.

    A UserError says if it is damaged, cut short or too large, or has a member that is not a plain
    file or lies outside the folder; nothing is written then, unless damage shows while reading.
    """
    with _opened(archive, largest) as members:
        for member in members:
            if names and member.name.name not in names:
                continue
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(member, target)


class Writable(Protocol):
    def write(self, chunk: bytes, /) -> int: ...


def pack(folder: Path, target: Writable) -> None:
    """Write all files of a folder as a tar archive, the same bytes wherever it is packed.

    A UserError names a link, which is not followed.
    """
    with tarfile.open(fileobj=cast(IO[bytes], target), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                hint = "put the file itself there"
                raise UserError("a link, which is not followed", file=path, hint=hint)

            if path.is_file():
                info = tarfile.TarInfo(str(path.relative_to(folder).as_posix()))
                info.size = path.stat().st_size
                with open(path, "rb") as file:
                    tar.addfile(info, file)


def extract_member(archive: Path, name: str, target: Path, largest: int = LARGEST) -> None:
    """Write one file of an archive to `target`.

    A UserError is raised as by `extract_all`, or says that there is no file of that name.
    """
    with _opened(archive, largest) as members:
        for member in members:
            if member.name == PurePosixPath(name):
                _copy(member, target)
                return

        listed = ", ".join(f"`{member.name}`" for member in members[:5])
        raise UserError(
            f"the archive has no file `{name}`", file=archive, hint=f"it begins with {listed}"
        )


def _copy(member: Member, target: Path) -> None:
    with member.open() as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)


@contextmanager
def _opened(archive: Path, largest: int) -> Iterator[list[Member]]:
    """Open an archive and give its checked members; errors of its content become a UserError."""
    try:
        with open(archive, "rb") as file:
            begin = file.read(8)
        # The last mark is empty, so that every file has one.
        opens = next(opens for mark, opens in MARKS.items() if begin.startswith(mark))

        with opens(archive) as content:
            if isinstance(content, zipfile.ZipFile):
                yield _checked(_zip_members(content, archive), archive, largest)
            else:
                with tarfile.TarFile(fileobj=cast(IO[bytes], BoundedReads(content))) as tar:
                    yield _checked(_tar_members(tar, archive), archive, largest)
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and isinstance(storage_error(error, archive), UserError):
            raise  # of writing, not of reading what cannot be right
        message = "the archive is damaged or cut short, or is neither tar nor zip"
        hint = "delete it and fetch the data set again"
        raise UserError(message, file=archive, hint=hint) from error


def _checked(members: Iterator[Member], archive: Path, largest: int) -> list[Member]:
    """Check the names and sizes of all members; returns them, or raises an error for the first."""
    checked: list[Member] = []
    files: set[PurePosixPath] = set()
    folders: set[PurePosixPath] = set()
    size = 0
    for member in members:
        name = member.name
        # A backslash separates folders on some systems.
        if name.is_absolute() or ".." in name.parts or not name.parts or "\\" in str(name):
            raise _unexpected(archive, str(name), "leads out of the folder")
        if any("\0" in part or len(os.fsencode(part)) > NAME_MAX for part in name.parts):
            raise _unexpected(archive, str(name), "cannot be a file's name")

        files.add(name)
        folders.update(name.parents)
        # Names are compared with those of all members before.
        if name in folders or not files.isdisjoint(name.parents):
            raise _unexpected(archive, str(name), "is a file and a folder at once")

        if member.size < 0:
            raise tarfile.ReadError(f"a member of {member.size} bytes")
        size += member.size
        checked.append(member)
        if size > largest or len(checked) > MAX_FILES:
            message = f"the archive holds more than {largest} bytes or {MAX_FILES} files"
            raise UserError(message, file=archive, hint="check that it is the right file")

    return checked


def _unexpected(archive: Path, name: str, why: str) -> UserError:
    hint = "do not use this archive; fetch the data set again from a source you trust"
    return UserError(f"unexpected member of the archive: `{name}` {why}", file=archive, hint=hint)


def _tar_members(content: tarfile.TarFile, archive: Path) -> Iterator[Member]:
    for info in content:
        if info.isdir():
            continue

        if not info.isreg():
            raise _unexpected(archive, info.name, "is not a plain file")

        # A plain file has content: `extractfile` gives None for others alone.
        opened = cast(Callable[[], IO[bytes]], partial(content.extractfile, info))
        yield Member(PurePosixPath(info.name), info.size, opened)

    # tarfile stops before the end of a compressed file, where its checksum is.
    if content.fileobj is not None:
        content.fileobj.read(PADDING)


def _zip_members(content: zipfile.ZipFile, archive: Path) -> Iterator[Member]:
    for info in content.infolist():
        if info.is_dir():
            continue

        # Bit 0 says that the content is encrypted.
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise _unexpected(archive, info.filename, "is not a plain file")
        yield Member(PurePosixPath(info.filename), info.file_size, partial(content.open, info))
