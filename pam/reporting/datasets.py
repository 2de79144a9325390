"""What the report says of the data: sizes, what was dropped on the way and why, licences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pam.config import Experiment, TaskConfig
from pam.reporting.numbers import grouped
from pam.reporting.typeset import Sheet

SPLITS = ("train", "dev", "test")

Summaries = Mapping[str, dict[str, Any]]
"""Task to the content of a `summary.json`."""


def sheets(experiment: Experiment, data: Summaries, gold: Summaries) -> list[Sheet]:
    """A sheet for each kind of task, one for the stages, one for word alignments; empty ones not.

    Args:
        data: of the prepared data of every task.
        gold: of the word alignments of those tasks that have some.
    """
    labels = {name: task.label or name for name, task in experiment.tasks.items()}
    made = []
    for kind, about in KINDS.items():
        own = {task: found for task, found in data.items() if found["task"] == kind}
        body = [
            (labels[task], found["dataset"], *row)
            for task, found in own.items()
            for row in about.rows(found)
        ]
        notes = [
            note for task in own for note in _notes(labels[task], experiment.tasks[task], own[task])
        ]
        headings = ("Task", "Data set", *about.headings)
        made.append(_sheet(about.title, headings, "ll" + about.align, body, notes))
    stages = [
        (labels[task], *row) for task, found in data.items() for row in _stages(found["stages"])
    ]
    headings = ("Task", "Stage", "Split", "Pairs in", "Pairs out", "Dropped", "Why")
    made.append(_sheet("Stages of preparing", headings, "lllrrrp", stages, []))
    links = [(labels[task], *_links(found)) for task, found in gold.items()]
    headings = ("Task", "Data set", "Sentences", "Sure links", "Possible links", "Unknown")
    notes = [note for task, found in gold.items() for note in _notes(labels[task], None, found)]
    made.append(_sheet("Word alignments", headings, "ll", links, notes))
    return [sheet for sheet in made if sheet.body]


def _sheet(
    title: str,
    headings: Sequence[str],
    align: str,
    rows: Sequence[tuple[Any, ...]],
    notes: Sequence[str],
) -> Sheet:
    """A sheet for the report alone; sides that are not given are those of numbers."""
    body = [tuple(one if isinstance(one, str) else grouped(one) for one in row) for row in rows]
    sides = align.ljust(len(headings), "r")
    return Sheet(title, tuple(headings), [], tuple(headings), body, sides, tuple(notes))


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
        (
            *("Split", "Pairs", "From", "Symbols", "Unknown", "To", "Symbols", "Unknown"),
            *("Longest", "In train too"),
        ),
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


def _notes(label: str, task: TaskConfig | None, found: dict[str, Any]) -> list[str]:
    """What the task's author says of it, whose data these are, and what preparing noticed."""
    licence = f"{found['title']}. Licence: {found['licence'] or 'not stated'}."
    own = [task.note] if task else []
    texts = [*own, licence, found["citation"], *found.get("warnings", [])]
    return [f"{label}: {text}" for text in texts if text]
