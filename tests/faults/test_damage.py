"""Files that are damaged, cut or of another run: an error that names one, or the right result."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pam.data.archives import extract_all
from pam.io import UserError
from tests.conftest import Recorder
from tests.data import test_archives
from tests.faults.cases import numbered
from tests.faults.damage import damage
from tests.faults.outcomes import outcome
from tests.faults.subjects import SUBJECTS, Result, Subject

CASES = 20
"""Damages in a block."""

Made = Callable[[str], tuple[Subject, Result]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Subjects by name, each made once, with what is made of it undamaged."""
    known: dict[str, tuple[Subject, Result]] = {}

    def make(name: str) -> tuple[Subject, Result]:
        if name not in known:
            subject = SUBJECTS[name](tmp_path_factory.mktemp("subject"))
            copy = tmp_path_factory.mktemp("copy") / "undamaged"
            known[name] = subject, subject.use(shutil.copytree(subject.folder, copy))
        return known[name]

    return make


def files(folder: Path) -> list[Path]:
    """Names of all files, those in folders too."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.relative_to(folder) for path in found]


def suffer(folder: Path, others: tuple[Path, ...], draw: random.Random) -> str:
    """Damages one file of a folder, or puts another in its place; says what was done."""
    name = draw.choice(files(folder))
    foreign = [other / name for other in others if (other / name).is_file()]
    beside = [folder / own for own in files(folder) if own != name]
    fate = draw.random()
    if fate < 0.1 and foreign:
        (folder / name).write_bytes(draw.choice(foreign).read_bytes())
        return f"{name} of another"
    if fate < 0.15 and beside:
        (folder / name).write_bytes(draw.choice(beside).read_bytes())
        return f"{name} from beside"
    if fate < 0.2:
        (folder / name).unlink()
        return f"{name} missing"
    return damage(folder / name, draw)


def check(subject: Subject, undamaged: Result, folder: Path, what: str) -> None:
    """Using a damaged folder names a file of it, or gives the right result."""
    found = outcome(lambda: subject.use(folder), what)
    if isinstance(found, UserError):
        assert found.file is not None and found.file.startswith(str(folder)), f"{what}: {found}"
    else:
        assert found == undamaged or found in subject.fair, what


ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "tar": lambda path: test_archives.tar(path, mode="w"),
    "tar.gz": lambda path: test_archives.tar(path, mode="w:gz"),
    "tar.bz2": lambda path: test_archives.tar(path, mode="w:bz2"),
    "tar.xz": lambda path: test_archives.tar(path, mode="w:xz"),
    "zip": test_archives.zipped,
}
CHECKED = ("tar.gz", "tar.bz2", "tar.xz")
"""Kinds of which every byte is under a checksum of their own."""


def found(folder: Path) -> dict[str, bytes]:
    return {str(name): (folder / name).read_bytes() for name in files(folder)}


@pytest.mark.parametrize("block", numbered(50, sample=1))
@pytest.mark.parametrize("kind", ARCHIVES)
def test_nothing_of_a_damaged_archive_gets_out_of_the_folder(
    kind: str, block: int, tmp_path: Path, record: Recorder
) -> None:
    """Without the hash of the whole, to which fetched archives are held besides."""
    draw = random.Random(f"{kind} {block}")
    whole = ARCHIVES[kind](tmp_path / "whole").read_bytes()
    for case in range(CASES):
        room = tmp_path / str(case)
        room.mkdir()
        (room / "archive").write_bytes(whole)
        what = damage(room / "archive", draw)
        error = outcome(partial(extract_all, room / "archive", room / "out"), what)
        if error is not None:
            assert error.file == str(room / "archive"), what
        else:
            assert kind not in CHECKED or found(room / "out") == test_archives.FILES, what
        assert {path.name for path in room.iterdir()} <= {"archive", "out"}, what
    record(
        fault="an archive damaged or cut, unpacked without knowing its hash",
        showed="an error that names the archive, or files, all inside the folder",
        tried=CASES,
    )


@pytest.mark.parametrize("block", numbered(50, sample=1))
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_damaged_file_is_an_error_or_changes_nothing(
    name: str, block: int, made: Made, tmp_path: Path, record: Recorder
) -> None:
    subject, undamaged = made(name)
    draw = random.Random(f"{name} {block}")
    for case in range(CASES):
        folder = shutil.copytree(subject.folder, tmp_path / str(case))
        what = suffer(folder, subject.others, draw)
        check(subject, undamaged, folder, f"case {case}: {what}")
        shutil.rmtree(folder)
    record(
        fault=f"a file damaged, cut, swapped or missing: {name}",
        showed="an error that names the file, or the same result; never another one",
        tried=CASES,
    )
