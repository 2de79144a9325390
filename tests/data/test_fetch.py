"""Data sets fetched whole: mirrors, hashes that are known or pinned, and a user's own files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pam.data.download import MIRROR, Patience, check_fetched, fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset, find_dataset
from pam.runtime.errors import UserError
from pam.runtime.files import PART

from .conftest import ROOT, Server, whole

QUICK = Patience(attempts=2, wait_s=0.01, timeout_s=0.3)
NAMES = ("train.tsv", "dev.tsv", "test.tsv")
CONTENTS = {name: f"Haus\tx={name}\tHaus\n".encode() for name in NAMES}


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR, raising=False)


@pytest.fixture
def dataset(server: Server, registry: Callable[[dict[str, Any]], Path]) -> Dataset:
    """Make a data set of three files on the loopback server, their hashes known."""
    files = {}
    for name, content in CONTENTS.items():
        server.answers[f"/{name}"] = whole(content)
        files[name] = {
            "urls": [f"{server.address}/{name}"],
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }

    path = registry({"words": {"task": "inflection", "mirror_name": "mirrored", "files": files}})

    return find_dataset([path], "words")


def unpinned(dataset: Dataset) -> Dataset:
    """Return the data set without the hashes and sizes of its files."""
    loose = {"sha256": None, "bytes": None}
    files = {key: file.model_copy(update=loose) for key, file in dataset.files.items()}
    return dataset.model_copy(update={"files": files})


def test_all_files_come_with_a_record_of_their_origin(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    fetch("words", dataset, out, patience=QUICK)
    assert {name: (out / name).read_bytes() for name in NAMES} == CONTENTS

    record = json.loads((out / "record.json").read_text())
    assert record["dev.tsv"]["from"] == f"{server.address}/dev.tsv"
    assert check_fetched(dataset, out)["dev.tsv"] == record["dev.tsv"]["sha256"]


def test_files_that_are_right_are_not_fetched_again(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    (tmp_path / "dev.tsv").write_bytes(CONTENTS["dev.tsv"])
    fetch("words", dataset, tmp_path, patience=QUICK)
    assert sorted(server.asked) == ["/test.tsv", "/train.tsv"]

    fetch("words", dataset, tmp_path, patience=QUICK)
    assert len(server.asked) == 2


def test_what_a_killed_download_left_is_cleared_away(dataset: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / f".train.tsv.x1y2z3w4{PART}").write_bytes(b"half")
    fetch("words", dataset, out, patience=QUICK)

    assert {path.name for path in out.iterdir()} == {*NAMES, "record.json", ".lock"}


def test_a_damaged_file_is_fetched_again(server: Server, dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_bytes(b"damaged")
    messages: list[str] = []
    fetch("words", dataset, tmp_path, patience=QUICK, say=messages.append)

    assert (tmp_path / "dev.tsv").read_bytes() == CONTENTS["dev.tsv"]
    assert any("fetching it again" in line for line in messages)


@pytest.mark.parametrize("folder", ["mirrored", "words"])
def test_a_mirror_folder_is_tried_first(
    server: Server, dataset: Dataset, tmp_path: Path, folder: str
) -> None:
    mirror = tmp_path / "mirror"
    (mirror / folder).mkdir(parents=True)
    for name, content in CONTENTS.items():
        (mirror / folder / name).write_bytes(content)
    fetch("words", dataset, tmp_path / "out", str(mirror), patience=QUICK)

    assert server.asked == []
    assert (tmp_path / "out" / "dev.tsv").read_bytes() == CONTENTS["dev.tsv"]


def test_a_mirror_address_from_the_environment_is_tried_first(
    server: Server, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in CONTENTS.items():
        server.answers[f"/base/mirrored/{name}"] = whole(content)
    monkeypatch.setenv(MIRROR, f"{server.address}/base/")
    fetch("words", dataset, tmp_path, patience=QUICK)

    assert set(server.asked) == {f"/base/mirrored/{name}" for name in NAMES}


def test_a_mirror_with_other_content_is_passed_over(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    mirror = tmp_path / "mirror" / "words"
    mirror.mkdir(parents=True)
    (mirror / "dev.tsv").write_bytes(b"x" * len(CONTENTS["dev.tsv"]))
    messages: list[str] = []
    fetch("words", dataset, tmp_path / "out", str(mirror.parent), QUICK, messages.append)

    assert (tmp_path / "out" / "dev.tsv").read_bytes() == CONTENTS["dev.tsv"]
    assert any("wrong hash" in line for line in messages)


def test_offline_the_message_names_every_missing_file_with_its_hash(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    server.answers.clear()
    (tmp_path / "train.tsv").write_bytes(CONTENTS["train.tsv"])
    with pytest.raises(UserError) as caught:
        fetch("words", dataset, tmp_path, patience=QUICK)

    hint = caught.value.hint or ""
    for name in ("dev.tsv", "test.tsv"):
        assert str(tmp_path / name) in hint and str(dataset.files[name].sha256) in hint
    assert "train.tsv" not in hint


def test_an_unknown_hash_is_pinned_by_the_first_download(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    loose = unpinned(dataset)
    fetch("words", loose, tmp_path, patience=QUICK)
    (tmp_path / "dev.tsv").unlink()
    server.answers["/dev.tsv"] = whole(b"changed on the server\n")

    with pytest.raises(UserError, match=r"wrong hash|longer than"):
        fetch("words", loose, tmp_path, patience=QUICK)


def test_a_file_changed_after_fetching_is_refused_when_preparing(
    dataset: Dataset, tmp_path: Path
) -> None:
    for pinned in (dataset, unpinned(dataset)):
        fetch("words", pinned, tmp_path, patience=QUICK)
        (tmp_path / "dev.tsv").write_bytes(b"Maus\tx=1\tMaus\n")
        with pytest.raises(UserError, match="wrong hash") as caught:
            check_fetched(pinned, tmp_path)
        assert caught.value.file == str(tmp_path / "dev.tsv")


def test_a_file_not_fetched_is_refused_when_preparing(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        check_fetched(dataset, tmp_path)


def test_ones_own_files_are_copied_anew_each_time(user_folder: Path, tmp_path: Path) -> None:
    dataset = find_dataset([user_folder / "datasets.yaml"], "my-nouns")
    fetch("my-nouns", dataset, tmp_path / "out")
    (user_folder / "dev.tsv").write_text("Hut\tx=1\tHüte\n")
    fetch("my-nouns", dataset, tmp_path / "out")

    assert (tmp_path / "out" / "dev.tsv").read_text() == "Hut\tx=1\tHüte\n"


@pytest.mark.parametrize("fault", ["no such file", "the file is empty"])
def test_ones_own_file_that_is_missing_or_empty_is_named(
    user_folder: Path, tmp_path: Path, fault: str
) -> None:
    (user_folder / "dev.tsv").unlink()
    if "empty" in fault:
        (user_folder / "dev.tsv").write_text("")
    dataset = find_dataset([user_folder / "datasets.yaml"], "my-nouns")

    with pytest.raises(UserError, match=fault) as caught:
        fetch("my-nouns", dataset, tmp_path / "out")
    assert caught.value.file == str(user_folder / "dev.tsv")


def test_a_damaged_record_is_named(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("[1]")
    with pytest.raises(UserError, match="not a record"):
        fetch("words", dataset, tmp_path, patience=QUICK)


def test_the_mirror_of_real_corpora_gives_the_papers_data(corpora: Path, tmp_path: Path) -> None:
    dataset = find_dataset([ROOT / "config" / "datasets.yaml"], "ddn13-de-noun")
    fetch("ddn13-de-noun", dataset, tmp_path, str(corpora), QUICK)
    assert len(check_fetched(dataset, tmp_path)) == 3


def test_a_licensed_data_set_says_how_to_get_it_and_where_to_put_it(tmp_path: Path) -> None:
    licensed = find_dataset([ROOT / "config" / "datasets.yaml"], "wat17-ja-en")
    with pytest.raises(UserError, match=r"no address gave `train-1.txt`") as caught:
        fetch("wat17-ja-en", licensed, tmp_path / "out", patience=QUICK)

    hint = str(caught.value.hint)
    assert "ASPEC is licensed: ask for it on https://" in hint and "PAM_MIRROR" in hint
    for name in ("train/train-1.txt", "dev/dev.txt", "test/test.txt"):
        assert str(tmp_path / "out" / name) in hint


def test_a_licensed_data_set_is_taken_from_the_users_folder(tmp_path: Path) -> None:
    licensed = find_dataset([ROOT / "config" / "datasets.yaml"], "wat17-ja-en")
    for name in licensed.files:
        path = tmp_path / "ASPEC" / "ASPEC-JE" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Training lines have a score in front.
        score = "0.9 ||| " if "train" in name else ""
        path.write_text(f"{score}A-1 ||| 1 ||| これは{path.stem}です。 ||| This is {path.stem}.\n")

    fetch("wat17-ja-en", licensed, tmp_path / "raw", str(tmp_path / "ASPEC"))
    prepare("wat17-ja-en", licensed, tmp_path / "raw", tmp_path / "out")

    assert (tmp_path / "out" / "test.tsv").read_text() == "これ は test です 。\tthis is test .\n"


def test_a_file_put_there_by_hand_is_held_to_its_md5(tmp_path: Path) -> None:
    talks = find_dataset([ROOT / "config" / "datasets.yaml"], "iwslt14-de-en")
    (tmp_path / "de-en.tgz").write_bytes(b"something else")
    with pytest.raises(UserError, match="wrong hash: MD5 is"):
        check_fetched(talks, tmp_path)


def test_a_copy_of_ones_own_file_that_has_changed_is_refused_when_preparing(
    user_folder: Path, tmp_path: Path
) -> None:
    dataset = find_dataset([user_folder / "datasets.yaml"], "my-nouns")
    fetch("my-nouns", dataset, tmp_path / "raw")
    (tmp_path / "raw" / "test.tsv").write_text("Rat\tN,SG\tRats\n")

    with pytest.raises(UserError, match="wrong hash") as caught:
        prepare("my-nouns", dataset, tmp_path / "raw", tmp_path / "prepared")
    assert caught.value.file == str(tmp_path / "raw" / "test.tsv")
