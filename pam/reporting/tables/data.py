"""Build the tables of the data: sizes, dropped pairs with the reason, licences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pam.data.prepare import added_symbols_text
from pam.experiments.experiment import Experiment
from pam.reporting.cells import Name
from pam.reporting.render import Note, Table, plain_table
from pam.reporting.runs import label_of
from pam.reporting.sizes import Sizes
from pam.runtime.files import read_json
from pam.tasks import TaskKind, find_kind, imported

Summary = dict[str, Any]  # the content of a `summary.json`


def summaries_of(paths: Sequence[str]) -> dict[str, Summary]:
    """Read the summaries of prepared data by task.

    Args:
        paths: their files, such as `results/quick/de-noun/data/summary.json`.
    """
    return {Path(path).parents[1].name: read_json(path) for path in paths}


def datasets(
    experiment: Experiment, data: Mapping[str, Summary], gold: Mapping[str, Summary]
) -> list[Table]:
    """Build a table for each kind of task, one for the stages, one for word alignments.

    Tables without rows are left out.

    Args:
        data: task -> summary of its prepared data.
        gold: task -> summary of its word alignments, for the tasks that have some.
    """
    data = {task: data[task] for task in experiment.tasks if task in data}
    gold = {task: gold[task] for task in experiment.tasks if task in gold}

    kinds = map(find_kind, dict.fromkeys(summary["task"] for summary in data.values()))
    tables = [_sizes_table(kind, experiment, data) for kind in kinds if kind.sizes]
    tables.append(_stages_table(experiment, data))
    tables.append(_links_table(experiment, gold))
    return [table for table in tables if table.rows]


def _sizes_table(kind: TaskKind, experiment: Experiment, data: Mapping[str, Summary]) -> Table:
    """Build the table of the data of all tasks of a kind, with their licences as notes."""
    sizes: Sizes = imported(kind.sizes)
    rows = []
    notes = []
    for task, summary in data.items():
        if summary["task"] != kind.name:
            continue

        name = Name(task, label_of(task, experiment))
        rows += [(name, summary["dataset"], *row) for row in sizes.rows(summary)]
        notes += _notes(name, summary, experiment.tasks[task].note)

    headings = ("Task", "Data set", *sizes.headings)
    return plain_table(kind.title, headings, f"ll{sizes.align}", rows, notes)


def _stages_table(experiment: Experiment, data: Mapping[str, Summary]) -> Table:
    """Build the table of the pairs that each stage of preparing dropped, with the reasons."""
    rows = []
    for task, summary in data.items():
        for stage in summary["stages"]:
            dropped = stage["dropped"]
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in dropped.items())
            row = (
                Name(task, label_of(task, experiment)),
                stage["stage"],
                stage["split"],
                stage["pairs_in"],
                stage["pairs_out"],
                sum(dropped.values()),
                reasons,
            )

            rows.append(row)

    headings = ("Task", "Stage", "Split", "Pairs in", "Pairs out", "Dropped", "Why")
    return plain_table("Stages of preparing", headings, "lllrrrp", rows)


def _links_table(experiment: Experiment, gold: Mapping[str, Summary]) -> Table:
    """Build the table of the sentences and links of word alignments."""
    rows = []
    notes = []
    for task, summary in gold.items():
        name = Name(task, label_of(task, experiment))
        row = (
            name,
            summary["dataset"],
            summary["rows"],
            summary["links"]["sure"],
            summary["links"]["possible"],
            summary["source"]["unknown"] + summary["target"]["unknown"],
        )
        rows.append(row)
        notes += _notes(name, summary)

    headings = ("Task", "Data set", "Sentences", "Sure links", "Possible links", "Unknown")
    return plain_table("Word alignments", headings, "llrrrr", rows, notes)


def _notes(task: Name, summary: Summary, note: str = "") -> list[Note]:
    """Return the author's note on a task, its data's licence and citation, and warnings."""
    licence = f"{summary['title']}. Licence: {summary['licence'] or 'not stated'}."
    texts = [licence, summary["citation"], added_symbols_text(summary)]
    notes = [Note(note, task.key, task.label, kind="about")]
    notes += [Note(text, task.key, task.label) for text in texts]
    # The page has these among its cautions.
    notes += [
        Note(text, task.key, task.label, kind="caution") for text in summary.get("warnings", [])
    ]
    return [note for note in notes if note.words]
