"""One file from the first address that gives it whole and unchanged."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tqdm import tqdm

from pam.data.archives import extract_member
from pam.errors import UserError
from pam.files import PART, sha256_of, write_aside

if TYPE_CHECKING:
    from requests import Response

CHUNK = 2**18
"""Bytes that are taken at once."""

LARGEST = 8 * 2**30
"""Bytes of the largest file that is taken where no size is known."""

PERMANENT = (400, 401, 403, 404, 405, 410, 451)
"""HTTP statuses that a second try does not change."""


@dataclass(frozen=True)
class Patience:
    """How long to try.

    Attributes:
        attempts: tries per address.
        wait_s: seconds before the second try, doubled before each further one.
        timeout_s: seconds without an answer or a byte after which a try is given up.
        slowest: bytes per second; a transfer that is slower for longer is given up.
    """

    attempts: int = 3
    wait_s: float = 1.0
    timeout_s: float = 20.0
    slowest: float = 1024.0


@dataclass(frozen=True)
class Wanted:
    """What is known of a file beforehand; None is not known."""

    sha256: str | None = None
    size: int | None = None
    md5: str | None = None


class TransferError(Exception):
    """An address did not give the file; `again` says whether a second try may."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class UnavailableError(UserError):
    """No address gave a file."""


class Bounded:
    """A file that refuses more bytes than expected, and bytes that come too slowly."""

    def __init__(self, file: BinaryIO, limit: int, patience: Patience) -> None:
        self.file = file
        self.limit = limit
        self.patience = patience
        self.written = 0
        self.started = time.monotonic()

    def write(self, chunk: bytes) -> int:
        """Writes `chunk`, or raises TransferError."""
        self.written += len(chunk)
        if self.written > self.limit:
            raise TransferError(f"longer than {self.limit} bytes")
        allowed = self.patience.timeout_s + self.written / self.patience.slowest
        if time.monotonic() - self.started > allowed:
            raise TransferError("too slow", again=True)
        return self.file.write(chunk)


