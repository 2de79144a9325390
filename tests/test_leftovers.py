"""Half-written files of killed processes: nothing reads them, and the next writer removes them."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import write_summary
from pam.models.checkpoint import load_tensors, save_model
from pam.reporting import reference
from pam.runtime.errors import UserError
from pam.runtime.files import (
    atomic_folder,
    atomic_write,
    part_of,
    remove_leftovers,
    scratch_folder,
    whole_files,
    write_text,
)
from pam.training.checkpoint import Results
from tests.training import small


def killed_while_writing(path: Path, content: str = "half") -> Path:
    """Let a process write half of a file and kill it; return what it leaves behind."""
    before = set(path.parent.glob("*"))
    child = os.fork()
    if child == 0:
        with atomic_write(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    (leftover,) = set(path.parent.glob("*")) - before
    return leftover


def test_the_next_writer_of_a_file_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    leftover = killed_while_writing(tmp_path / "scores.json")
    other = killed_while_writing(tmp_path / "history.csv")

    write_text(tmp_path / "scores.json", "whole")

    assert not leftover.exists()
    assert other.exists()


def test_all_leftovers_below_a_folder_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    killed_while_writing(tmp_path / "deep/scores.json")
    killed_while_writing(tmp_path / "history.csv")
    kept = [
        tmp_path / name for name in ("corpus.part", ".notes.part", ".hidden", "a.b12345678.part")
    ]

    for path in kept:
        path.write_text("of a user", encoding="utf-8")

    remove_leftovers(tmp_path)

    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)


@pytest.mark.parametrize("writing", [atomic_write, part_of], ids=["a file", "a part alone"])
def test_what_a_living_process_writes_is_no_leftover(
    writing: Callable[[Path], Any], tmp_path: Path
) -> None:
    with writing(tmp_path / "scores.json") as temporary:
        temporary.write_text("slow", encoding="utf-8")
        remove_leftovers(tmp_path)
        write_text(tmp_path / "scores.json", "of a quick one")

        assert temporary.read_text(encoding="utf-8") == "slow"

    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_a_file_that_is_taken_for_a_leftover_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    struck = []

    def late(descriptor: int, kind: int) -> None:
        if not struck:
            struck.append(descriptor)
            (part,) = tmp_path.iterdir()
            part.unlink()
        lock(descriptor, kind)

    monkeypatch.setattr("fcntl.flock", late)
    write_text(tmp_path / "scores.json", "whole")

    assert (tmp_path / "scores.json").read_text(encoding="utf-8") == "whole"


def test_without_locks_files_are_written_and_leftovers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = killed_while_writing(tmp_path / "scores.json")

    def no_locks(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    write_text(tmp_path / "scores.json", "whole")
    remove_leftovers(tmp_path)

    assert leftover.exists()
    assert [path.name for path in whole_files(tmp_path)] == ["scores.json"]


def test_leftovers_of_a_folder_that_may_not_be_written_to_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = killed_while_writing(tmp_path / "scores.json")

    def denied(path: Path, **named: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", denied)
    remove_leftovers(tmp_path)

    assert leftover.exists()


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("pam.runtime.files.NEW_S", 0.0)
    child = os.fork()

    if child == 0:
        with scratch_folder() as folder:
            (folder / "clip.npy").write_bytes(b"much")
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()

    with scratch_folder() as first, scratch_folder() as second:
        assert set(tmp_path.iterdir()) == {first, second}

    assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_whole_or_missing_and_what_a_killed_process_left_is_removed(
    tmp_path: Path,
) -> None:
    out = tmp_path / "hub"
    child = os.fork()
    if child == 0:
        with atomic_folder(out) as folder:
            (folder / "model.safetensors").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()

    assert left != out

    # An empty folder is replaced.
    out.mkdir()
    with atomic_folder(out) as folder:
        (folder / "README.md").write_text("whole", encoding="utf-8")

    assert [path.name for path in tmp_path.rglob("*")] == ["hub", "README.md"]


def write_folder(out: Path, meanwhile: Callable[[], None]) -> None:
    """Write a folder of one file; something happens before it is whole."""
    with atomic_folder(out) as folder:
        (folder / "README.md").write_text("ours", encoding="utf-8")
        meanwhile()


def test_of_two_writers_of_a_folder_the_slow_one_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "hub"

    def be_overtaken() -> None:
        write_folder(out, lambda: None)
        (out / "README.md").write_text("of the quick one", encoding="utf-8")

    with pytest.raises(UserError, match="the folder is not empty"):
        write_folder(out, be_overtaken)

    assert (out / "README.md").read_text(encoding="utf-8") == "of the quick one"
    assert list(tmp_path.iterdir()) == [out]


def test_an_interrupted_writer_leaves_nothing_of_a_folder(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "hub", interrupt)

    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_is_new_may_not_be_locked_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    new = tmp_path / "pam-unpacked-12345678"
    new.mkdir()

    with scratch_folder():
        assert new.exists()


def summary(folder: Path) -> Any:
    (folder / "train.tsv").write_text("a\tb\n", encoding="utf-8")
    return write_summary(folder, {"task": "inflection"})


def model(folder: Path) -> Any:
    data = small.prepare(folder / "data")
    run = small.run("soft")
    (folder / "model").mkdir(exist_ok=True)
    save_model(folder / "model", run, "inflection", data, {})

    return load_tensors(folder / "model/weights.safetensors")[1]


def training(folder: Path) -> Any:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/weights").write_text("1", encoding="utf-8")
    results = Results(folder, "this training")
    results.complete()

    return results.whole(), results._content()


def archive(folder: Path) -> Any:
    run = folder / "nouns/soft/seed1"
    run.mkdir(parents=True, exist_ok=True)
    (run / "scores.json").write_text("{}", encoding="utf-8")
    reference._write_archive(folder / "runs.tar.xz", folder, {"nouns/soft/seed1": "nouns"}, set())

    with tarfile.open(folder / "runs.tar.xz") as stored:
        return stored.getnames()


USES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "the hashes of prepared data": (summary, "target.vocab"),
    "the hashes of a model": (model, "model/lengths.json"),
    "the results that a training keeps": (training, "model/history.csv"),
    "what is stored of runs": (archive, "nouns/soft/seed1/scores.json"),
}


@pytest.mark.parametrize("use", USES)
def test_nothing_is_made_of_a_leftover(use: str, tmp_path: Path) -> None:
    make, name = USES[use]
    undisturbed = make(tmp_path)
    leftover = killed_while_writing(tmp_path / name, "{}")

    assert make(tmp_path) == undisturbed
    assert leftover.name not in str(undisturbed)
