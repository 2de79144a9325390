"""What every cell cost, and on what it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pam.reporting.cells import ScoredCell, TaskCells
from pam.reporting.numbers import grouped, rounded
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


def costs(tasks: Sequence[TaskCells], title: str) -> Sheet:
    """One row per cell; seconds are training and decoding together."""
    cells = [(task, cell) for task in tasks for model in task.models.values() for cell in model]
    totals = tuple(
        grouped(_sum([getattr(cell.scores.cost, key) for _, cell in cells]))
        for key in ("wall_s", "cpu_s", "gpu_s")
    )
    return Sheet(
        title=f"Cost of every training{title}",
        columns=(
            *("task", "model", "seed", "wall_s", "cpu_s", "gpu_s"),
            *_TRAINING,
            "decoded_per_second",
        ),
        records=[_record(cell) for _, cell in cells],
        headings=(
            *("Task", "Model", "Device", "Seed", "Wall s", "CPU s", "GPU s"),
            *("Examples/s", "Decoded/s", "Peak MB", "Best epoch", "Parameters"),
        ),
        body=[_row(task, cell) for task, cell in cells]
        + [("All", "", "", str(len(cells)), *totals, "", "", "", "", "")],
        align="lllrrrrrrrrr",
        notes=(
            "Wall, CPU and GPU seconds are those of training and decoding together, over all "
            "sessions of a training that was resumed. Examples/s: training examples per wall "
            "second; Decoded/s: test rows decoded per wall second, with the main beam.",
        ),
    )


def _record(cell: ScoredCell) -> tuple[object, ...]:
    cost, training = cell.scores.cost, cell.scores.training
    return (
        cell.task,
        cell.model,
        cell.seed,
        *(rounded(value, 1) for value in (cost.wall_s, cost.cpu_s, cost.gpu_s)),
        *(training.get(key) for key in _TRAINING),
        _decoded_per_second(cell),
    )


def _row(task: TaskCells, cell: ScoredCell) -> tuple[str, ...]:
    cost, training = cell.scores.cost, cell.scores.training
    best, epochs = training.get("best_epoch"), training.get("epochs")
    return (
        task.label,
        cell.label,
        str(training.get("device") or ""),
        str(cell.seed),
        grouped(cost.wall_s),
        grouped(cost.cpu_s),
        grouped(cost.gpu_s),
        grouped(training.get("examples_per_second")),
        grouped(_decoded_per_second(cell)),
        grouped(training.get("peak_memory_mb")),
        "" if best is None else f"{best} of {epochs}" if epochs is not None else str(best),
        grouped(training.get("parameters")),
    )


def _decoded_per_second(cell: ScoredCell) -> float | None:
    """Test rows per second with the main beam."""
    main = next(iter(cell.decodings.values()), {})
    return main.get("sentences_per_second")


def environment(tasks: Sequence[TaskCells], title: str) -> Sheet:
    """Every distinct version, machine and device, with the number of cells that ran on it."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for task in tasks:
        for cells in task.models.values():
            for cell in cells:
                counts.update(_facts(cell.scores.training))
    records: list[tuple[object, ...]] = [
        (*fact, number) for fact, number in sorted(counts.items(), key=_by_kind)
    ]
    return Sheet(
        title=f"Versions and hardware{title}",
        columns=("kind", "name", "value", "cells"),
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