def download(
    target: Path,
    wanted: Wanted,
    addresses: Sequence[str],
    patience: Patience | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Brings a file from the first of `addresses` (https, http, or a local path) that has it.

    `ADDRESS#NAME` is the file NAME of the archive at ADDRESS. The file is written aside, checked,
    and renamed: `target` is whole or untouched.

    Returns:
        The address that it came from.

    Raises:
        UnavailableError: no address gave it, with the reason for each.
        UserError: the disk is full.
    """
    patience = patience or Patience()
    reasons = []
    for address in addresses:
        for attempt in range(1, patience.attempts + 1):
            try:
                with write_aside(target) as temporary:
                    _bring(address, temporary, wanted, patience)
                    _check(temporary, wanted)
                return address
            except TransferError as refused:
                last = not refused.again or attempt == patience.attempts
                say(f"{address}: {refused}" + ("" if last else "; trying again"))
                if last:
                    reasons.append(f"{address}: {refused}")
                    break
            time.sleep(patience.wait_s * 2 ** (attempt - 1))
    tried = "".join(f"\n    {reason}" for reason in reasons) or ": none is known"
    raise UnavailableError(
        f"no address gave `{target.name}`{tried}", remedy=by_hand({target: wanted})
    )


def by_hand(files: Mapping[Path, Wanted]) -> str:
    """Says which files to put where, and how to know that they are the right ones."""
    lines = ["name a mirror (PAM_MIRROR or --mirror), or put by hand, from wherever you get it:"]
    for target, wanted in files.items():
        lines.append(f"    {target.absolute()}")
        known = [f"{wanted.size} bytes"] if wanted.size else []
        known += [f"SHA-256 {wanted.sha256}"] if wanted.sha256 else []
        known += [f"MD5 {wanted.md5}"] if wanted.md5 else []
        lines += [f"        {', '.join(known)}"] if known else []
    return "\n".join(lines)


def _bring(address: str, temporary: Path, wanted: Wanted, patience: Patience) -> None:
    """Fills `temporary` with what is at an address, or in the archive that is there."""
    place, _, member = address.partition("#") if "://" in address else (address, "", "")
    if not member:
        _transfer(place, temporary, wanted, patience)
        return
    with tempfile.NamedTemporaryFile(
        dir=temporary.parent, prefix=".archive.", suffix=PART
    ) as archive:
        _transfer(place, Path(archive.name), Wanted(), patience)
        try:
            extract_member(Path(archive.name), member, temporary)
        except UserError as error:
            raise TransferError(error.message) from error


def _transfer(address: str, temporary: Path, wanted: Wanted, patience: Patience) -> None:
    with open(temporary, "wb") as file:
        bounded = Bounded(file, wanted.size or LARGEST, patience)
        if "://" in address:
            _transfer_http(address, bounded, patience)
            return
        try:
            with open(address, "rb") as origin:
                shutil.copyfileobj(origin, bounded)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise TransferError("no such file") from error
        except PermissionError as error:
            raise TransferError("no permission to read it") from error


def _transfer_http(address: str, bounded: Bounded, patience: Patience) -> None:
    import requests
    from requests import exceptions

    try:
        with requests.get(
            address,
            stream=True,
            timeout=patience.timeout_s,
            # A compressed transfer would be longer on disk than its length says.
            headers={"Accept-Encoding": "identity"},
            hooks={"response": _refuse_downgrade} if address.startswith("https:") else {},
        ) as response:
            status = response.status_code
            if not response.ok:
                raise TransferError(f"HTTP status {status}", again=status not in PERMANENT)
            _take_body(response, bounded, patience)
    except exceptions.Timeout as error:
        raise TransferError(f"no answer within {patience.timeout_s:g} s", again=True) from error
    except exceptions.ConnectionError as error:
        reason = f"not reachable, or the connection broke ({type(error).__name__})"
        raise TransferError(reason, again=True) from error
    except (exceptions.RequestException, ValueError) as error:
        raise TransferError(f"not a usable address or answer: {error}") from error


def _refuse_downgrade(response: Response, **_: Any) -> None:
    if not response.url.startswith("https:"):
        raise TransferError(f"an https address leads to {response.url}, which anybody may change")


def _take_body(response: Response, bounded: Bounded, patience: Patience) -> None:
    """Hands on the bytes as they come, so that a trickle shows at its first byte."""
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    length = int(response.headers.get("Content-Length", 0)) or None
    silent = not sys.stderr.isatty()
    with tqdm(total=length, unit="B", unit_scale=True, leave=False, disable=silent) as bar:
        try:
            while chunk := response.raw.read1(CHUNK):
                bounded.write(chunk)
                bar.update(len(chunk))
        except ReadTimeoutError as error:
            reason = f"silent for {patience.timeout_s:g} s in mid-transfer"
            raise TransferError(reason, again=True) from error
        except HTTPError as error:
            raise TransferError("the connection was closed in mid-transfer", again=True) from error


def _check(path: Path, wanted: Wanted) -> None:
    size = path.stat().st_size
    if wanted.size is not None and size < wanted.size:
        raise TransferError(f"cut short: {size} of {wanted.size} bytes", again=True)
    if wanted.size is not None and size > wanted.size:
        raise TransferError(f"longer than {wanted.size} bytes")
    if size == 0:
        raise TransferError("the file is empty", again=True)
    wrong = wrong_hash(path, wanted)
    if wrong is not None:
        raise TransferError(wrong)


def wrong_hash(path: Path, wanted: Wanted) -> str | None:
    """How a file's hash differs from the one that is known, if it does."""
    for name, known, found in (
        ("SHA-256", wanted.sha256, sha256_of),
        ("MD5", wanted.md5, _md5_of),
    ):
        if known is not None and found(path) != known:
            return f"wrong hash: {name} is {found(path)}, not {known}"
    return None


def _md5_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
