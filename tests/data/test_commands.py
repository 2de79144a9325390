from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from pam.cli import COMMANDS
from pam.commands import Command
from pam.data.download import MIRROR
from pam.io import UserError

from .conftest import ROOT, write_rows

FETCH, PREPARE, WORD_ALIGNMENTS = (
    COMMANDS[name] for name in ("fetch", "prepare", "word-alignments")
)


def called(command: Command, *arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    command.add_to(parser)
    return int(command.run(parser.parse_args([str(argument) for argument in arguments])))


def prepared(own: Path, out: Path) -> Path:
    """Fetches and prepares the user's own data set."""
    named = ("--dataset", "my-nouns", "--registry", own / "datasets.yaml")
    assert called(FETCH, *named, "--out", out / "raw") == 0
    assert called(PREPARE, *named, "--raw", out / "raw", "--out", out / "ready") == 0
    return out / "ready"


def test_ones_own_data_is_fetched_and_prepared(own: Path, tmp_path: Path) -> None:
    ready = prepared(own, tmp_path)
    assert sorted(path.name for path in ready.iterdir()) == sorted(
        [f"{name}.{end}" for name in ("train", "dev", "test") for end in ("tsv", "safetensors")]
        + ["source.vocab", "target.vocab", "summary.json"]
    )
    summary = json.loads((ready / "summary.json").read_text())
    assert (summary["dataset"], summary["task"]) == ("my-nouns", "inflection")
    assert summary["splits"]["train"]["rows"] == 4


def test_preparing_twice_gives_the_same_bytes(own: Path, tmp_path: Path) -> None:
    first, second = prepared(own, tmp_path / "a"), prepared(own, tmp_path / "b")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_a_lemma_in_two_splits_is_a_warning_on_stderr_and_in_the_summary(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(own / "test.tsv", [("Haus", "case=genitive,number=singular", "Hauses")])
    ready = prepared(own, tmp_path)
    summary = json.loads((ready / "summary.json").read_text())
    assert summary["lemmas_in_two_splits"]["train and test"]["count"] == 1
    assert "warning: my-nouns: train and test share lemmas: 1" in capsys.readouterr().err


def test_a_fault_is_named_in_the_users_own_file_and_nothing_is_written(
    own: Path, tmp_path: Path
) -> None:
    write_rows(own / "dev.tsv", [("Haus", "x=1", "Haus"), ("Haus", "x=1")])
    with pytest.raises(UserError, match="2 columns instead of 3") as caught:
        prepared(own, tmp_path)
    assert (caught.value.file, caught.value.line) == (str(own / "dev.tsv"), 2)
    assert not (tmp_path / "ready").exists()


def test_files_of_unequal_lengths_are_both_named_as_the_users_own(
    own: Path, tmp_path: Path
) -> None:
    (own / "letters.de").write_text("Haus\n" * 3)
    (own / "letters.en").write_text("house\n" * 2)
    (own / "datasets.yaml").write_text(
        "my-nouns:\n  task: translation\n  title: Letters\n"
        "  files: {letters.de: {path: letters.de}, letters.en: {path: letters.en}}\n"
        "  splits: {all: {de: letters.de, en: letters.en}}\n"
        "  format: {source: de, target: en, read: {kind: lines, divide: {dev: 1, test: 1}}}\n"
    )
    with pytest.raises(UserError) as caught:
        prepared(own, tmp_path)
    assert str(caught.value).startswith(
        f"{own / 'letters.de'}: 3 lines, but {own / 'letters.en'} has 2"
    )


@pytest.mark.parametrize(("kind", "lemmas", "cells"), [("noun", 2364, 8), ("verb", 1627, 27)])
def test_the_papers_data_is_complete_and_its_text_unchanged(
    corpora: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    lemmas: int,
    cells: int,
) -> None:
    monkeypatch.setenv(MIRROR, str(corpora))
    named = ("--dataset", f"ddn13-de-{kind}", "--registry", ROOT / "config" / "datasets.yaml")
    called(FETCH, *named, "--out", tmp_path / "raw")
    called(PREPARE, *named, "--raw", tmp_path / "raw", "--out", tmp_path / "ready")
    summary = json.loads((tmp_path / "ready" / "summary.json").read_text())
    assert [split["lemmas"] for split in summary["splits"].values()] == [lemmas, 200, 200]
    assert [split["rows"] for split in summary["splits"].values()] == [
        {"noun": 18912, "verb": 43929}[kind],
        *(200 * cells,) * 2,
    ]
    raw = tmp_path / "raw" / f"base_forms_de_{kind}_test.txt.sigmorphon_format.txt"
    assert (tmp_path / "ready" / "test.tsv").read_bytes() == raw.read_bytes()


PAIRS = """\
my-pair:
  task: translation
  files: {mine.de: {path: mine.de}, mine.en: {path: mine.en}}
  splits: {all: {de: mine.de, en: mine.en}}
  format: {source: de, target: en, read: {kind: lines, divide: {dev: 2, test: 2}}}
my-links:
  task: alignment
  files: {mine.de: {path: mine.de}, mine.en: {path: mine.en}, mine.txt: {path: mine.txt}}
  splits: {gold: {de: mine.de, en: mine.en, links: mine.txt}}
  format: {source: de, target: en}
"""


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A registry of sentence pairs and of their word alignments, fetched."""
    for language in ("de", "en"):
        text = "".join(f"{language} {number}\n" for number in range(9))
        (tmp_path / f"mine.{language}").write_text(text)
    (tmp_path / "mine.txt").write_text("1-1 2p2\n" * 9)
    (tmp_path / "r.yaml").write_text(PAIRS)
    for name in ("my-pair", "my-links"):
        named = ("--dataset", name, "--registry", tmp_path / "r.yaml")
        assert called(FETCH, *named, "--out", tmp_path / name) == 0
    return tmp_path / "r.yaml"


def test_pairs_are_prepared_stage_by_stage_in_a_direction_of_ones_own(pair: Path) -> None:
    folder = pair.parent
    named = ("--dataset", "my-pair", "--registry", pair, "--raw", folder / "my-pair")
    turned = ("--format", "{source: en, target: de}", "--out", folder / "ready")
    for stage in ("extract", "tokenize", "segment", "index"):
        assert called(PREPARE, *named, *turned, "--stage", stage) == 0
    summary = json.loads((folder / "ready" / "summary.json").read_text())
    assert summary["languages"] == {"source": "en", "target": "de"}
    aligned = ("--dataset", "my-links", "--registry", pair, "--raw", folder / "my-links")
    assert (
        called(WORD_ALIGNMENTS, *aligned, "--data", folder / "ready", "--out", folder / "gold") == 0
    )
    links = json.loads((folder / "gold" / "links.json").read_text())
    assert links["sure"] == [[[0, 0]]] * 9 and links["possible"] == [[[0, 0], [1, 1]]] * 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{source: en", "not valid YAML"),
        ("source", "no keys"),
        ("{sauce: en}", r"unknown key `sauce`\n.*did you mean `source`"),
        ("{target: de}", "the same language"),
    ],
)
def test_overrides_that_make_no_sense_are_refused(pair: Path, text: str, message: str) -> None:
    named = ("--dataset", "my-pair", "--registry", pair, "--raw", pair.parent / "my-pair")
    with pytest.raises(UserError, match=message) as caught:
        called(PREPARE, *named, "--out", pair.parent / "ready", "--format", text)
    assert caught.value.file == "--format"
    assert not (pair.parent / "ready").exists()
