"""Talks of the WIT3 archives, prepared in the usual way, on a small made archive."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pam.data.prepare import prepare
from pam.data.registry import Dataset, find_dataset
from pam.runtime.errors import UserError

from .conftest import ROOT
from .pairs import columns

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def training(language: str, lines: int) -> str:
    """Write a file of training text, of which a line is blank and one too long for its pair."""
    word = {"de": "Satz", "en": "Line"}[language]
    texts = [f"{word} {number} ." for number in range(lines)]
    texts[3] = ""
    texts[4] = {"de": "kurz", "en": "far longer than what it translates"}[language]

    return (
        "<url>http://www.ted.com/talks/x</url>\n<keywords>talks, x</keywords>\n<talkid>7</talkid>\n"
        f"<title>Anna: {language}</title>\n<description>About {language}</description>\n"
        + "".join(f" {text} \n" for text in texts)
    )


def segments(language: str, name: str, lines: int) -> str:
    """Write a file of a test set."""
    return (
        '<?xml version="1.0"?>\n<mteval>\n<doc docid="1">\n<title>Not text</title>\n'
        + "".join(
            f'<seg id="{number}"> {name} {language}, it’s {number}!  </seg>\n'
            for number in range(1, lines + 1)
        )
        + "</doc>\n</mteval>\n"
    )


def archive(path: Path, **changed: str | None) -> Path:
    """Write an archive of 48 training lines and two segments a set."""
    files: dict[str, str | None] = {}
    for language in ("de", "en"):
        files[f"train.tags.de-en.{language}"] = training(language, 48)
        for name in TESTS:
            files[f"IWSLT14.{name}.de-en.{language}.xml"] = segments(language, name, 2)

    with tarfile.open(path, "w:gz") as tar:
        for name, text in (files | changed).items():
            if text is not None:
                content = text.encode()
                info = tarfile.TarInfo(f"de-en/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

    return path


def talks(**options: Any) -> Dataset:
    """Return our own entry, but held to no hash."""
    entry = find_dataset([ROOT / "config" / "datasets.yaml"], "iwslt14-de-en")
    file = entry.files["de-en.tgz"].model_copy(update={"md5": None})
    return entry.model_copy(update={"files": {"de-en.tgz": file}}).with_format(options)


def test_talks_are_prepared_in_the_usual_way(tmp_path: Path) -> None:
    archive(tmp_path / "de-en.tgz")
    summary = prepare("talks", talks(), tmp_path, tmp_path / "out")
    train, dev, test = (columns(tmp_path / "out", split) for split in ("train", "dev", "test"))

    # Title, description and 46 lines that are neither blank nor too unlike: two are held out.
    assert (len(train), len(dev), len(test)) == (46, 2, 10)
    assert train[0] == ("anna : de", "anna : en") and train[1] == ("about de", "about en")
    assert dev == [("satz 22 .", "line 22 ."), ("satz 45 .", "line 45 .")]
    assert [pair[1].split()[0] for pair in test[::2]] == [name.lower() for name in TESTS]
    assert test[0] == ("ted.dev2010 de , it ' s 1 !", "ted.dev2010 en , it 's 1 !")

    dropped = {row["split"]: row["dropped"] for row in summary["stages"] if row["dropped"]}
    assert dropped == {
        "train": {
            "kept for development": 2,
            "one more than 1.5 times as long as the other": 1,
        }
    }

    blank = summary["stages"][0]
    assert (blank["stage"], blank["split"], blank["pairs_in"]) == ("extract", "train", 50)


def test_the_other_direction_has_the_same_splits(tmp_path: Path) -> None:
    archive(tmp_path / "de-en.tgz")
    prepare("talks", talks(), tmp_path, tmp_path / "there")
    turned = talks(source="en", target="de")
    prepare("talks", turned, tmp_path, tmp_path / "back")
    for split in ("train", "dev", "test"):
        back = [pair[::-1] for pair in columns(tmp_path / "back", split)]
        assert back == columns(tmp_path / "there", split)


def test_a_missing_file_of_the_archive_is_named(tmp_path: Path) -> None:
    archive(tmp_path / "de-en.tgz", **{"IWSLT14.TED.tst2011.de-en.en.xml": None})
    with pytest.raises(UserError, match=r"no file `IWSLT14.TED.tst2011.de-en.en.xml`") as caught:
        prepare("talks", talks(), tmp_path, tmp_path / "out")
    assert caught.value.file == str(tmp_path / "de-en.tgz")


def test_sets_of_different_length_are_refused_with_both_counts(tmp_path: Path) -> None:
    name = "IWSLT14.TED.tst2012.de-en.en.xml"
    archive(tmp_path / "de-en.tgz", **{name: segments("en", "TED.tst2012", 3)})
    with pytest.raises(UserError, match=r"2 lines, but .*tst2012.de-en.en.xml has 3"):
        prepare("talks", talks(), tmp_path, tmp_path / "out")


def test_a_fault_within_the_archive_is_placed_there(tmp_path: Path) -> None:
    name = "IWSLT14.TED.tst2010.de-en.de.xml"
    archive(tmp_path / "de-en.tgz", **{name: '<seg id="1"> x </seg>\n<seg id="2"> </seg>\n'})
    with pytest.raises(UserError, match="is empty") as caught:
        prepare("talks", talks(blank_lines="refuse"), tmp_path, tmp_path / "out")

    first = tmp_path / "de-en.tgz" / "train.tags.de-en.de"
    assert (caught.value.file, caught.value.line) == (str(first), 9)
