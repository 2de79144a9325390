"""Lines of text files, plain and compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pam.data.text import lines_of, read_lines
from pam.io import UserError


def test_only_line_feeds_end_lines_and_each_knows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\n\nfour".encode())
    lines = list(lines_of(path))
    assert [line.text for line in lines] == ["one", "two\u2028still two", "", "four"]
    assert [(line.file, line.number) for line in lines][3] == (path, 4)
    assert read_lines(path) == ["one", "two\u2028still two", "", "four"]


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(gzip.compress("Größe\nzwei\n".encode()))
    assert [line.text for line in lines_of(path)] == ["Größe", "zwei"]


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"line\n" * 900)[:-9], b"no gzip at all"],
    ids=["cut short", "no gzip at all"],
)
def test_a_damaged_compressed_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged or cut short") as caught:
        list(lines_of(path))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_a_file_without_text_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError, match="the file is empty"):
        list(lines_of(tmp_path / "a"))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\nGr\xf6\xdfe\n")
    with pytest.raises(UserError, match="byte 0xf6") as caught:
        list(lines_of(tmp_path / "a"))
    assert caught.value.line == 3
