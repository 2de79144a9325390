"""Build the tables of data and cost: sizes and licences, the cost and the machine of every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pam.data.prepare import added_symbols_text
from pam.experiments.config import Experiment
from pam.reporting.catalogue import TableSpec
from pam.reporting.comparison import Inputs
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Table, table_of
from pam.reporting.runs import ScoredRun, TaskRuns, label_of, processor_seconds
from pam.runtime.files import read_json

# Cost of every run.

SECONDS = ("wall_s", "cpu_s", "gpu_s")
TRAINING = (
    "device",
    "examples_per_second",
    "peak_memory_mb",
    "epochs",
    "best_epoch",
    "parameters",
    "resumed",
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
    """Build the table of costs, with one row per run and, for people, their sum.

    Seconds are of training and decoding together.
    """
    records = [_cost_of(run, task.label) for task in inputs.tasks for run in task.runs]
    frame = pd.DataFrame(records, dtype=object)
    table = table_of(
        title=inputs.title(spec),
        frame=frame,
        csv=COSTS,
        digits=dict.fromkeys(SECONDS, 1),
        shown=COSTS_SHOWN,
        notes=(COSTS_NOTE,),
    )

    # Unknown seconds are left out of the sums.
    totals = []
    for key in SECONDS:
        seconds = frame[key].dropna()
        totals.append(f"{sum(seconds):,.0f}" if len(seconds) else "")

    table.shown.loc[len(frame)] = ["", "All", "", str(len(frame)), *totals, *[""] * 5]
    return table


def _cost_of(run: ScoredRun, task_label: str) -> dict[str, Any]:
    """Return a run's record in the table of costs."""
    training = {key: run.scores.training.get(key) for key in TRAINING}
    best: int | str | None = training["best_epoch"]
    if best is not None and training["epochs"] is not None:
        best = f"{best} of {training['epochs']}"

    return {
        "task": run.task,
        "task_label": task_label,
        "model": run.model,
        "label": run.label,
        "seed": run.seed,
        **run.scores.cost.model_dump(),
        **training,
        "best": best,
        "decoded_per_second": run.main_decoding.get("sentences_per_second"),
    }


