"""Files that a command writes: each of its own, none that it reads, and refused before any work."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write, write_text
from tests.cli.conftest import Call


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of work with outputs and references."""
    monkeypatch.chdir(tmp_path)
    for name in ("ours", "references"):
        Path(name).write_text("ein Haus am See\n", encoding="utf-8")


SCORE = ("score", "--hypotheses", "ours", "--references", "references")
ALIGN = ("align", "--source", "ours", "--target", "references", "--aligner", "fast_align")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*SCORE, "--out", "./ours"), "--out and --hypotheses are the same file"),
        ((*SCORE, "--out", "linked"), "--out and --references are the same file"),
        ((*ALIGN, "--out", "new", "--record", "new"), "--out and --record write the same file"),
        ((*ALIGN, "--record", "folder"), "a file is where a folder is needed"),
        ((*ALIGN, "--record", "ours/below"), "a file is where a folder is needed"),
    ],
)
def test_a_file_that_a_command_reads_or_cannot_write_is_refused_first(
    texts: None, called: Call, command: tuple[str, ...], message: str
) -> None:
    Path("folder").mkdir()
    Path("linked").symlink_to("references")
    before = sorted(Path().rglob("*"))

    assert message in called(*command).message()[0]
    assert sorted(Path().rglob("*")) == before
    assert Path("ours").read_text() == Path("references").read_text() == "ein Haus am See\n"


def test_what_a_link_names_is_written_and_the_link_stays(tmp_path: Path) -> None:
    for there in (True, False):
        file = tmp_path / f"file {there}"
        if there:
            file.write_text("old")
        link = tmp_path / f"link {there}"
        link.symlink_to(file.name)
        write_text(link, "new")

        assert link.is_symlink()
        assert file.read_text() == "new"


def test_a_pipe_gets_the_whole_content_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "all of it")
    reader.join(timeout=10)

    assert received == ["all of it"]
    assert pipe.is_fifo()


def test_standard_output_can_be_named(texts: None, called: Call) -> None:
    assert called(*SCORE, "--out", os.devnull).code == 0
    assert not Path(os.devnull).is_file()

    descriptor = os.open("redirected", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"before ")
    write_text(f"/dev/fd/{descriptor}", "after")
    os.close(descriptor)
    assert Path("redirected").read_text() == "before after"


def test_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a folder where a file is"), atomic_write(tmp_path):
        pytest.fail("there is no place to write to")
