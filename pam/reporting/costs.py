"""What every run cost and on what it ran, and the time of every model over the baseline's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pam.config import Experiment
from pam.reporting.comparison import PaperTable
from pam.reporting.render import Column, Table, table_of
from pam.reporting.runs import ScoredRun, TaskRuns, processor_seconds

TIME_RATIO, ANY_ROW = "time_ratio", "any"
"""Where the papers' results have an overhead, whatever the task."""

SECONDS = ("wall_s", "cpu_s", "gpu_s")
TRAINING = (*("device", "examples_per_second", "peak_memory_mb"), *("epochs", "best_epoch", "parameters", "resumed"))
COSTS = ("task", "model", "seed", *SECONDS, *TRAINING, "decoded_per_second")
COSTS_SHOWN = (
    Column("Task", "{task_label}", "l"),
    Column("Model", "{label}", "l"),
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
    "Wall, CPU and GPU seconds are those of training and decoding together, over all sessions of "
    "a training that was resumed. Examples/s: training examples per wall second; Decoded/s: test "
    "rows decoded per wall second, with the main beam."
)


def costs(tasks: Sequence[TaskRuns], title: str) -> Table:
    """One row per run and, for people, their sum; seconds are training and decoding together."""
    records = [_cost(run) | {"task_label": task.label} for task in tasks for run in task.runs]
    frame = pd.DataFrame(records, dtype=object)
    table = table_of(title, frame, COSTS, dict.fromkeys(SECONDS, 1), COSTS_SHOWN, (COSTS_NOTE,))
    known = [frame[key].dropna() for key in SECONDS]
    totals = [f"{sum(values):,.0f}" if len(values) else "" for values in known]
    table.shown.loc[len(frame)] = ["All", "", "", str(len(frame)), *totals, *[""] * 5]
    return table


def _cost(run: ScoredRun) -> dict[str, Any]:
    training = {key: run.scores.training.get(key) for key in TRAINING}
    best, epochs = training["best_epoch"], training["epochs"]
    return {
        "task": run.task,
        "model": run.model,
        "label": run.label,
        "seed": run.seed,
        **run.scores.cost.model_dump(),
        **training,
        "decoded_per_second": run.main_decoding.get("sentences_per_second"),
        "best": f"{best} of {epochs}" if best is not None and epochs is not None else best,
    }


def environment(tasks: Sequence[TaskRuns], title: str) -> Table:
    """Every distinct version, machine and device, with the number of runs that ran on it."""
    facts = [fact for task in tasks for run in task.runs for fact in _facts(run.scores.training)]
    frame = pd.DataFrame(facts, columns=["kind", "name", "value"])
    counts = frame.value_counts().rename("runs").reset_index()
    order = ["kind", "name", "runs", "value"]
    counts = counts.sort_values(order, ascending=[True, True, False, True])
    shown = counts.astype(str).rename(columns=str.capitalize)
    return Table(title, counts, shown, "lllr")


def _facts(training: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if training.get("device"):
        yield "device", "device", str(training["device"])
    for kind in ("hardware", "versions"):
        for name, value in (training.get(kind) or {}).items():
            if value is not None:
                yield kind, str(name), str(value)


class Time(NamedTuple):
    """Seconds of one piece of work, and the kind of processor that they are of."""

    phase: str
    processor: str
    seconds: float


OVERHEAD = ("task", "phase", "model", "processor", "seconds", "ratio", "n", "paper")
OVERHEAD_SHOWN = (
    Column("Task", "{task_label}", "l"),
    Column("Phase", "{phase}", "l"),
    Column("Model", "{label}", "l"),
    Column("On", "{processor}", "l"),
    Column("Seconds", "{seconds:.1f}"),
    Column("Ratio", "{ratio:.2f}"),
    Column("Seeds", "{n}"),
    Column("Paper", "{paper:.2f}"),
)


def overhead(tasks: Sequence[TaskRuns], experiment: Experiment, paper: PaperTable | None, title: str) -> Table:
    """One row per task, phase and model: seconds, and how many times the baseline's they are.

    Seconds are those of the GPU where one was used, else of the processor. A ratio is formed only
    between times on the same kind of processor.
    """
    notes = [
        "Seconds: of one epoch of training, its development split included, and of decoding "
        "the test split, processor or GPU seconds, mean over seeds. Ratio: over the baseline's "
        f"({experiment.baseline}). Other work on the machine blurs such ratios; `python -m pam "
        "bench` takes the models in turns."
    ]
    if paper is not None:
        notes.append(f"Paper: {paper.source}. {paper.note}")
    rows = [row for task in tasks for row in _overheads(task, experiment.baseline, paper)]
    frame = pd.DataFrame(rows, columns=[*OVERHEAD, "task_label", "label"], dtype=object)
    digits = {"seconds": 3, "ratio": 3}
    return table_of(title, frame, OVERHEAD, digits, OVERHEAD_SHOWN, notes, group=2)


def _overheads(task: TaskRuns, baseline: str, paper: PaperTable | None) -> Iterator[dict[str, Any]]:
    """Training, then decoding by beam, of every model that has a time of it."""
    times = {model: [time for run in runs for time in _times(run)] for model, runs in task.models.items()}
    phases = dict.fromkeys(time.phase for of_model in times.values() for time in of_model)
    for phase in phases:
        base = [time for time in times.get(baseline, []) if time.phase == phase]
        for model, runs in task.models.items():
            own = [time for time in times[model] if time.phase == phase]
            if own:
                seconds = _mean_seconds(own)
                same = len({time.processor for time in (*own, *base)}) == 1
                yield {
                    "task": task.name,
                    "task_label": task.label,
                    "phase": phase,
                    "model": model,
                    "label": runs[0].label,
                    "processor": own[0].processor,
                    "seconds": seconds,
                    "ratio": seconds / _mean_seconds(base) if base and same else None,
                    "n": len(own),
                    "paper": paper.value(TIME_RATIO, ANY_ROW, model) if paper else None,
                }


def _mean_seconds(times: Sequence[Time]) -> float:
    return float(np.mean([time.seconds for time in times]))


def _times(run: ScoredRun) -> Iterator[Time]:
    training = run.scores.training
    spent = processor_seconds(training)
    if spent is not None and training.get("epochs"):
        yield Time("training", spent[0], spent[1] / training["epochs"])
    for beam, decoding in run.decodings.items():
        spent = processor_seconds(decoding)
        if spent is not None:
            yield Time(f"decoding, beam {beam}", *spent)
