"""Holds an environment to the lock: `make audit`, which needs no network.

    python envs/audit.py

Every package of the lock must be installed in its version, with what it requires, and no other
package beside; every file of each must be as it was installed; and the lock must know hashes. Ends
with 1 and a line for each fault. Whether a version has become known to be vulnerable, only an index
can say: docs/security.md has the command.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from lock import DATA_ONLY, TORCH
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
LOCKS = tuple(f"requirements{part}.txt" for part in ("-build", "", "-torch", "-dev"))

OUR_OWN = frozenset({"posterior-attention", "pip"})


class Pin(NamedTuple):
    """A package of the lock: its version, and how many files of it are known by their hash."""

    version: str
    hashes: int


def read_lock(folder: Path = FOLDER, names: tuple[str, ...] = LOCKS) -> dict[str, Pin]:
    """The pins that are for this Python, by name."""
    pins = {}
    for name in names:
        text = (folder / name).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            asked, *hashes = line.partition("#")[0].split(" --hash=")
            if not asked.strip():
                continue
            requirement = Requirement(asked)
            if requirement.marker is None or requirement.marker.evaluate():
                (pinned,) = requirement.specifier
                known = sum(one.strip().startswith("sha256:") for one in hashes)
                pins[canonicalize_name(requirement.name)] = Pin(pinned.version, known)
    return pins


def without_hashes(pins: dict[str, Pin]) -> Iterator[str]:
    """Faults of the lock itself."""
    for name, pin in pins.items():
        if name not in TORCH and not pin.hashes:
            yield f"{name}: the lock knows no hash"


def differences(pins: dict[str, Pin], installed: dict[str, metadata.Distribution]) -> Iterator[str]:
    """What is not installed as the lock says, or beside it."""
    for name, pin in pins.items():
        found = installed.get(name)
        # A local label such as +cpu is the build's, not the version's.
        if found is None or found.version.partition("+")[0] != pin.version:
            yield f"{name}: {found.version if found else 'nothing'} is here, not {pin.version}"
    allowed = pins.keys() | OUR_OWN | needed_by(TORCH, installed)
    for name in sorted(installed.keys() - allowed):
        yield f"{name}: is here, but not in the lock"


def needed_by(names: tuple[str, ...], installed: dict[str, metadata.Distribution]) -> set[str]:
    """What packages require, directly or not."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        for requirement in requirements(installed.get(waiting.pop())):
            name = canonicalize_name(requirement.name)
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def requirements(package: metadata.Distribution | None) -> list[Requirement]:
    """What a package requires on this machine."""
    asked = map(Requirement, (package.requires if package else None) or ())
    return [one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]


def unmet(installed: dict[str, metadata.Distribution]) -> Iterator[str]:
    """Requirements that nothing here meets."""
    for name, package in installed.items():
        for wanted in requirements(package) if name not in DATA_ONLY else ():
            found = installed.get(canonicalize_name(wanted.name))
            if found is None or not wanted.specifier.contains(found.version, prereleases=True):
                yield f"{name}: requires {wanted}, {found.version if found else 'nothing'} is here"


def changed(package: metadata.Distribution) -> Iterator[str]:
    """Files that are not as they were installed."""
    for file in package.files or ():
        path = Path(str(file.locate()))
        if file.hash is None or path.suffix == ".pyc":
            continue
        if not path.is_file():
            yield f"{package.name}: {path} is gone"
            continue
        digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != file.hash.value:
            yield f"{package.name}: {path} has been changed"


def main() -> int:
    """Prints the faults."""
    pins = read_lock()
    installed = {canonicalize_name(one.name): one for one in metadata.distributions()}
    faults = [*without_hashes(pins), *differences(pins, installed), *unmet(installed)]
    for package in installed.values():
        faults += changed(package)
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    sys.stdout.write(f"{len(installed)} packages, {len(faults)} faults\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