def environment(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of versions, machines and devices, with the number of runs of each."""
    facts: list[tuple[str, str, str]] = []
    for training in (run.scores.training for task in inputs.tasks for run in task.runs):
        if training.get("device"):
            facts.append(("device", "device", str(training["device"])))

        for kind in ("hardware", "versions"):
            values = training.get(kind) or {}
            facts += [
                (kind, str(name), str(value)) for name, value in values.items() if value is not None
            ]

    frame = pd.DataFrame(facts, columns=["kind", "name", "value"])

    counts = frame.value_counts().rename("runs").reset_index()
    # Of several versions, the one of most runs comes first.
    counts = counts.sort_values(
        ["kind", "name", "runs", "value"], ascending=[True, True, False, True]
    )
    texts = counts.astype(str).rename(columns=str.capitalize)

    return Table(inputs.title(spec), counts, texts, "lllr")


# Time over the baseline's.

# metric and row of the papers' results that have an overhead, whatever the task
TIME_RATIO = "time_ratio"
ANY_ROW = "any"
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
    " on the machine blurs such ratios; `pam bench` takes the models in turns."
)


def overhead(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of seconds by task, phase and model, with their ratio to the baseline's.

    Seconds are of the GPU where one was used, else of the processor. There is no ratio between
    times on different kinds of processor, and no mean of them.
    """
    baseline = inputs.experiment.baseline
    records = [record for task in inputs.tasks for record in _overhead_of(task, baseline)]
    notes = [OVERHEAD_NOTE.format(baseline)]
    columns: Sequence[Column] = OVERHEAD_SHOWN[:-1]

    paper = inputs.paper(spec)
    if paper:
        for record in records:
            record["paper"] = paper.value(TIME_RATIO, ANY_ROW, record["model"])
        notes.append(f"Paper: {paper.source}. {paper.note}")
        columns = OVERHEAD_SHOWN

    return table_of(
        title=inputs.title(spec),
        frame=pd.DataFrame(records, columns=[*OVERHEAD, "task_label", "label"], dtype=object),
        csv=OVERHEAD,
        digits={"seconds": 3, "ratio": 3},
        shown=columns,
        notes=notes,
        group=2,
    )


def _overhead_of(task: TaskRuns, baseline: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each phase, model and kind of processor of a task."""
    times = pd.DataFrame(
        [time for run in task.runs for time in _times(run)],
        columns=["model", "phase", "processor", "seconds"],
    )

    # Training comes first, then decoding by beam.
    for phase in times["phase"].unique():
        # Seeds on different kinds of processor have a row for each kind.
        groups = times[times["phase"] == phase].groupby(["model", "processor"], sort=False)
        by_device = {key: group["seconds"] for key, group in groups}

        for (model, processor), seconds in by_device.items():
            mean = float(seconds.mean())
            ratio = None
            of_baseline = by_device.get((baseline, processor))
            if of_baseline is not None:
                ratio = mean / float(of_baseline.mean())

            yield {
                "task": task.name,
                "task_label": task.label,
                "phase": phase,
                "model": str(model),
                "label": task.models[str(model)][0].label,
                "processor": processor,
                "seconds": mean,
                "ratio": ratio,
                "n": len(seconds),
                "paper": None,
            }


def _times(run: ScoredRun) -> Iterator[tuple[str, str, str, float]]:
    """Yield model, phase, kind of processor and its seconds of each piece of work of a run."""
    training = run.scores.training
    spent = processor_seconds(training)
    if spent and training.get("epochs"):
        processor, seconds = spent
        yield run.model, "training", processor, seconds / training["epochs"]

    for beam, decoding in run.decodings.items():
        spent = processor_seconds(decoding)
        if spent:
            yield run.model, f"decoding, beam {beam}", *spent


# Sizes of the data, dropped pairs with the reason, licences.

SPLITS = ("train", "dev", "test")
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

    tables = [_sizes_table(kind, experiment, data) for kind in KINDS]
    tables.append(_stages_table(experiment, data))
    tables.append(_links_table(experiment, gold))
    return [table for table in tables if len(table.shown)]


def _sizes_table(kind: str, experiment: Experiment, data: Mapping[str, Summary]) -> Table:
    """Build the table of the data of all tasks of a kind, with their licences as notes."""
    title, headings, align, rows_of = KINDS[kind]
    rows = []
    notes = []
    for task, summary in data.items():
        if summary["task"] != kind:
            continue

        label = label_of(task, experiment)
        rows += [(label, summary["dataset"], *row) for row in rows_of(summary)]
        notes += _notes(label, summary, experiment.tasks[task].note)

    return _table(title, f"Task|Data set|{headings}", "ll" + align, rows, notes)


def _stages_table(experiment: Experiment, data: Mapping[str, Summary]) -> Table:
    """Build the table of the pairs that each stage of preparing dropped, with the reasons."""
    rows = []
    for task, summary in data.items():
        for stage in summary["stages"]:
            dropped = stage["dropped"]
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in dropped.items())
            row = (
                label_of(task, experiment),
                stage["stage"],
                stage["split"],
                stage["pairs_in"],
                stage["pairs_out"],
                sum(dropped.values()),
                reasons,
            )

            rows.append(row)

    headings = "Task|Stage|Split|Pairs in|Pairs out|Dropped|Why"
    return _table("Stages of preparing", headings, "lllrrrp", rows)


def _links_table(experiment: Experiment, gold: Mapping[str, Summary]) -> Table:
    """Build the table of the sentences and links of word alignments."""
    rows = []
    notes = []
    for task, summary in gold.items():
        label = label_of(task, experiment)
        row = (
            label,
            summary["dataset"],
            summary["rows"],
            summary["links"]["sure"],
            summary["links"]["possible"],
            summary["source"]["unknown"] + summary["target"]["unknown"],
        )
        rows.append(row)
        notes += _notes(label, summary)

    headings = "Task|Data set|Sentences|Sure links|Possible links|Unknown"
    return _table("Word alignments", headings, "llrrrr", rows, notes)


def _table(
    title: str,
    headings: str,
    align: str,
    rows: Sequence[tuple[Any, ...]],
    notes: Sequence[str] = (),
) -> Table:
    """Return a table for the report alone, with `headings` divided by `|`."""
    columns = headings.split("|")
    data = pd.DataFrame(rows, columns=columns, dtype=object)

    cells = [[_cell(value) for value in row] for row in rows]
    texts = pd.DataFrame(cells, columns=columns, dtype=object)
    return Table(title, data, texts, align, tuple(notes))


def _cell(value: Any) -> str:
    """Return a text as it is, a number without digits after the point, nothing for None."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return f"{value:,.0f}"


def _inflection(summary: Summary) -> Iterator[tuple[Any, ...]]:
    """Yield a row with headings `_FORMS` for each split."""
    for split in SPLITS:
        counts = summary["splits"][split]
        yield (
            split,
            counts["rows"],
            counts["lemmas"],
            counts["duplicate_rows"],
            counts["cells_with_several_forms"],
            sum(counts["unseen_source"].values()) + sum(counts["unseen_target"].values()),
        )


def _translation(summary: Summary) -> Iterator[tuple[Any, ...]]:
    """Yield a row with headings `_PAIRS` for each split."""
    for split in SPLITS:
        counts = summary["splits"][split]
        source = counts["source"]
        target = counts["target"]

        yield (
            split,
            counts["rows"],
            summary["languages"]["source"],
            source["symbols"],
            source["unknown"],
            summary["languages"]["target"],
            target["symbols"],
            target["unknown"],
            max(source["longest"], target["longest"]),
            summary["pairs_in_train_too"].get(split),
        )


_FORMS = "Split|Rows|Lemmas|Duplicates|Several forms|Unseen"
_PAIRS = "Split|Pairs|From|Symbols|Unknown|To|Symbols|Unknown|Longest|In train too"
KINDS = {
    "inflection": ("Morphological inflection", _FORMS, "lrrrrr", _inflection),
    "translation": ("Translation", _PAIRS, "lrlrrlrrrr", _translation),
    "summarization": ("Summarization", _PAIRS, "lrlrrlrrrr", _translation),
    "captioning": ("Captioning", _PAIRS, "lrlrrlrrrr", _translation),
}
"""Kind of task -> title, headings and alignment of its table, and the function that yields rows."""


def _notes(label: str, summary: Summary, note: str = "") -> list[str]:
    """Return the author's note on a task, its data's licence and citation, and warnings."""
    licence = f"{summary['title']}. Licence: {summary['licence'] or 'not stated'}."
    warnings = summary.get("warnings", [])
    texts = [note, licence, summary["citation"], added_symbols_text(summary), *warnings]
    return [f"{label}: {text}" for text in texts if text]
