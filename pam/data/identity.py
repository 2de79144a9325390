"""Which files a data set consists of: they are told by their content, not by a name or a time.

Two registries may give one name to two data sets, and a file may be replaced by an older one. So
the files of a data set are fetched into a folder whose name ends in a short hash of what they are,
`data/<data set>-<hash>/`, and whoever reads them checks that they are still that.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.data.archives import pack
from pam.runtime.errors import UserError
from pam.runtime.files import sha256_of, write_json

if TYPE_CHECKING:
    from pam.data.registry import Dataset

FOLDER = Path("data")  # where the workflow fetches files, and where users may put some
# Hashes of files of the user's own, which may be large and are asked for in each plan.
CACHE = Path(".snakemake/hashes.json")
HASH_LENGTH = 8  # hexadecimal digits in a folder's name
# Seconds after which a file's times tell its next change: those of some file systems are coarse.
SETTLED_S = 2.0

State = list[Any]  # what the file system says of a file, without reading it


def identified(dataset: Dataset, cache: Path = CACHE) -> Dataset:
    """Return a data set in which the files of the user's own have the SHA-256 of their content.

    A hash is computed again when the size, a time or the number (inode) of the file has changed,
    and is kept in the file `cache` where Snakemake has its folder: a mere check leaves nothing
    behind. The files have to exist.
    """
    known = _read(cache)
    computed = {}
    hashes = {}
    for name, file in dataset.files.items():
        if file.path is None or file.sha256 is not None:
            continue

        state, settled = _state(Path(file.path))
        if known.get(file.path, {}).get("state") != state:
            entry = {"state": state, "sha256": _content_hash(Path(file.path))}
            known[file.path] = entry
            if settled:
                computed[file.path] = entry
        hashes[name] = known[file.path]["sha256"]

    if computed and cache.parent.is_dir():
        with suppress(UserError, OSError):
            write_json(cache, _read(cache) | computed)

    return dataset.with_hashes(hashes)


def fetched_folder(name: str, dataset: Dataset) -> Path:
    """Return the folder of the fetched files of an `identified` data set."""
    files = {
        key: file.sha256 or file.md5 or (file.urls, dataset.mirror_name)
        for key, file in dataset.files.items()
    }
    package = dataset.package and dataset.package.model_dump()
    content = json.dumps({"files": files, "package": package}, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return FOLDER / f"{name}-{digest[:HASH_LENGTH]}"


def _read(cache: Path) -> dict[str, Any]:
    """Return the hashes that were kept, none where their file is missing or damaged."""
    with suppress(OSError, ValueError):
        content = json.loads(cache.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return {path: entry for path, entry in content.items() if isinstance(entry, dict)}
    return {}


def _state(path: Path) -> tuple[State, bool]:
    """Return the state of a file, or of all files of a folder, and whether a change would show.

    A file that was changed just now may be changed again within one tick of its times.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())

    state = []
    latest = 0
    for file in files:
        status = file.stat()
        times = [status.st_mtime_ns, status.st_ctime_ns]
        state.append([str(file), status.st_size, *times, status.st_ino])
        latest = max(latest, status.st_ctime_ns)

    settled = time.time_ns() - latest > SETTLED_S * 1e9
    if path.is_dir():
        # A folder may have thousands of files.
        return [hashlib.sha256(json.dumps(state).encode()).hexdigest()], settled
    return state[0], settled


def _content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of the archive that a folder is packed into."""
    if not path.is_dir():
        return sha256_of(path)

    hashing = _Hashing()
    pack(path, hashing)
    return hashing.digest.hexdigest()


class _Hashing:
    """A file that keeps nothing but the hash of what is written to it."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, chunk: bytes) -> int:
        self.digest.update(chunk)
        return len(chunk)
