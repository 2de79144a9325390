"""Archives: members that they may hold, and that nothing else gets out of them."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pam.data.archives import extract_all, extract_member
from pam.runtime.errors import UserError

FILES = {"talks/a.txt": b"one\n" * 500, "talks/deep/b.txt": b"two\n", "c.txt": b""}


def tar(path: Path, *more: tarfile.TarInfo, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return path


def zipped(path: Path, *more: zipfile.ZipInfo) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        for info in more:
            archive.writestr(info, "x")
    return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.size = size
    return info


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_only_files_of_the_names_that_are_asked_for_come_out(tmp_path: Path) -> None:
    archive = tar(tmp_path / "archive", member("deep/c.txt"))

    extract_all(archive, tmp_path / "out", names=["b.txt", "c.txt"])
    assert names(tmp_path / "out") == {"talks/deep/b.txt", "c.txt", "deep/c.txt"}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_all_files_come_out(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "archive"
    archive = zipped(path) if mode == "zip" else tar(path, mode=mode)

    extract_all(archive, tmp_path / "out")
    for name, content in FILES.items():
        assert (tmp_path / "out" / name).read_bytes() == content

    extract_member(archive, "talks/deep/b.txt", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"two\n"


@pytest.mark.parametrize(
    "unwanted",
    [
        member("../outside"),
        member("talks/../../outside"),
        member("/outside"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.LNKTYPE, "talks/a.txt"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=["up", "up within", "absolute", "symbolic link", "hard link", "device", "pipe"],
)
def test_an_unexpected_member_is_named_and_nothing_is_written(
    tmp_path: Path, unwanted: tarfile.TarInfo
) -> None:
    archive = tar(tmp_path / "a.tgz", unwanted)
    with pytest.raises(UserError, match=f"unexpected member.*`{unwanted.name}`") as caught:
        extract_all(archive, tmp_path / "out")
    assert caught.value.file == str(archive)
    assert names(tmp_path) == {"a.tgz"}


def symbolic_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    "unwanted",
    [
        zipfile.ZipInfo("../outside"),
        zipfile.ZipInfo("/outside"),
        zipfile.ZipInfo("..\\outside"),
        symbolic_link(),
    ],
    ids=["up", "absolute", "backslash", "symbolic link"],
)
def test_the_same_holds_for_zip(tmp_path: Path, unwanted: zipfile.ZipInfo) -> None:
    archive = zipped(tmp_path / "a.zip", unwanted)
    with pytest.raises(UserError, match="unexpected member"):
        extract_all(archive, tmp_path / "out")
    assert names(tmp_path) == {"a.zip"}


@pytest.mark.parametrize("make", [tar, zipped])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_cut_archive_is_an_error(
    tmp_path: Path, make: Callable[[Path], Path], share: float
) -> None:
    whole = make(tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match="damaged or cut short"):
        extract_all(tmp_path / "cut", tmp_path / "out")


def test_what_is_no_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("<html>not found</html>")
    with pytest.raises(UserError, match="neither tar nor zip"):
        extract_all(tmp_path / "page", tmp_path / "out")


def test_an_archive_that_would_fill_the_disk_is_refused_unread(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", member("zeros", size=2_000_000))
    with pytest.raises(UserError, match="more than 1000000 bytes"):
        extract_all(archive, tmp_path / "out", largest=1_000_000)
    assert names(tmp_path) == {"a.tgz"}


def test_a_missing_member_is_named_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file `d.txt`\n.*begins with `talks/a.txt`"):
        extract_member(tar(tmp_path / "a.tgz"), "d.txt", tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path: Path, kind: bytes) -> None:
    # A few kilobytes of a compressed archive can state a name of gigabytes.
    archive = tar(tmp_path / "a.tgz", member("name", kind, size=3_000_000))
    with pytest.raises(UserError, match="damaged"):
        extract_all(archive, tmp_path / "out")
    assert names(tmp_path) == {"a.tgz"}


def test_headers_of_headers_without_end_are_not_followed(tmp_path: Path) -> None:
    endless = [member("name", tarfile.XHDTYPE) for _ in range(5000)]
    with pytest.raises(UserError, match="damaged"):
        extract_all(tar(tmp_path / "a.tgz", *endless), tmp_path / "out")


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    archive = tar(tmp_path / "a.tgz", *map(member, names))
    with pytest.raises(UserError, match=r"`a(/b)?` is a file and a folder at once"):
        extract_all(archive, tmp_path / "out")


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 200, "a/" + "y" * 300])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a file's name"):
        extract_all(tar(tmp_path / "a.tgz", member(name)), tmp_path / "out")
    assert names(tmp_path) == {"a.tgz"}


@pytest.mark.parametrize("flag", [0x01, 0x40])
def test_an_encrypted_member_of_a_zip_is_refused(tmp_path: Path, flag: int) -> None:
    archive = zipped(tmp_path / "a.zip")
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= flag
    archive.write_bytes(content)

    with pytest.raises(UserError):
        extract_all(archive, tmp_path / "out")


def test_a_method_of_compression_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip")
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = 77
    archive.write_bytes(content)

    with pytest.raises(UserError, match="damaged"):
        extract_all(archive, tmp_path / "out")
