"""`pam data new`: an entry for files of one's own, guessed, shown and written."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
import yaml

from pam.cli import main
from pam.data.registry import load_registries
from tests.data.test_own_files import paradigms


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(*arguments: str) -> None:
    assert main(["data", "new", *arguments]) == 0


def test_a_table_in_the_order_of_unimorph_is_described_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("nouns.tsv.xz").write_bytes(lzma.compress(paradigms(order="lemma form features").encode()))
    new("nouns.tsv.xz", "--name", "my-nouns")
    said = capsys.readouterr().out
    assert said.count("  N;") == 5
    for text in (
        "lemma   features  form",
        "python -m pam check --configfile my-nouns.yaml",
        "columns: [lemma, form, f",
    ):
        assert text in said
    entry = load_registries(["datasets.yaml"])["my-nouns"]
    assert (entry.task, entry.splits) == ("inflection", {"all": "nouns.tsv.xz"})
    assert entry.format == {
        "columns": ["lemma", "form", "features"],
        "separator": ";",
        "divide": {"dev": 12, "test": 12},
    }


def test_a_pair_of_texts_has_its_languages_from_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("texts").mkdir()
    Path("texts/letters.de").write_text("Ein Haus.\n" * 50)
    Path("texts/letters.en").write_text("A house.\n" * 50)
    new("texts/letters.de", "texts/letters.en", "--registry", "mine.yaml")
    assert "Ein Haus.  A house." in capsys.readouterr().out
    content = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))["letters"]
    assert content["files"]["letters.de"] == {"path": "texts/letters.de"}
    assert content["splits"] == {"all": {"de": "letters.de", "en": "letters.en"}}
    assert content["format"]["read"] == {"kind": "lines", "divide": {"dev": 5, "test": 5}}


def test_csv_and_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text("de,en\n" + '"Ja, gut",Yes\nNein,No\n' * 20, encoding="utf-8")
    new("p.csv")
    assert "Ja, gut  Yes" in capsys.readouterr().out
    read = load_registries(["datasets.yaml"])["p"].format["read"]
    expected = {"kind": "columns", "columns": {"de": 0, "en": 1}, "separator": ",", "quotes": True, "heading": True}
    assert read == expected | {"divide": {"dev": 4, "test": 4}}


def test_files_of_each_split_go_to_it_and_entries_are_added(capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "valid", "test"):
        Path(f"{split}.tsv").write_text(paradigms(separator=","), encoding="utf-8")
    Path("a.tsv").write_text("x a\ty b\n" * 30, encoding="utf-8")
    new("a.tsv", "--languages", "de", "en")
    new("train.tsv", "valid.tsv", "test.tsv", "--name", "nouns")
    found = load_registries(["datasets.yaml"])
    assert list(found) == ["a", "nouns"]
    assert found["nouns"].splits == {"train": "train.tsv", "dev": "valid.tsv", "test": "test.tsv"}
    assert found["nouns"].format == {}
    before = Path("datasets.yaml").read_bytes()
    assert main(["data", "new", "a.tsv", "--languages", "de", "en"]) == 2
    assert "`a` is in this registry already" in capsys.readouterr().err
    assert Path("datasets.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({"a.tsv": "x\ty\n"}, [], "name both: --languages de en"),
        ({"a.txt": "one two\nthree\n"}, [], "no columns were found"),
        ({"a.tsv": "a\tb\tc\td\n" * 3}, ["--languages", "de", "en", "--kind", "inflection"], "4 columns for a task of"),
        ({"train.tsv": "a\tb\tc\n", "dev.tsv": "a\tb\tc\n"}, [], "these files make no data set"),
        ({"a.de": "x\n", "a.en": "x\ny\n"}, [], "1 lines, but a.en has 2"),
        ({"a.de": b"\xff\n", "a.en": "x\n"}, [], "a.de:1: this is not UTF-8 text"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], files: dict[str, str | bytes], arguments: list[str], message: str
) -> None:
    for name, content in files.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["data", "new", *files, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("datasets.yaml").exists()
