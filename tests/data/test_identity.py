"""A data set is what its files hold: neither its name nor a time tells it from another one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from pam.data import identity
from pam.data.download import RECORD, check_fetched, fetch
from pam.data.identity import fetched_folder, identified
from pam.data.prepare import prepare
from pam.data.registry import Dataset, find_dataset
from pam.runtime.errors import UserError
from pam.runtime.files import write_json
from tests.data.conftest import ROWS, write_rows

URLS = ["https://example.org/a.tsv"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    identity.CACHE.parent.mkdir()
    monkeypatch.delenv("PAM_MIRROR", raising=False)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the files whose content is read for a hash."""
    read: list[str] = []
    content_hash = identity._content_hash

    def noted(path: Path) -> str:
        read.append(path.name)
        return content_hash(path)

    monkeypatch.setattr(identity, "_content_hash", noted)
    monkeypatch.setattr(identity, "SETTLED_S", -1.0)
    return read


def entry(folder: Path) -> Dataset:
    return find_dataset([folder / "datasets.yaml"], "my-nouns")


def folder_of(folder: Path) -> Path:
    return fetched_folder("my-nouns", identified(entry(folder)))


def dataset(**file: object) -> Dataset:
    files = {"a.tsv": file, "b.tsv": {"sha256": "b" * 64, "urls": URLS}}
    return Dataset.model_validate({"task": "inflection", "files": files})


def test_two_registries_with_one_name_have_two_folders_and_equal_files_share_one(
    user_folder: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(user_folder, tmp_path / "other"))
    assert folder_of(other) == folder_of(user_folder)

    write_rows(other / "dev.tsv", ROWS["test"])
    assert folder_of(other) != folder_of(user_folder)


def test_addresses_count_only_where_no_hash_is_known() -> None:
    def folder(**file: object) -> Path:
        return fetched_folder("x", dataset(**file))

    assert folder(urls=URLS) != folder(urls=["https://example.org/other"])
    assert folder(urls=URLS, sha256="a" * 64) == folder(urls=[], sha256="a" * 64)
    assert folder(urls=URLS, sha256="a" * 64) != folder(urls=URLS, sha256="c" * 64)
    assert folder(urls=URLS, md5="a" * 32) != folder(urls=URLS)


def test_a_file_replaced_by_an_older_one_of_the_same_size_is_noticed(
    user_folder: Path, hashed: list[str]
) -> None:
    before = folder_of(user_folder)
    file = user_folder / "dev.tsv"
    older = user_folder / "older.tsv"
    older.write_bytes(file.read_bytes().replace(b"Laus", b"Maus"))
    times = file.stat()
    os.utime(older, ns=(times.st_atime_ns, times.st_mtime_ns - 10**12))
    older.rename(file)

    assert file.stat().st_size == times.st_size
    assert folder_of(user_folder) != before


def test_files_are_read_again_only_where_they_changed(user_folder: Path, hashed: list[str]) -> None:
    before = folder_of(user_folder)
    assert sorted(hashed) == ["dev.tsv", "test.tsv", "train.tsv"]

    assert folder_of(user_folder) == before
    assert len(hashed) == 3

    (user_folder / "dev.tsv").touch()
    assert folder_of(user_folder) == before
    assert hashed[3:] == ["dev.tsv"]


def test_a_file_that_was_changed_just_now_is_read_again(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next change may fall into the same tick of the clock."""
    monkeypatch.setattr(identity, "SETTLED_S", 1e6)
    identified(entry(user_folder))
    assert not identity.CACHE.exists()


@pytest.mark.parametrize("content", ["[1", '{"x": 1}', "[]"])
def test_a_damaged_cache_is_no_cache(user_folder: Path, hashed: list[str], content: str) -> None:
    before = folder_of(user_folder)
    identity.CACHE.write_text(content, encoding="utf-8")
    assert folder_of(user_folder) == before


def test_a_folder_is_told_by_the_archive_that_it_is_packed_into(
    tmp_path: Path, hashed: list[str]
) -> None:
    (tmp_path / "clips").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"clips/{name}.npy").write_bytes(name.encode())
    registry = {"files": {"clips.tar": {"path": "clips"}}, "task": "inflection"}
    registry |= {"splits": {"all": "clips.tar"}, "format": {"divide": {"dev": 1, "test": 1}}}
    (tmp_path / "datasets.yaml").write_text(yaml.safe_dump({"my-nouns": registry}))

    own = identified(entry(tmp_path))
    fetch("my-nouns", own, tmp_path / "raw")
    assert check_fetched(own, tmp_path / "raw") == {"clips.tar": own.files["clips.tar"].sha256}

    (tmp_path / "clips/b.npy").write_bytes(b"c")
    assert identified(entry(tmp_path)) != own
    assert len(hashed) == 2


def test_what_another_run_has_put_there_is_not_prepared(user_folder: Path, tmp_path: Path) -> None:
    planned = identified(entry(user_folder))
    raw = tmp_path / "raw"
    fetch("my-nouns", planned, raw)

    write_rows(user_folder / "train.tsv", [*ROWS["train"], ("Hut", "case=dative", "Hut")])
    fetch("my-nouns", entry(user_folder), raw)

    with pytest.raises(UserError, match="wrong hash") as caught:
        prepare("my-nouns", planned, raw, tmp_path / "out")
    assert caught.value.file == str(raw / "train.tsv")
    assert caught.value.hint and "call the same command again" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_between_plan_and_copy_is_named(
    user_folder: Path, tmp_path: Path
) -> None:
    planned = identified(entry(user_folder))
    write_rows(user_folder / "train.tsv", ROWS["test"])

    with pytest.raises(UserError, match="SHA-256") as caught:
        fetch("my-nouns", planned, tmp_path / "raw")
    assert caught.value.file == str(user_folder / "train.tsv")
    assert not (tmp_path / "raw/train.tsv").exists()


def test_files_put_by_hand_under_the_name_alone_are_taken_if_they_are_the_right_ones(
    tmp_path: Path,
) -> None:
    content = "Haus\tcase=dative\tHaus\n"
    (tmp_path / "data/x").mkdir(parents=True)
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / "data/x" / name).write_text(content, encoding="utf-8")

    asked = Dataset.model_validate({"task": "inflection", "files": {"a.tsv": {}, "b.tsv": {}}})
    fetch("x", asked, fetched_folder("x", asked))
    hashes = check_fetched(asked, fetched_folder("x", asked))

    known = asked.with_hashes(hashes)
    fetch("x", known, fetched_folder("x", known))
    assert check_fetched(known, fetched_folder("x", known)) == hashes

    other = asked.with_hashes(hashes | {"b.tsv": "b" * 64})
    with pytest.raises(UserError, match=r"b\.tsv"):
        fetch("x", other, fetched_folder("x", other))


def test_a_record_of_another_file_does_not_count_where_a_hash_is_known(
    user_folder: Path, tmp_path: Path
) -> None:
    planned = identified(entry(user_folder))
    raw = tmp_path / "raw"
    fetch("my-nouns", planned, raw)
    write_rows(raw / "dev.tsv", ROWS["test"])
    write_json(raw / RECORD, {})

    with pytest.raises(UserError, match="wrong hash"):
        check_fetched(planned, raw)
