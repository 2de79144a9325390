"""Folders that refuse to be written to: a full disk, a read-only one, one without permission."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BY_PERMISSION = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Runs a command whom permissions bind, though it is root's."""


@dataclass(frozen=True)
class Disk:
    """A small disk of its own at `folder`."""

    folder: Path

    def fill(self, leave: int = 0) -> None:
        """Take all of it but `leave` bytes."""
        free = os.statvfs(self.folder)
        room = free.f_bavail * free.f_frsize - leave
        (self.folder / "filler").write_bytes(b"x" * max(room, 0))

    def mend(self) -> None:
        """Give it all the room that can be wanted."""
        (self.folder / "filler").unlink(missing_ok=True)
        mount("remount,size=64m", "tmpfs", self.folder)


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Disk]:
    """Mount a file system of so many KiB at `folder`; skip where none can be had."""
    folder.mkdir(parents=True, exist_ok=True)
    mount(f"size={kib}k", "tmpfs", folder, kind="tmpfs")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def read_only_disk(folder: Path) -> Iterator[None]:
    """Mount the same files on a file system that can only be read."""
    mount("bind", folder, folder)
    try:
        mount("remount,bind,ro", folder, folder)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def mount(options: str, source: Path | str, folder: Path, kind: str = "none") -> None:
    done = subprocess.run(
        ["mount", "-t", kind, "-o", options, source, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


def bound_by_permission(command: list[str]) -> list[str]:
    """Return a command that may not write where permissions forbid it, whoever runs it."""
    if os.geteuid() != 0:
        return command

    if shutil.which(BY_PERMISSION[0]) is None:
        pytest.skip("root is bound by no permission, and there is no setpriv to change that")

    return [*BY_PERMISSION, *command]


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Forbid to make, change or remove anything in a folder."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    modes = {path: path.stat().st_mode for path in folders}
    try:
        for path in folders:
            path.chmod(0o555)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
