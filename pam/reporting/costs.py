"""What every run cost, and on what it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pam.reporting.numbers import grouped, rounded
from pam.reporting.runs import ScoredRun, TaskRuns
from pam.reporting.typeset import Sheet

_TRAINING = (
    "device",
    "examples_per_second",
    "peak_memory_mb",
    "epochs",
    "best_epoch",
    "parameters",
    "resumed",
)


def costs(tasks: Sequence[TaskRuns], title: str) -> Sheet:
    """One row per run; seconds are training and decoding together."""
    runs = [(task, run) for task in tasks for model in task.models.values() for run in model]
    totals = tuple(
        grouped(_sum([getattr(run.scores.cost, key) for _, run in runs]))
        for key in ("wall_s", "cpu_s", "gpu_s")
    )
    return Sheet(
        title=f"Cost of every training{title}",
        columns=(
            *("task", "model", "seed", "wall_s", "cpu_s", "gpu_s"),
            *_TRAINING,
            "decoded_per_second",
        ),
        records=[_record(run) for _, run in runs],
        headings=(
            *("Task", "Model", "Device", "Seed", "Wall s", "CPU s", "GPU s"),
            *("Examples/s", "Decoded/s", "Peak MB", "Best epoch", "Parameters"),
        ),
        body=[_row(task, run) for task, run in runs]
        + [("All", "", "", str(len(runs)), *totals, "", "", "", "", "")],
        align="lllrrrrrrrrr",
        notes=(
            "Wall, CPU and GPU seconds are those of training and decoding together, over all "
            "sessions of a training that was resumed. Examples/s: training examples per wall "
            "second; Decoded/s: test rows decoded per wall second, with the main beam.",
        ),
    )


def _record(run: ScoredRun) -> tuple[object, ...]:
    cost, training = run.scores.cost, run.scores.training
    return (
        run.task,
        run.model,
        run.seed,
        *(rounded(value, 1) for value in (cost.wall_s, cost.cpu_s, cost.gpu_s)),
        *(training.get(key) for key in _TRAINING),
        _decoded_per_second(run),
    )


def _row(task: TaskRuns, run: ScoredRun) -> tuple[str, ...]:
    cost, training = run.scores.cost, run.scores.training
    best, epochs = training.get("best_epoch"), training.get("epochs")
    return (
        task.label,
        run.label,
        str(training.get("device") or ""),
        str(run.seed),
        grouped(cost.wall_s),
        grouped(cost.cpu_s),
        grouped(cost.gpu_s),
        grouped(training.get("examples_per_second")),
        grouped(_decoded_per_second(run)),
        grouped(training.get("peak_memory_mb")),
        "" if best is None else f"{best} of {epochs}" if epochs is not None else str(best),
        grouped(training.get("parameters")),
    )


def _decoded_per_second(run: ScoredRun) -> float | None:
    """Test rows per second with the main beam."""
    main = next(iter(run.decodings.values()), {})
    return main.get("sentences_per_second")


def environment(tasks: Sequence[TaskRuns], title: str) -> Sheet:
    """Every distinct version, machine and device, with the number of runs that ran on it."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for task in tasks:
        for runs in task.models.values():
            for run in runs:
                counts.update(_facts(run.scores.training))
    records: list[tuple[object, ...]] = [
        (*fact, number) for fact, number in sorted(counts.items(), key=_by_kind)
    ]
    return Sheet(
        title=f"Versions and hardware{title}",
        columns=("kind", "name", "value", "runs"),
        records=records,
        headings=("Kind", "Name", "Value", "Cells"),
        body=[tuple(str(part) for part in record) for record in records],
        align="lllr",
    )


def _facts(training: dict[str, Any]) -> list[tuple[str, str, str]]:
    facts = [("device", "device", str(training["device"]))] if training.get("device") else []
    for kind in ("hardware", "versions"):
        facts += [
            (kind, str(name), str(value))
            for name, value in (training.get(kind) or {}).items()
            if value is not None
        ]
    return facts


def _by_kind(item: tuple[tuple[str, str, str], int]) -> tuple[str, str, int, str]:
    (kind, name, value), number = item
    return kind, name, -number, value


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
