"""The commands that fetch and prepare data, on a user's files and on the papers' data."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from pam.cli import COMMANDS
from pam.commands import Command
from pam.data.download import MIRROR
from pam.runtime.errors import UserError
from tests.long_forms import long_form

from .conftest import ROOT, write_rows

FETCH = COMMANDS["fetch"]
PREPARE = COMMANDS["prepare"]
WORD_ALIGNMENTS = COMMANDS["word-alignments"]


def called(command: Command, *arguments: str | Path) -> int:
    """Run a command with arguments; return its exit code."""
    parser = argparse.ArgumentParser()
    command.add_to(parser)
    return int(command.run(parser.parse_args([str(argument) for argument in arguments])))


def fetched(name: str, registry: Path, out: Path) -> int:
    """Fetch a data set of a registry; return the exit code."""
    return called(FETCH, "--dataset", name, "--registry", registry, "--out", out)


def ready(name: str, registry: Path, raw: Path, out: Path, *options: str) -> int:
    """Prepare a fetched data set of a registry; return the exit code."""
    return called(
        PREPARE, "--dataset", name, "--registry", registry, "--raw", raw, "--out", out, *options
    )


def prepared(user_folder: Path, out: Path) -> Path:
    """Fetch and prepare the user's own data set."""
    registry = user_folder / "datasets.yaml"
    assert fetched("my-nouns", registry, out / "raw") == 0
    assert ready("my-nouns", registry, out / "raw", out / "ready") == 0
    return out / "ready"


def test_ones_own_data_is_fetched_and_prepared(user_folder: Path, tmp_path: Path) -> None:
    folder = prepared(user_folder, tmp_path)
    files = ["source.vocab", "target.vocab", "codec.json", "summary.json"]
    for split in ("train", "dev", "test"):
        files += [f"{split}.tsv", f"{split}.safetensors"]

    assert sorted(path.name for path in folder.iterdir()) == sorted(files)

    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["dataset"], summary["task"]) == ("my-nouns", "inflection")
    assert summary["splits"]["train"]["rows"] == 4


def test_preparing_twice_gives_the_same_bytes(user_folder: Path, tmp_path: Path) -> None:
    first = prepared(user_folder, tmp_path / "a")
    second = prepared(user_folder, tmp_path / "b")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_a_lemma_in_two_splits_is_a_warning_on_stderr_and_in_the_summary(
    user_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(user_folder / "test.tsv", [("Haus", "case=genitive,number=singular", "Hauses")])
    folder = prepared(user_folder, tmp_path)
    summary = json.loads((folder / "summary.json").read_text())

    assert summary["lemmas_in_two_splits"]["train and test"]["count"] == 1
    assert "warning: my-nouns: train and test share lemmas: 1" in capsys.readouterr().err


def test_a_fault_is_named_in_the_users_own_file_and_nothing_is_written(
    user_folder: Path, tmp_path: Path
) -> None:
    write_rows(user_folder / "dev.tsv", [("Haus", "x=1", "Haus"), ("Haus", "x=1")])
    with pytest.raises(UserError, match="2 columns instead of 3") as caught:
        prepared(user_folder, tmp_path)
    assert (caught.value.file, caught.value.line) == (str(user_folder / "dev.tsv"), 2)
    assert not (tmp_path / "ready").exists()


def test_files_of_unequal_lengths_are_both_named_as_the_users_own(
    user_folder: Path, tmp_path: Path
) -> None:
    (user_folder / "letters.de").write_text("Haus\n" * 3)
    (user_folder / "letters.en").write_text("house\n" * 2)
    (user_folder / "datasets.yaml").write_text(
        "my-nouns:\n  task: translation\n  title: Letters\n"
        "  files: {letters.de: {path: letters.de}, letters.en: {path: letters.en}}\n"
        "  splits: {all: {de: letters.de, en: letters.en}}\n"
        "  format: {source: de, target: en, read: {kind: lines, divide: {dev: 1, test: 1}}}\n"
    )

    with pytest.raises(UserError) as caught:
        prepared(user_folder, tmp_path)
    assert str(caught.value).startswith(
        f"{user_folder / 'letters.de'}: 3 lines, but {user_folder / 'letters.en'} has 2"
    )


@pytest.mark.parametrize(
    ("kind", "lemmas", "cells"), [("noun", 2364, 8), *long_form([("verb", 1627, 27)])]
)
def test_the_papers_data_is_complete_and_its_text_unchanged(
    corpora: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    lemmas: int,
    cells: int,
) -> None:
    monkeypatch.setenv(MIRROR, str(corpora))
    registry = ROOT / "config" / "datasets.yaml"
    fetched(f"ddn13-de-{kind}", registry, tmp_path / "raw")
    ready(f"ddn13-de-{kind}", registry, tmp_path / "raw", tmp_path / "ready")
    summary = json.loads((tmp_path / "ready" / "summary.json").read_text())

    assert [split["lemmas"] for split in summary["splits"].values()] == [lemmas, 200, 200]
    assert [split["rows"] for split in summary["splits"].values()] == [
        {"noun": 18912, "verb": 43929}[kind],
        200 * cells,
        200 * cells,
    ]

    # Our preparation of the text changes no byte of it.
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
    """Write a registry of sentence pairs and of their word alignments, and fetch both."""
    for language in ("de", "en"):
        text = "".join(f"{language} {number}\n" for number in range(9))
        (tmp_path / f"mine.{language}").write_text(text)

    (tmp_path / "mine.txt").write_text("1-1 2p2\n" * 9)
    (tmp_path / "r.yaml").write_text(PAIRS)

    for name in ("my-pair", "my-links"):
        assert fetched(name, tmp_path / "r.yaml", tmp_path / name) == 0

    return tmp_path / "r.yaml"


def test_pairs_are_prepared_stage_by_stage_in_a_direction_of_ones_own(pair: Path) -> None:
    folder = pair.parent
    out = folder / "ready"
    for stage in ("extract", "tokenize", "segment", "index"):
        options = ["--format", "{source: en, target: de}", "--stage", stage]
        assert ready("my-pair", pair, folder / "my-pair", out, *options) == 0

    summary = json.loads((out / "summary.json").read_text())
    assert summary["languages"] == {"source": "en", "target": "de"}

    arguments = ["--dataset", "my-links", "--registry", pair, "--raw", folder / "my-links"]
    arguments += ["--data", out, "--out", folder / "gold"]
    assert called(WORD_ALIGNMENTS, *arguments) == 0

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
    folder = pair.parent
    with pytest.raises(UserError, match=message) as caught:
        ready("my-pair", pair, folder / "my-pair", folder / "ready", "--format", text)
    assert caught.value.file == "--format"
    assert not (folder / "ready").exists()
