"""German nouns drawn from a package's table: what is drawn, left out and refused."""

from __future__ import annotations

import csv
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from pam.data import download as fetch_module
from pam.data.download import fetch
from pam.data.generated import CELLS, TABLE, GermanNouns, installed
from pam.data.registry import Dataset, find_dataset
from pam.runtime.errors import UserError

from .conftest import ROOT


def noun(lemma: str, plural: str, **changes: str) -> dict[str, str]:
    """Make a row of the table whose forms differ in number alone."""
    forms = {cell: plural if cell.endswith("plural") else lemma for cell in CELLS}
    return {"lemma": lemma, "pos": "Substantiv"} | forms | changes


class Table(Distribution):
    """A package with a table of our own."""

    version = "1.2.5"

    def __init__(self, path: Path, nouns: list[dict[str, str]]) -> None:
        self.path = path
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["lemma", "pos", *CELLS])
            writer.writeheader()
            writer.writerows(nouns)

    def locate_file(self, path: Any) -> Any:
        assert path == TABLE
        return self.path

    def read_text(self, filename: str) -> str | None:
        return None


NOUNS = [noun(stem + ending, stem + ending + "e") for stem in ("Tag", "Ort") for ending in "abcd"]
FEW = GermanNouns(train=3, dev=2, test=2)


def lemmas(text: str) -> list[str]:
    return [line.split("\t")[0] for line in text.splitlines()]


def test_rows_are_written_like_those_of_the_papers_data(tmp_path: Path) -> None:
    texts = FEW.draw(Table(tmp_path / "t", NOUNS))
    lines = texts["dev.tsv"].splitlines()[:8]
    lemma = lines[0].split("\t")[0]

    assert lines[0] == f"{lemma}\tcase=nominative,number=singular\t{lemma}"
    assert lines[7] == f"{lemma}\tcase=accusative,number=plural\t{lemma}e"


def test_no_lemma_is_in_two_splits_and_sizes_are_kept(tmp_path: Path) -> None:
    texts = FEW.draw(Table(tmp_path / "t", NOUNS))
    drawn = {name: set(lemmas(text)) for name, text in texts.items()}
    assert [len(drawn[f"{name}.tsv"]) for name in ("train", "dev", "test")] == [3, 2, 2]
    assert len(set.union(*drawn.values())) == 7


def test_the_order_of_the_table_does_not_matter_and_the_seed_does(tmp_path: Path) -> None:
    first = FEW.draw(Table(tmp_path / "a", NOUNS))
    assert FEW.draw(Table(tmp_path / "b", NOUNS[::-1])) == first
    assert FEW.model_copy(update={"seed": 2}).draw(Table(tmp_path / "a", NOUNS)) != first


@pytest.mark.parametrize(
    "unsuitable",
    [
        [noun("Peter", "Peter", pos="Substantiv,Vorname")],
        [noun("Rote Bete", "Rote Beten")],
        [noun("UNO", "UNOs")],
        [noun("Milch", "")],
        [noun("Loser", "Lose", **{"nominativ singular": "Lose"})],
        [noun("Bank", "Banken"), noun("Bank", "Bänke")],
        [noun("Fusionsbrennstoff", "Fusionsbrennstoffe")],
    ],
    ids=["name", "phrase", "abbreviation", "defective", "adjective", "homonym", "long"],
)
def test_what_is_no_plain_noun_is_left_out(
    tmp_path: Path, unsuitable: list[dict[str, str]]
) -> None:
    texts = GermanNouns(train=6, dev=1, test=1).draw(Table(tmp_path / "t", NOUNS + unsuitable))
    assert unsuitable[0]["lemma"] not in lemmas("".join(texts.values()))
    with pytest.raises(UserError, match="9 lemmas are requested, but the package has 8"):
        GermanNouns(train=7, dev=1, test=1).draw(Table(tmp_path / "t", NOUNS + unsuitable))


@pytest.fixture
def registered() -> Dataset:
    return find_dataset([ROOT / "config" / "datasets.yaml"], "de-noun")


def test_the_installed_package_gives_the_pinned_files(registered: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("german_nouns", reason="the package german-nouns is not installed")
    fetch("de-noun", registered, tmp_path)
    assert (tmp_path / "train.tsv").read_text(encoding="utf-8").count("\n") == 2364 * 8


def test_a_package_that_gives_other_words_is_refused(
    registered: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"seed": 1, "train": 3, "dev": 2, "test": 2}
    assert registered.package is not None

    package = registered.package.model_copy(update={"options": options})
    table = Table(tmp_path / "t", NOUNS)
    monkeypatch.setattr(fetch_module, "installed", lambda name, version: table)

    with pytest.raises(UserError, match="wrong hash") as caught:
        fetch("de-noun", registered.model_copy(update={"package": package}), tmp_path / "out")
    assert caught.value.hint == "pip install german-nouns==1.2.5"
    assert [file.name for file in (tmp_path / "out").iterdir()] == [fetch_module.LOCK]


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(UserError, match="not installed") as caught:
        installed("no-such-package-here", "1.0")
    assert caught.value.hint == "pip install no-such-package-here==1.0"
