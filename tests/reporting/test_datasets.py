"""The tables of the report about the data."""

from __future__ import annotations

from typing import Any

from pam.experiments.experiment import Experiment
from pam.reporting.tables.data import datasets

SIDE = {"symbols": 1200, "unknown": 7, "longest": 31}
STAGE = {"stage": "tokenize", "split": "train", "pairs_in": 34893, "pairs_out": 34341}
ABOUT = {"title": "Talks", "licence": "CC BY", "citation": "Someone (2014)", "warnings": []}
TALKS: dict[str, Any] = {
    **ABOUT,
    "dataset": "talks",
    "task": "translation",
    "languages": {"source": "de", "target": "en"},
    "splits": {
        split: {"rows": 100, "source": SIDE, "target": SIDE} for split in ("train", "dev", "test")
    },
    "pairs_in_train_too": {"dev": 0, "test": 3},
    "stages": [STAGE | {"dropped": {"too long": 500, "empty": 52}}],
}
COUNTS = {
    "rows": 80,
    "lemmas": 40,
    "duplicate_rows": 1,
    "cells_with_several_forms": 0,
    "unseen_source": {"é": 2},
    "unseen_target": {},
}
NOUNS: dict[str, Any] = {
    **ABOUT,
    "dataset": "nouns",
    "task": "inflection",
    "warnings": ["one lemma stands twice"],
    "splits": dict.fromkeys(("train", "dev", "test"), COUNTS),
    "stages": [],
}
LINKS: dict[str, Any] = {
    **ABOUT,
    "dataset": "links",
    "task": "alignment",
    "rows": 508,
    "links": {"sure": 9613, "possible": 10534},
    "source": SIDE,
    "target": SIDE,
}


def made(**tasks: dict[str, Any]) -> Experiment:
    """Return an experiment with these tasks."""
    return Experiment.model_validate(
        {
            "experiment": "x",
            "models": ["soft"],
            "tasks": {name: {"dataset": name} | task for name, task in tasks.items()},
        }
    )


def test_both_kinds_of_task_stages_and_alignments_have_a_table() -> None:
    experiment = made(nouns={}, talks={"label": "TED", "note": "not for sale"})
    tables = datasets(experiment, {"nouns": NOUNS, "talks": TALKS}, {"talks": LINKS})
    titles = ["Morphological inflection", "Translation", "Stages of preparing", "Word alignments"]

    assert [table.title for table in tables] == titles

    nouns, talks, stages, links = tables
    assert nouns.texts[0] == ("nouns", "nouns", "train", "80", "40", "1", "0", "2")
    assert "nouns: one lemma stands twice" in [note.text for note in nouns.notes]
    assert talks.texts[2][:5] == ("TED", "talks", "test", "100", "de")
    assert talks.texts[2][-1] == "3"
    assert talks.notes[0].text == "TED: not for sale"

    expected = ("TED", "tokenize", "train", "34,893", "34,341", "552")
    assert stages.texts == [(*expected, "too long: 500; empty: 52")]
    assert links.texts == [("TED", "links", "508", "9,613", "10,534", "14")]


def test_what_an_experiment_does_not_have_is_left_out() -> None:
    (only,) = datasets(made(nouns={}), {"nouns": NOUNS}, {})
    assert only.title == "Morphological inflection"


def test_symbols_added_to_those_of_a_trained_model_are_counted_below_the_table() -> None:
    summary = NOUNS | {"symbols_of": "old/soft", "added_symbols": {"source": 3, "target": 41}}
    (table, *_) = datasets(made(nouns={}), {"nouns": summary}, {})
    (note,) = [note.text for note in table.notes if "old/soft" in note.text]
    assert "3" in note and "41" in note
