"""`score --hypotheses`: outputs of any system, in plain text files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.evaluation.translations import REFERENCES, WORSE, text_of, write
from tests.training.small import ROOT


@pytest.fixture
def references(tmp_path: Path) -> Path:
    return write(tmp_path / "references.txt", REFERENCES)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return write(tmp_path / "outputs.txt", [text_of(words) for words in WORSE])


def test_every_metric_is_printed_with_its_interval(
    called: Call, outputs: Path, references: Path
) -> None:
    result = called("score", "--hypotheses", outputs, "--references", references)
    assert (result.code, result.err) == (0, "")

    values = re.findall(r"^(\w+): [\d.]+(?: %)? \[[\d.]+, [\d.]+\] of 6 lines$", result.out, re.M)
    assert values == ["bleu", "sacrebleu", "chrf", "exact_match", "wer", "cer"]
    assert re.search(r"^  signature: nrefs:1\|.*\|tok:13a\|", result.out, re.M)
    assert "gain" not in result.out


def test_a_baseline_adds_paired_gains(called: Call, outputs: Path, references: Path) -> None:
    arguments = ["--references", references, "--baseline", outputs, "--metric", "chrf", "wer"]
    result = called("score", "--hypotheses", references, *arguments)

    assert result.code == 0

    gains = re.findall(r"^  gain: (\S+) \[.+\], p = (\S+)$", result.out, re.M)
    assert len(gains) == 2 and all(float(gain) > 0 and float(p) < 0.05 for gain, p in gains)
    assert "bleu:" not in result.out


def test_json_holds_what_is_printed(
    called: Call, outputs: Path, references: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores.json"
    files = ["--hypotheses", outputs, "--references", references, references, "--lang", "en"]

    result = called("score", *files, "--out", out)
    assert (result.code, result.out) == (0, "")

    scores = json.loads(out.read_text(encoding="utf-8"))
    assert scores["language"] == "en" and scores["metrics"]["wer"]["unit"] == "%"
    assert scores["signatures"]["chrf"].startswith("nrefs:2|")
    assert scores["bootstrap"]["resamples"] == 10_000


def test_a_metric_that_is_left_out_is_printed_with_the_reason(called: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "zh.txt", ["我们明天去北京看我们的老朋友"])
    result = called("score", "--hypotheses", path, "--references", path, "--lang", "zh")

    assert result.code == 0
    assert "wer is left out: the word error rate is not defined for phrases" in result.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hypotheses", "outputs.txt"], "--hypotheses without --references"),
        (["--references", "references.txt"], "--references without --hypotheses"),
        (["--kind", "inflection", "--lang", "de"], "--lang without --hypotheses"),
        (
            ["--hypotheses", "outputs.txt", "--references", "references.txt", "--run", "x"],
            "--hypotheses and --run",
        ),
        (
            ["--hypotheses", "outputs.txt", "--references", "references.txt", "--data", "x"],
            "--hypotheses and --data",
        ),
        (["--hypotheses", "outputs.txt", "--references", "gone.txt"], "no such file"),
        (["--hypotheses", "outputs.txt", "--references", "short.txt"], "5 lines, but .* have 6"),
        (["--hypotheses", "empty.txt", "--references", "references.txt"], "the file is empty"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    called: Call,
    outputs: Path,
    references: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    write(tmp_path / "short.txt", REFERENCES[:5])
    write(tmp_path / "empty.txt", [])
    monkeypatch.chdir(tmp_path)

    message, hint = called("score", *arguments).message()
    assert re.search(words, message) and hint


def test_the_example_of_the_documentation_prints_what_it_shows(
    called: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    files = re.findall(r"^`(\w+\.txt)`:\n\n```text\n(.*?)```", page, re.M | re.S)

    assert len(files) == 3

    for name, content in files:
        (tmp_path / name).write_text(content, encoding="utf-8")

    (command,) = re.findall(r"^pam (score --hypotheses .*)$", page, re.M)
    (printed,) = re.findall(r"^It prints\n\n```text\n(.*?)```", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    result = called(*shlex.split(command))

    version = re.compile(r"version:[\w.]+")
    assert result.code == 0
    assert version.sub("", result.out) == version.sub("", printed)
