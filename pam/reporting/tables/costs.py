"""Build the tables of cost: seconds and machine of every run, and time over the baseline's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pam.reporting.catalogue import PaperTable
from pam.reporting.cells import Cell, Name, Value
from pam.reporting.comparison import Inputs
from pam.reporting.items import TableSpec
from pam.reporting.render import MODEL, MODEL_KEY, TASK, TASK_KEY, Column, Field, Note, Row, Table
from pam.reporting.runs import ScoredRun, TaskRuns, processor_of

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
COSTS = (
    TASK_KEY,
    MODEL_KEY,
    Field("seed", "seed"),
    *(Field(name, name, digits=1) for name in SECONDS),
    *(Field(name, name) for name in TRAINING),
    Field("decoded_per_second", "decoded_per_second"),
)
COSTS_SHOWN = (
    TASK,
    MODEL,
    Column("Device", "device", "l"),
    Column("Seed", "seed"),
    Column("Wall s", "wall_s"),
    Column("CPU s", "cpu_s"),
    Column("GPU s", "gpu_s"),
    Column("Examples/s", "examples_per_second"),
    Column("Decoded/s", "decoded_per_second"),
    Column("Peak MB", "peak_memory_mb"),
    Column("Best epoch", "best"),
    Column("Parameters", "parameters"),
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
    rows = [Row(_cost_of(run, task.label)) for task in inputs.tasks for run in task.runs]
    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=[*rows, _sum_of(rows)],
        columns=COSTS_SHOWN,
        fields=COSTS,
        notes=[Note(COSTS_NOTE)],
    )


def _cost_of(run: ScoredRun, task_label: str) -> dict[str, Cell]:
    """Return a run's cells in the table of costs."""
    cells: dict[str, Cell] = {
        "task": Name(run.task, task_label),
        "model": Name(run.model, run.label),
        "seed": Value(run.seed),
    }
    cells |= {name: Value(run.scores.cost.model_dump()[name], ",.0f") for name in SECONDS}

    training = run.scores.training
    cells |= {name: Value(training.get(name), ",.0f") for name in TRAINING}
    best = training.get("best_epoch")
    if best is not None and training.get("epochs") is not None:
        best = f"{best} of {training['epochs']}"
    cells["best"] = Value(best)
    cells["decoded_per_second"] = Value(run.main_decoding.get("sentences_per_second"), ",.0f")
    return cells


def _sum_of(runs: Sequence[Row]) -> Row:
    """Return the row of people with the sums of all runs; unknown seconds are left out of them."""
    cells: dict[str, Cell] = {"model": Name("", "All"), "seed": Value(len(runs))}
    for name in SECONDS:
        seconds = [row[name].value for row in runs if row[name].value is not None]
        cells[name] = Value(sum(seconds) if seconds else None, ",.0f")
    return Row(cells, is_stored=False)


ENVIRONMENT = tuple(Field(name, name) for name in ("kind", "name", "value", "runs"))
ENVIRONMENT_SHOWN = (
    Column("Kind", "kind", "l"),
    Column("Name", "name", "l"),
    Column("Value", "value", "l"),
    Column("Runs", "runs"),
)


