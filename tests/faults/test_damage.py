"""Files that are damaged, cut or of another run: an error that names one, or the right result."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pam.data.archives import extract_all
from pam.data.features import Vectors, clips_in, read_array
from pam.runtime.errors import UserError
from tests.conftest import Recorder
from tests.data import test_archives, test_captioning
from tests.faults.cases import numbered
from tests.faults.damage import damage
from tests.faults.outcomes import outcome
from tests.faults.subjects import SUBJECTS, Result, Subject

CASES = 10
ARCHIVE_CASES = 60
FRAME_CASES = 25
"""Damages in a block: of subjects, of archives and of frames, which are quick."""

Made = Callable[[str], tuple[Subject, Result]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Make each subject once by its name, with the result of its use undamaged."""
    subjects: dict[str, tuple[Subject, Result]] = {}

    def make(name: str) -> tuple[Subject, Result]:
        if name not in subjects:
            subject = SUBJECTS[name](tmp_path_factory.mktemp("subject"))
            copy = tmp_path_factory.mktemp("copy") / "undamaged"
            undamaged = subject.use(shutil.copytree(subject.folder, copy))
            subjects[name] = subject, undamaged
        return subjects[name]

    return make


def files(folder: Path) -> list[Path]:
    """List the names of all files, those in folders too."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.relative_to(folder) for path in paths]


def suffer(folder: Path, strangers: tuple[Path, ...], draw: random.Random) -> str:
    """Damage one file of a folder, or put another in its place; return in words what was done."""
    name = draw.choice(files(folder))
    foreign = [other / name for other in strangers if (other / name).is_file()]
    beside = [folder / other for other in files(folder) if other != name]
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


def check(subject: Subject, undamaged: Result, folder: Path, case: str) -> None:
    """Check that the use of a damaged folder names a file of it, or gives the right result."""
    result = outcome(lambda: subject.use(folder), case)
    if isinstance(result, UserError):
        assert result.file is not None and result.file.startswith(str(folder)), f"{case}: {result}"
    else:
        assert result == undamaged or result in subject.fair, case


ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "tar": lambda path: test_archives.tar(path, mode="w"),
    "tar.gz": lambda path: test_archives.tar(path, mode="w:gz"),
    "tar.bz2": lambda path: test_archives.tar(path, mode="w:bz2"),
    "tar.xz": lambda path: test_archives.tar(path, mode="w:xz"),
    "zip": test_archives.zipped,
}
CHECKED = ("tar.gz", "tar.bz2", "tar.xz")
"""Kinds of which every byte is under a checksum of their own."""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(name): (folder / name).read_bytes() for name in files(folder)}


@pytest.mark.parametrize("block", numbered(100, sample=1))
@pytest.mark.parametrize("kind", ARCHIVES)
def test_nothing_of_a_damaged_archive_gets_out_of_the_folder(
    kind: str, block: int, tmp_path: Path, record: Recorder
) -> None:
    """Unpack without the hash of the whole, to which fetched archives are held besides."""
    draw = random.Random(f"{kind} {block}")
    whole = ARCHIVES[kind](tmp_path / "whole").read_bytes()
    for case in range(ARCHIVE_CASES):
        room = tmp_path / str(case)
        room.mkdir()
        (room / "archive").write_bytes(whole)
        change = damage(room / "archive", draw)
        error = outcome(partial(extract_all, room / "archive", room / "out"), change)

        if error is not None:
            assert error.file == str(room / "archive"), change
        else:
            assert kind not in CHECKED or contents(room / "out") == test_archives.FILES, change

        assert {path.name for path in room.iterdir()} <= {"archive", "out"}, change

        shutil.rmtree(room)

    record(
        fault="an archive damaged or cut, unpacked without knowing its hash",
        showed="an error that names the archive, or files, all inside the folder",
        tried=ARCHIVE_CASES,
    )


def hdf5(path: Path, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        for number in range(3):
            file.create_dataset(f"clip{number}", data=test_captioning.frames(number), **options)


def read_clips(path: Path) -> list[Vectors]:
    with clips_in(path) as (names, read):
        return [read(name) for name in names]


FRAMES: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], list[Vectors]]]] = {
    "an array": (
        "clip.npy",
        lambda path: np.save(path, test_captioning.frames(3)),
        lambda path: [read_array(path)],
    ),
    "HDF5": ("clips.h5", hdf5, read_clips),
    "compressed HDF5": ("clips.h5", partial(hdf5, compression="gzip", chunks=True), read_clips),
}


@pytest.mark.parametrize("block", numbered(80, sample=1))
@pytest.mark.parametrize("kind", FRAMES)
def test_damaged_frames_are_an_error_or_numbers(
    kind: str, block: int, tmp_path: Path, record: Recorder
) -> None:
    """Read without the hash of the whole, as a clip that somebody names to `predict`."""
    name, make, read = FRAMES[kind]
    path = tmp_path / name
    make(path)
    whole = path.read_bytes()
    draw = random.Random(f"{kind} {block}")

    for case in range(FRAME_CASES):
        path.write_bytes(whole)
        change = f"case {case}: {damage(path, draw)}"
        result = outcome(partial(read, path), change)

        if isinstance(result, UserError):
            assert result.file is not None and result.file.startswith(str(path)), change
        else:
            assert all(
                frames.dtype == np.float32 and np.isfinite(frames).all() for frames in result
            ), change

    record(
        fault=f"frames damaged or cut, read without knowing their hash: {kind}",
        showed="an error that names the file, or numbers",
        tried=FRAME_CASES,
    )


@pytest.mark.parametrize("block", numbered(100, sample=1))
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_damaged_file_is_an_error_or_changes_nothing(
    name: str, block: int, made: Made, tmp_path: Path, record: Recorder
) -> None:
    subject, undamaged = made(name)
    draw = random.Random(f"{name} {block}")
    for case in range(CASES):
        folder = shutil.copytree(subject.folder, tmp_path / str(case))
        change = suffer(folder, subject.strangers, draw)

        check(subject, undamaged, folder, f"case {case}: {change}")

        shutil.rmtree(folder)

    record(
        fault=f"a file damaged, cut, swapped or missing: {name}",
        showed="an error that names the file, or the same result; never another one",
        tried=CASES,
    )
