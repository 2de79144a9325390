"""What the report says of data and cost: sizes and licences, what every run cost and on what it
ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pam.config import Experiment
from pam.reporting.catalogue import TableSpec
from pam.reporting.comparison import Inputs
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Table, table_of
from pam.reporting.runs import ScoredRun, label_of, processor_seconds

# Cost of every run.

SECONDS = ("wall_s", "cpu_s", "gpu_s")
TRAINING = (
    *("device", "examples_per_second", "peak_memory_mb"),
    *("epochs", "best_epoch", "parameters", "resumed"),
)
COSTS = ("task", "model", "seed", *SECONDS, *TRAINING, "decoded_per_second")
COSTS_SHOWN = (
    TASK,
    MODEL,
    Column("Device", "{device}", "l"),
    Column("Seed", "{seed}"),
    Column("Wall s", "{wall_s:,.0f}"),
    Column("CPU s", "{cpu_s:,.0f}"),
    Column("GPU s", "{gpu_s:,.0f}"),
    Column("Examples/s", "{examples_per_second:,.0f}"),
    Column("Decoded/s", "{decoded_per_second:,.0f}"),
    Column("Peak MB", "{peak_memory_mb:,.0f}"),
    Column("Best epoch", "{best}"),
    Column("Parameters", "{parameters:,.0f}"),
)
COSTS_NOTE = (
    "Wall, CPU and GPU seconds are those of training and decoding together, over all sessions of a"
    " training that was resumed. Examples/s: training examples per wall second; Decoded/s: test"
    " rows decoded per wall second, with the main beam."
)


def costs(spec: TableSpec, inputs: Inputs) -> Table:
    """One row per run and, for people, their sum; seconds are training and decoding together."""
    records = []
    for task in inputs.tasks:
        for run in task.runs:
            training = {key: run.scores.training.get(key) for key in TRAINING}
            best, epochs = training["best_epoch"], training["epochs"]
            training["best"] = (
                f"{best} of {epochs}" if best is not None and epochs is not None else best
            )
            named = {"task": run.task, "model": run.model, "label": run.label, "seed": run.seed}
            speed = {
                "decoded_per_second": run.main_decoding.get("sentences_per_second"),
                "task_label": task.label,
            }
            records.append(named | run.scores.cost.model_dump() | training | speed)
    frame = pd.DataFrame(records, dtype=object)
    table = table_of(
        inputs.title(spec), frame, COSTS, dict.fromkeys(SECONDS, 1), COSTS_SHOWN, (COSTS_NOTE,)
    )
    totals = [
        f"{sum(known):,.0f}" if len(known) else ""
        for known in (frame[key].dropna() for key in SECONDS)
    ]
    table.shown.loc[len(frame)] = ["All", "", "", str(len(frame)), *totals, *[""] * 5]
    return table


def environment(spec: TableSpec, inputs: Inputs) -> Table:
    """Every distinct version, machine and device, with the number of runs that ran on it."""
    facts: list[tuple[str, str, str]] = []
    for training in (run.scores.training for task in inputs.tasks for run in task.runs):
        if training.get("device"):
            facts.append(("device", "device", str(training["device"])))
        for kind in ("hardware", "versions"):
            known = (training.get(kind) or {}).items()
            facts += [(kind, str(name), str(value)) for name, value in known if value is not None]
    counts = (
        pd.DataFrame(facts, columns=["kind", "name", "value"])
        .value_counts()
        .rename("runs")
        .reset_index()
    )
    counts = counts.sort_values(
        ["kind", "name", "runs", "value"], ascending=[True, True, False, True]
    )
    return Table(
        inputs.title(spec), counts, counts.astype(str).rename(columns=str.capitalize), "lllr"
    )


# Time over the baseline's.

# where the papers' results have an overhead, whatever the task
TIME_RATIO, ANY_ROW = ("time_ratio", "any")
OVERHEAD = ("task", "phase", "model", "processor", "seconds", "ratio", "n", "paper")
OVERHEAD_SHOWN = (
    TASK,
    Column("Phase", "{phase}", "l"),
    MODEL,
    Column("On", "{processor}", "l"),
    Column("Seconds", "{seconds:.1f}"),
    Column("Ratio", "{ratio:.2f}"),
    SEEDS,
    Column("Paper", "{paper:.2f}"),
)
OVERHEAD_NOTE = (
    "Seconds: of one epoch of training, its development split included, and of decoding the test"
    " split, processor or GPU seconds, mean over seeds. Ratio: over the baseline's ({}). Other work"
    " on the machine blurs such ratios; `python -m pam bench` takes the models in turns."
)


def overhead(spec: TableSpec, inputs: Inputs) -> Table:
    """Seconds by task, phase and model, of the GPU where one was used, else of the processor, and
    over the baseline's.

    There is no ratio between times on different kinds of processor, and no mean of them.
    """
    baseline, paper = inputs.experiment.baseline, inputs.paper(spec)
    notes = [
        OVERHEAD_NOTE.format(baseline),
        *([f"Paper: {paper.source}. {paper.note}"] if paper else []),
    ]
    rows: list[tuple[Any, ...]] = []
    for task in inputs.tasks:
        columns = ["model", "phase", "processor", "seconds"]
        times = pd.DataFrame([time for run in task.runs for time in _times(run)], columns=columns)
        # Training, then decoding by beam, of every model that has a time of it.
        for phase in times["phase"].unique():
            # Seeds on different kinds of processor have a row for each kind.
            groups = times[times["phase"] == phase].groupby(["model", "processor"], sort=False)
            by_device = {key: own["seconds"] for key, own in groups}
            for (model, processor), own in by_device.items():
                base = by_device.get((baseline, processor))
                seconds = float(own.mean())
                ratio = None if base is None else seconds / float(base.mean())
                told = paper.value(TIME_RATIO, ANY_ROW, str(model)) if paper else None
                labels = task.label, task.models[str(model)][0].label
                rows.append(
                    (task.name, phase, model, processor, seconds, ratio, len(own), told, *labels)
                )
    frame = pd.DataFrame(rows, columns=[*OVERHEAD, "task_label", "label"], dtype=object)
    shown = OVERHEAD_SHOWN if paper else OVERHEAD_SHOWN[:-1]
    return table_of(
        inputs.title(spec), frame, OVERHEAD, {"seconds": 3, "ratio": 3}, shown, notes, group=2
    )


def _times(run: ScoredRun) -> Iterator[tuple[str, str, str, float]]:
    """Model, phase, kind of processor and its seconds of each piece of work of a run."""
    training = run.scores.training
    if (spent := processor_seconds(training)) and training.get("epochs"):
        yield run.model, "training", spent[0], spent[1] / training["epochs"]
    for beam, decoding in run.decodings.items():
        if spent := processor_seconds(decoding):
            yield run.model, f"decoding, beam {beam}", *spent


# Sizes of the data, what was dropped on the way and why, licences.

SPLITS = ("train", "dev", "test")
Summary = dict[str, Any]  # the content of a `summary.json`


def datasets(
    experiment: Experiment, data: Mapping[str, Summary], gold: Mapping[str, Summary]
) -> list[Table]:
    """A table for each kind of task, one for the stages, one for word alignments; empty ones not.

    They are made of each task's summary of its prepared data, and that of its word alignments,
    `gold`, if it has some.
    """
    data, gold = (
        {name: own[name] for name in experiment.tasks if name in own} for own in (data, gold)
    )
    labels = {name: label_of(name, experiment) for name in experiment.tasks}
    tables = []
    for kind, (title, headings, align, rows_of) in KINDS.items():
        own = {task: found for task, found in data.items() if found["task"] == kind}
        rows = [
            (labels[task], found["dataset"], *row)
            for task, found in own.items()
            for row in rows_of(found)
        ]
        notes = [
            note
            for task in own
            for note in _notes(labels[task], own[task], experiment.tasks[task].note)
        ]
        tables.append(_table(title, f"Task|Data set|{headings}", "ll" + align, rows, notes))
    stages, links, notes = [], [], []
    for task, found in data.items():
        for one in found["stages"]:
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in one["dropped"].items())
            counts = one["pairs_in"], one["pairs_out"], sum(one["dropped"].values())
            stages.append((labels[task], one["stage"], one["split"], *counts, reasons))
    headings = "Task|Stage|Split|Pairs in|Pairs out|Dropped|Why"
    tables.append(_table("Stages of preparing", headings, "lllrrrp", stages))
    for task, found in gold.items():
        unknown = found["source"]["unknown"] + found["target"]["unknown"]
        counts = found["links"]["sure"], found["links"]["possible"], unknown
        links.append((labels[task], found["dataset"], found["rows"], *counts))
        notes += _notes(labels[task], found)
    headings = "Task|Data set|Sentences|Sure links|Possible links|Unknown"
    tables.append(_table("Word alignments", headings, "llrrrr", links, notes))
    return [table for table in tables if len(table.shown)]


def _table(
    title: str,
    headings: str,
    align: str,
    rows: Sequence[tuple[Any, ...]],
    notes: Sequence[str] = (),
) -> Table:
    """A table for the report alone."""
    data = pd.DataFrame(rows, columns=headings.split("|"), dtype=object)
    texts = [
        [one if isinstance(one, str) else "" if one is None else f"{one:,.0f}" for one in row]
        for row in rows
    ]
    shown = pd.DataFrame(texts, columns=headings.split("|"), dtype=object)
    return Table(title, data, shown, align, tuple(notes))


def _inflection(found: Summary) -> Iterator[tuple[Any, ...]]:
    for split in SPLITS:
        counts = found["splits"][split]
        unseen = sum(counts["unseen_source"].values()) + sum(counts["unseen_target"].values())
        twice = counts["duplicate_rows"], counts["cells_with_several_forms"]
        yield split, counts["rows"], counts["lemmas"], *twice, unseen


def _translation(found: Summary) -> Iterator[tuple[Any, ...]]:
    for split in SPLITS:
        counts = found["splits"][split]
        sides = [(side, counts[side]) for side in ("source", "target")]
        own = [
            (found["languages"][side], of_side["symbols"], of_side["unknown"])
            for side, of_side in sides
        ]
        longest = max(of_side["longest"] for _, of_side in sides)
        yield (
            split,
            counts["rows"],
            *own[0],
            *own[1],
            longest,
            found["pairs_in_train_too"].get(split),
        )


_FORMS = "Split|Rows|Lemmas|Duplicates|Several forms|Unseen"
_PAIRS = "Split|Pairs|From|Symbols|Unknown|To|Symbols|Unknown|Longest|In train too"
KINDS = {
    "inflection": ("Morphological inflection", _FORMS, "lrrrrr", _inflection),
    "translation": ("Translation", _PAIRS, "lrlrrlrrrr", _translation),
    "summarization": ("Summarization", _PAIRS, "lrlrrlrrrr", _translation),
    "captioning": ("Captioning", _PAIRS, "lrlrrlrrrr", _translation),
}
"""Kind of task to its table's title, headings and alignment, and a row for each split of a task's
summary.
"""


def _notes(label: str, found: dict[str, Any], note: str = "") -> list[str]:
    """What the task's author says of it, whose data these are, and what preparing noticed."""
    licence = f"{found['title']}. Licence: {found['licence'] or 'not stated'}."
    texts = [note, licence, found["citation"], *found.get("warnings", [])]
    return [f"{label}: {text}" for text in texts if text]