def environment(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of versions, machines, devices and precisions, with the runs of each."""
    facts: Counter[tuple[str, str, str]] = Counter()
    for training in (run.scores.training for task in inputs.tasks for run in task.runs):
        if training.get("device"):
            facts["device", "device", str(training["device"])] += 1
        # Earlier trainings did not record in which precision they ran.
        precision = training.get("precision") or "unknown"
        facts["precision", "precision", str(precision)] += 1

        for kind in ("hardware", "versions"):
            values = training.get(kind) or {}
            for name, value in values.items():
                if value is not None:
                    facts[kind, str(name), str(value)] += 1

    # Of several versions, the one of most runs comes first.
    counted = sorted(facts.items(), key=lambda fact: (*fact[0][:2], -fact[1], fact[0][2]))
    rows = [
        Row({"kind": Value(kind), "name": Value(name), "value": Value(value), "runs": Value(count)})
        for (kind, name, value), count in counted
    ]
    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=rows,
        columns=ENVIRONMENT_SHOWN,
        fields=ENVIRONMENT,
    )


# Time over the baseline's.

# metric and row of the papers' results that have an overhead, whatever the task
TIME_RATIO = "time_ratio"
ANY_ROW = "any"
OVERHEAD = (
    TASK_KEY,
    Field("phase", "phase"),
    MODEL_KEY,
    Field("processor", "processor"),
    Field("seconds", "seconds", digits=3),
    Field("ratio", "ratio", digits=3),
    Field("n", "runs"),
    Field("paper", "paper"),
)
OVERHEAD_SHOWN = (
    TASK,
    Column("Phase", "phase", "l"),
    MODEL,
    Column("On", "processor", "l"),
    Column("Seconds", "seconds"),
    Column("Ratio", "ratio"),
    Column("Seeds", "runs"),
    Column("Paper", "paper"),
)
OVERHEAD_NOTE = (
    "Seconds: of one epoch of training, its development split included, and of decoding the test"
    " split, processor or GPU seconds, mean over seeds. Ratio: over the baseline's ({}). Other work"
    " on the machine blurs such ratios; `pam bench` takes the models in turns."
)


def overhead(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of seconds by task, phase and model, with their ratio to the baseline's.

    Seconds are of the GPU where one was used, else of the processor. There is no ratio between
    times on different processors, and no mean of them.
    """
    baseline = inputs.experiment.baseline
    paper = inputs.paper(spec)
    notes = [Note(OVERHEAD_NOTE.format(baseline))]
    columns: Sequence[Column] = OVERHEAD_SHOWN[:-1]
    if paper:
        notes.append(Note(f"Paper: {paper.source}. {paper.note}"))
        columns = OVERHEAD_SHOWN

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=[row for task in inputs.tasks for row in _overhead_of(task, baseline, paper)],
        columns=columns,
        fields=OVERHEAD,
        notes=notes,
        group=2,
    )


def _overhead_of(task: TaskRuns, baseline: str, paper: PaperTable | None) -> Iterator[Row]:
    """Yield a row for each phase, model and processor of a task."""
    # Training comes first, then decoding by beam. Seeds on different processors have a row each.
    phases: dict[str, dict[tuple[str, str], list[float]]] = {}
    for run in task.runs:
        for phase, processor, seconds in _times(run):
            by_processor = phases.setdefault(phase, {})
            by_processor.setdefault((run.model, processor), []).append(seconds)

    for phase, times in phases.items():
        means = {key: float(np.mean(seconds)) for key, seconds in times.items()}
        for (model, processor), mean in means.items():
            of_baseline = means.get((baseline, processor))
            ratio = None if of_baseline is None else mean / of_baseline
            of_paper = paper.value(TIME_RATIO, ANY_ROW, model) if paper else None
            yield Row(
                {
                    "task": Name(task.name, task.label),
                    "phase": Value(phase),
                    "model": Name(model, task.models[model][0].label),
                    "processor": Value(processor),
                    "seconds": Value(mean, ".1f"),
                    "ratio": Value(ratio, ".2f"),
                    "runs": Value(len(times[model, processor])),
                    "paper": Value(of_paper, ".2f"),
                }
            )


def _times(run: ScoredRun) -> Iterator[tuple[str, str, float]]:
    """Yield phase, processor and its seconds of each piece of work of a run."""
    training = run.scores.training
    spent = processor_of(training, training)
    # Where a model was trained on another task, the seconds are those of copying it.
    if spent and training.get("epochs") and not training.get("trained_on"):
        processor, seconds = spent
        yield "training", processor, seconds / training["epochs"]

    for beam, decoding in run.decodings.items():
        spent = processor_of(decoding, training)
        if spent:
            yield f"decoding, beam {beam}", *spent
