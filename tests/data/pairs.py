"""A few German and English sentences as a data set of sentence pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pam.data.dataset import SPLITS
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset

Pairs = Sequence[tuple[str, str]]

SENTENCES: dict[str, Pairs] = {
    "train": [
        ("Das ist ein Hund.", "This is a dog."),
        ("Das ist eine Katze.", "This is a cat."),
        ("Der Hund schläft heute.", "The dog is sleeping today."),
        ("Die Katze schläft nicht, oder?", "The cat isn't sleeping, is it?"),
        ("Hunde und Katzen", "Dogs and cats"),
    ],
    "dev": [("Die Katze ist ein Hund.", "The cat is a dog.")],
    "test": [("Ist das eine Maus?", "Is this a mouse?"), ("Das ist ein Hund.", "This is a dog.")],
}


def dataset(folder: Path, texts: Mapping[str, Pairs] = SENTENCES, **options: Any) -> Dataset:
    """Make a user's data set, its files in `folder`, a file for each language and split."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    splits = {}
    for split, pairs in texts.items():
        splits[split] = {"de": f"{split}.de", "en": f"{split}.en"}
        for side, name in enumerate(splits[split].values()):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / name).write_text(text, encoding="utf-8")
            files[name] = {"path": str(folder / name)}

    return Dataset.model_validate(
        {
            "task": "translation",
            "files": files,
            "splits": splits,
            "format": {"source": "de", "target": "en"} | options,
        }
    )


def prepared(user_dataset: Dataset, folder: Path, stage: str | None = None) -> Path:
    """Fetch and prepare a data set under `folder`; return the prepared folder."""
    fetch("mine", user_dataset, folder / "raw")
    prepare("mine", user_dataset, folder / "raw", folder / "out", stage)
    return folder / "out"


def ready(folder: Path, texts: Mapping[str, Pairs] = SENTENCES, **options: Any) -> Path:
    """Make a data set and prepare it; return the prepared folder."""
    return prepared(dataset(folder / "own", texts, **options), folder)


def columns(folder: Path, split: str) -> list[tuple[str, str]]:
    """Read the rows of a prepared text."""
    lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [(row[0], row[1]) for row in rows]


def many(count: int) -> dict[str, Pairs]:
    """Make `count` pairs for each split, all different."""
    return {
        split: [(f"Satz {split} {number} .", f"Line {split} {number} .") for number in range(count)]
        for split in SPLITS
    }
