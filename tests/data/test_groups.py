"""Groups of rows: they stay with their rows from the files to the prepared folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import Prepared
from pam.data.registry import Dataset
from pam.runtime.errors import UserError

from .pairs import SENTENCES, columns, prepared

# Of each split pairs with a group; the second test pair has no words on one side.
ROWS = {
    split: [(source, target, f"{split} {number}") for number, (source, target) in enumerate(pairs)]
    for split, pairs in SENTENCES.items()
}
ROWS["test"].insert(1, ("\u200b", "nothing", "dropped"))
ROWS["test"].append(("Wo ist sie?", "Where is she?", " of  two words\u200b"))
EXPECTED = ["test 0", "test 1", "of two words"]
Write = Callable[[Path, str, list[tuple[str, str, str]]], Any]


def as_lines(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> dict[str, str]:
    names = {}
    for side, texts in zip(("de", "en", "category"), zip(*rows, strict=True), strict=True):
        # Training may have no file of groups.
        if any(texts):
            names[side] = f"{split}.{side}"
            text = "".join(f"{text}\n" for text in texts)
            (folder / names[side]).write_text(text, encoding="utf-8")
    return names


def as_columns(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> str:
    # Training may have no column of groups.
    text = "".join("\t".join(row).removesuffix("\t") + "\n" for row in rows)
    (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return f"{split}.tsv"


def as_json(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> str:
    # Training may have no such key.
    records = [
        {key: text for key, text in zip(("de", "en", "category"), row, strict=True) if text}
        for row in rows
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return f"{split}.jsonl"


READ = {
    "lines": (as_lines, {}),
    "columns": (as_columns, {"columns": {"de": 0, "en": 1, "category": 2}}),
    "jsonl": (as_json, {}),
}


def ready(folder: Path, kind: str, rows: dict[str, Any], **options: Any) -> Path:
    """Write rows in one of the ways of `READ`, and prepare them with their groups."""
    write, more = READ[kind]
    own = folder / "own"
    own.mkdir()
    splits = {split: write(own, split, rows[split]) for split in rows}
    entry = {
        "task": "translation",
        "files": {path.name: {"path": str(path)} for path in own.iterdir()},
        "splits": splits,
        "format": {
            "source": "de",
            "target": "en",
            "blank_lines": "drop",
            "read": {"kind": kind, "scores_by": "category", **more, **options.pop("read", {})},
            **options,
        },
    }
    return prepared(Dataset.model_validate(entry), folder)


def groups(folder: Path, split: str = "test") -> list[str]:
    return Prepared(folder).file(f"{split}.groups.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", READ)
def test_groups_stay_with_their_rows_and_change_nothing_else(tmp_path: Path, kind: str) -> None:
    folder = ready(tmp_path, kind, ROWS)
    assert groups(folder) == EXPECTED
    assert groups(folder, "dev") == ["dev 0"]
    assert len(columns(folder, "test")) == len(EXPECTED)
    assert not (folder / "train.groups.txt").exists()

    (tmp_path / "plain").mkdir()
    plain = ready(tmp_path / "plain", kind, ROWS, read={"scores_by": None})
    assert "scores_by" not in Prepared(plain).summary["format"]["read"]
    names = {path.name for path in plain.glob("*.*")}
    assert {path.name for path in folder.glob("*.*")} - names == {
        "dev.groups.txt",
        "test.groups.txt",
    }
    for name in names - {"summary.json"}:
        assert (plain / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("kind", READ)
def test_a_scored_row_without_a_group_is_named_and_training_needs_none(
    tmp_path: Path, kind: str
) -> None:
    rows = ROWS | {"train": [(*row[:2], "") for row in ROWS["train"]]}
    assert groups(ready(tmp_path, kind, rows)) == EXPECTED

    (tmp_path / "other").mkdir()
    rows["test"] = [*ROWS["test"][:2], ("Wer?", "Who?", " ")]
    with pytest.raises(UserError, match="no group") as caught:
        ready(tmp_path / "other", kind, rows)
    assert caught.value.line == 3 and "test" in str(caught.value.file)


@pytest.mark.parametrize("kind", ["columns", "jsonl"])
def test_groups_stay_with_rows_that_are_divided_and_sampled(tmp_path: Path, kind: str) -> None:
    rows = [(f"Satz Nummer {n} .", f"Line number {n} .", f"group {n}") for n in range(60)]
    read = {"divide": {"dev": 10, "test": 20}}
    folder = ready(tmp_path, kind, {"all": rows}, read=read, sample={"test": 7})

    names = groups(folder)
    assert len(names) == 7
    assert [f"group {source.split()[2]}" for source, _ in columns(folder, "test")] == names


def test_a_development_split_of_training_pairs_needs_no_groups(tmp_path: Path) -> None:
    rows = {split: ROWS[split] for split in ("train", "test")}
    rows["train"] = [(*row[:2], "") for row in rows["train"]]
    folder = ready(tmp_path, "lines", rows, dev_every=2)
    assert groups(folder) == EXPECTED
    assert not (folder / "dev.groups.txt").exists()


def test_a_file_or_a_column_of_groups_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`kind`"):
        ready(tmp_path, "columns", ROWS, read={"scores_by": "kind"})

    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match="has no file for the groups"):
        ready(tmp_path / "other", "lines", ROWS, read={"scores_by": "kind"})
