"""What the report says of the data: sizes, what was dropped on the way and why, licences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from pam.config import Experiment
from pam.reporting.render import Table
from pam.reporting.runs import label_of

SPLITS = ("train", "dev", "test")

Summaries = Mapping[str, dict[str, Any]]
"""Task to the content of a `summary.json`."""


def datasets(experiment: Experiment, data: Summaries, gold: Summaries) -> list[Table]:
    """A table for each kind of task, one for the stages, one for word alignments; empty ones not.

    Args:
        data: of the prepared data of every task.
        gold: of the word alignments of those tasks that have some.
    """
    labels = {name: label_of(name, experiment) for name in experiment.tasks}
    tables = []
    for kind, about in KINDS.items():
        own = {task: found for task, found in data.items() if found["task"] == kind}
        rows = [(labels[task], found["dataset"], *row) for task, found in own.items() for row in about.rows(found)]
        notes = [note for task in own for note in _notes(labels[task], own[task], experiment.tasks[task].note)]
        headings = ("Task", "Data set", *about.headings)
        tables.append(_table(about.title, headings, "ll" + about.align, rows, notes))
    stages = [(labels[task], *row) for task, found in data.items() for row in _stages(found["stages"])]
    headings = ("Task", "Stage", "Split", "Pairs in", "Pairs out", "Dropped", "Why")
    tables.append(_table("Stages of preparing", headings, "lllrrrp", stages, []))
    links = [(labels[task], *_links(found)) for task, found in gold.items()]
    headings = ("Task", "Data set", "Sentences", "Sure links", "Possible links", "Unknown")
    notes = [note for task, found in gold.items() for note in _notes(labels[task], found)]
    tables.append(_table("Word alignments", headings, "llrrrr", links, notes))
    return [table for table in tables if len(table.shown)]


def _table(
    title: str, headings: Sequence[str], align: str, rows: Sequence[tuple[Any, ...]], notes: Sequence[str]
) -> Table:
    """A table for the report alone."""

    texts = [[one if isinstance(one, str) else "" if one is None else f"{one:,.0f}" for one in row] for row in rows]
    shown = pd.DataFrame(texts, columns=list(headings), dtype=object)
    return Table(title, pd.DataFrame(), shown, align, tuple(notes))


def _inflection(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for split in SPLITS:
        counts = found["splits"][split]
        unseen = sum(counts["unseen_source"].values()) + sum(counts["unseen_target"].values())
        duplicates, several = counts["duplicate_rows"], counts["cells_with_several_forms"]
        rows.append((split, counts["rows"], counts["lemmas"], duplicates, several, unseen))
    return rows


def _translation(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for split in SPLITS:
        counts = found["splits"][split]
        sides = [
            (found["languages"][side], counts[side]["symbols"], counts[side]["unknown"])
            for side in ("source", "target")
        ]
        longest = max(counts[side]["longest"] for side in ("source", "target"))
        both = found["pairs_in_train_too"].get(split)
        rows.append((split, counts["rows"], *sides[0], *sides[1], longest, both))
    return rows


class Kind(NamedTuple):
    """How a kind of task is shown: a row for each split, made of a task's summary."""

    title: str
    headings: tuple[str, ...]
    align: str
    rows: Callable[[dict[str, Any]], list[tuple[Any, ...]]]


KINDS = {
    "inflection": Kind(
        "Morphological inflection",
        ("Split", "Rows", "Lemmas", "Duplicates", "Several forms", "Unseen"),
        "lrrrrr",
        _inflection,
    ),
    "translation": Kind(
        "Translation",
        (*("Split", "Pairs", "From", "Symbols", "Unknown", "To", "Symbols", "Unknown"), *("Longest", "In train too")),
        "lrlrrlrrrr",
        _translation,
    ),
}


def _stages(stages: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for one in stages:
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in one["dropped"].items())
        counts = (one["pairs_in"], one["pairs_out"], sum(one["dropped"].values()))
        rows.append((one["stage"], one["split"], *counts, reasons))
    return rows


def _links(found: dict[str, Any]) -> tuple[Any, ...]:
    unknown = found["source"]["unknown"] + found["target"]["unknown"]
    links = found["links"]
    return found["dataset"], found["rows"], links["sure"], links["possible"], unknown


def _notes(label: str, found: dict[str, Any], note: str = "") -> list[str]:
    """What the task's author says of it, whose data these are, and what preparing noticed."""
    licence = f"{found['title']}. Licence: {found['licence'] or 'not stated'}."
    texts = [note, licence, found["citation"], *found.get("warnings", [])]
    return [f"{label}: {text}" for text in texts if text]
