"""Real parallel text, where it is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pam.data.dataset import Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.data.tokenizers import load_tokenizer, unescape_moses
from tests.long_forms import long_form

from .conftest import ROOT

OURS = [ROOT / "config" / "datasets.yaml"]
TALKS = "iwslt15-envi"


@pytest.mark.parametrize("language", ["en", "vi"])
def test_moses_words_are_those_of_the_published_text(corpora: Path, language: str) -> None:
    tokenizer = load_tokenizer("moses", language)
    differ = total = 0
    for name in ("tst2012", "tst2013"):
        raw = corpora / TALKS / f"andrew-tierno-xml/IWSLT15.TED.{name}.en-vi.{language}.xml"
        segments = re.findall(r'<seg id="\d+">(.*?)</seg>', raw.read_text(encoding="utf-8"))
        words = corpora / TALKS / f"sid7954-tok/{name}.{language}"
        published = words.read_text(encoding="utf-8").splitlines()
        for segment, line in zip(segments, published, strict=True):
            differ += " ".join(tokenizer.tokens(segment)) != unescape_moses(line.strip())
            total += 1

    # Moses tears three mistyped letters from their second mark.
    assert total == 1553 + 1268 and differ <= (4 if language == "vi" else 1)


@pytest.mark.parametrize(
    ("name", "rows", "kept"),
    [
        ("multi30k-de-en", [29_000, 1_014, 1_000], 29_000),
        ("tatoeba-en-vi", [8_426, 500, 500], 8_426),
        # They are read as the first one is.
        *long_form(
            [
                ("iwslt14-de-en-35k", [34_893, 7_282, 6_750], 34_341),
                ("tanaka-ja-en", [50_000, 500, 500], 50_000),
            ]
        ),
    ],
)
def test_open_data_sets_are_prepared_whole(
    tmp_path: Path, corpora: Path, name: str, rows: list[int], kept: int
) -> None:
    dataset = find_dataset(OURS, name)
    fetch(name, dataset, tmp_path / "raw", str(corpora))
    summary = prepare(name, dataset, tmp_path / "raw", tmp_path / "out")
    extracted = [row["pairs_out"] for row in summary["stages"] if row["stage"] == "extract"]

    assert extracted == rows

    data = Prepared(tmp_path / "out")
    assert [len(data.split(split)) for split in ("train", "dev", "test")] == [kept, *rows[1:]]

    unknown = summary["splits"]["test"]["source"]
    assert unknown["unknown"] < 0.07 * unknown["symbols"]

    references = (tmp_path / "out" / "test.target.txt").read_text(encoding="utf-8")
    assert references.count("\n") == rows[2]
