"""Sentence pairs through the workflow: a rule for each stage, and what a change runs again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.workflow.checkouts import Checkout, checkout
from tests.workflow.conftest import refusal

REGISTRY = """\
letters:
  task: translation
  files: {letters.de: {path: letters.de}, letters.en: {path: letters.en}}
  splits: {all: {de: letters.de, en: letters.en}}
  format: {source: de, target: en, read: {kind: lines, divide: {dev: 4, test: 4}}}
links:
  task: alignment
  files: {gold.de: {path: gold.de}, gold.en: {path: gold.en}, gold.txt: {path: gold.txt}}
  splits: {gold: {de: gold.de, en: gold.en, links: gold.txt}}
  format: {source: de, target: en}
"""

EXPERIMENT = """\
experiment: letters
models: [soft]
tasks:
  de-en: {dataset: letters, word_alignments: links}
  en-de: {dataset: letters, format: {source: en, target: de, subwords: {merges: 5}}}
registries: [config/datasets.yaml, own/datasets.yaml]
device: cpu
"""

GOLD = "results/letters/de-en/gold/links.json"
OWN = ["--configfile", "own/experiment.yaml"]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy with a data set of pairs, prepared in both directions."""
    made = checkout(tmp_path_factory.mktemp("letters") / "checkout")
    made.write("own/datasets.yaml", REGISTRY)
    made.write("own/experiment.yaml", EXPERIMENT)

    for language, word in (("de", "Brief"), ("en", "letter")):
        lines = [f"{word} {number} ." for number in range(30)]
        made.write(f"own/letters.{language}", "\n".join(lines) + "\n")
        made.write(f"own/gold.{language}", f"{word} 99 .\n")

    made.write("own/gold.txt", "1-1 2-2 3p3\n")
    outcome = made.run("data", GOLD, *OWN)

    assert outcome.code == 0, outcome.said

    return made


def planned(made: Checkout) -> Counter[str]:
    outcome = made.plan("data", GOLD, *OWN)
    assert outcome.code == 0, outcome.said
    return outcome.jobs


@pytest.mark.slow
def test_every_stage_is_a_rule_and_the_summary_counts_them_all(letters: Checkout) -> None:
    assert not planned(letters)

    data = letters.folder / "results/letters/en-de/data"
    summary = json.loads((data / "summary.json").read_text())

    assert [row["stage"] for row in summary["stages"]] == [
        stage for stage in ("extract", "tokenize", "segment") for _ in range(3)
    ]
    assert summary["languages"] == {"source": "en", "target": "de"}
    assert (data / "codec.json").is_file() and (data / "test.target.txt").is_file()

    links = json.loads((letters.folder / GOLD).read_text())
    assert links == {"sure": [[[0, 0], [1, 1]]], "possible": [[[0, 0], [1, 1], [2, 2]]]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "jobs"),
    [
        ("own/experiment.yaml", "merges: 5", "merges: 6", {"segment_text": 1, "prepare_data": 1}),
        (
            "own/datasets.yaml",
            "format: {source: de, target: en, read",
            "format: {lowercase: true, source: de, target: en, read",
            {
                "tokenize_text": 2,
                "segment_text": 2,
                "prepare_data": 2,
                "prepare_word_alignments": 1,
            },
        ),
        (
            "pam/tasks/translation/stages.py",
            'keys: ClassVar[tuple[str, ...]] = ("vocabulary", "source_eos", "add_symbols")',
            'keys: ClassVar[tuple[str, ...]] = ("vocabulary", "source_eos", "add_symbols", *())',
            {"prepare_data": 2, "prepare_word_alignments": 1},
        ),
        ("own/gold.txt", "3p3", "3-3", {"fetch_data": 1, "prepare_word_alignments": 1}),
    ],
    ids=["merges", "case", "code of one stage", "links"],
)
def test_a_change_runs_again_what_depends_on_it_and_no_more(
    letters: Checkout, tmp_path: Path, file: str, old: str, new: str, jobs: dict[str, int]
) -> None:
    copy = letters.copy(tmp_path / "copy")
    copy.edit(file, old, new)
    assert planned(copy) == jobs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("word_alignments: links", "word_alignments: linkz", "unknown data set `linkz`"),
        (
            "word_alignments: links",
            "word_alignments: letters",
            "`letters` holds no word alignments",
        ),
        ("dataset: letters, word", "dataset: links, word", "holds word alignments"),
        ("merges: 5", "merge: 5", "`tasks.en-de.format.subwords.merge`"),
        ("source: en, target: de", "source: en", "same language"),
    ],
)
def test_a_fault_in_a_task_ends_the_run_before_it_starts(
    own: Checkout, old: str, new: str, message: str
) -> None:
    own.write("own/datasets.yaml", REGISTRY)
    own.write("own/experiment.yaml", EXPERIMENT)
    own.edit("own/experiment.yaml", old, new)

    error = refusal()

    assert message in error
    lines = (own.folder / "own/experiment.yaml").read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if new in text)
    assert error.startswith(f"own/experiment.yaml:{line}: ")
