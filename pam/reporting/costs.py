"""What every run cost and on what it ran, and the time of every model over the baseline's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pam.config import Experiment
from pam.reporting.comparison import PaperTable
from pam.reporting.render import Column, Table, fixed, grouped, rounded, table_of
from pam.reporting.runs import ScoredRun, TaskRuns, processor_seconds

TIME_RATIO, ANY_ROW = "time_ratio", "any"
"""Where the papers' results have an overhead, whatever the task."""

_TRAINING = (
    *("device", "examples_per_second", "peak_memory_mb"),
    *("epochs", "best_epoch", "parameters", "resumed"),
)


def costs(tasks: Sequence[TaskRuns], title: str) -> Table:
    """One row per run; seconds are training and decoding together."""
    runs = [run for task in tasks for run in task.runs]
    labels = {task.name: task.label for task in tasks}
    seconds = ("wall_s", "cpu_s", "gpu_s")

    def recorded(key: str) -> Callable[[ScoredRun], Any]:
        return lambda run: run.scores.training.get(key)

    def cost(key: str) -> Callable[[ScoredRun], float | None]:
        return lambda run: getattr(run.scores.cost, key)

    def rounded_cost(key: str) -> Callable[[ScoredRun], float | None]:
        return lambda run: rounded(cost(key)(run), 1)

    def shown(heading: str, value: Callable[[ScoredRun], float | None]) -> Column[ScoredRun]:
        return Column(heading, lambda run: grouped(value(run)))

    table = table_of(
        title,
        runs,
        {
            "task": lambda run: run.task,
            "model": lambda run: run.model,
            "seed": lambda run: run.seed,
            **{key: rounded_cost(key) for key in seconds},
            **{key: recorded(key) for key in _TRAINING},
            "decoded_per_second": _decoded_per_second,
        },
        [
            Column("Task", lambda run: labels[run.task], "l"),
            Column("Model", lambda run: run.label, "l"),
            Column("Device", lambda run: str(run.scores.training.get("device") or ""), "l"),
            Column("Seed", lambda run: str(run.seed)),
            shown("Wall s", cost("wall_s")),
            shown("CPU s", cost("cpu_s")),
            shown("GPU s", cost("gpu_s")),
            shown("Examples/s", recorded("examples_per_second")),
            shown("Decoded/s", _decoded_per_second),
            shown("Peak MB", recorded("peak_memory_mb")),
            Column("Best epoch", _best_epoch),
            shown("Parameters", recorded("parameters")),
        ],
        (
            "Wall, CPU and GPU seconds are those of training and decoding together, over all "
            "sessions of a training that was resumed. Examples/s: training examples per wall "
            "second; Decoded/s: test rows decoded per wall second, with the main beam.",
        ),
    )
    known = [[value for run in runs if (value := cost(key)(run)) is not None] for key in seconds]
    totals = [grouped(sum(values) if values else None) for values in known]
    table.shown.loc[len(runs)] = ["All", "", "", str(len(runs)), *totals, *[""] * 5]
    return table


def _best_epoch(run: ScoredRun) -> str:
    best, epochs = (run.scores.training.get(key) for key in ("best_epoch", "epochs"))
    if best is None:
        return ""
    return f"{best} of {epochs}" if epochs is not None else str(best)


def _decoded_per_second(run: ScoredRun) -> float | None:
    """Test rows per second with the main beam."""
    return run.main_decoding.get("sentences_per_second")


def environment(tasks: Sequence[TaskRuns], title: str) -> Table:
    """Every distinct version, machine and device, with the number of runs that ran on it."""
    names = ["kind", "name", "value"]
    facts = [fact for task in tasks for run in task.runs for fact in _facts(run.scores.training)]
    counts = pd.DataFrame(facts, columns=names).value_counts().rename("runs").reset_index()
    order = [*names[:2], "runs", names[2]]
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


class Overhead(NamedTuple):
    """A model's time in one phase, mean over seeds, and how many times the baseline's it is."""

    task: TaskRuns
    phase: str
    run: ScoredRun
    processor: str
    seconds: float
    ratio: float | None
    seeds: int
    paper: float | None


def overhead(
    tasks: Sequence[TaskRuns], experiment: Experiment, paper: PaperTable | None, title: str
) -> Table:
    """One row per task, phase and model.

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
    return table_of(
        title,
        [row for task in tasks for row in _overheads(task, experiment.baseline, paper)],
        {
            "task": lambda row: row.task.name,
            "phase": lambda row: row.phase,
            "model": lambda row: row.run.model,
            "processor": lambda row: row.processor,
            "seconds": lambda row: rounded(row.seconds, 3),
            "ratio": lambda row: rounded(row.ratio, 3),
            "n": lambda row: row.seeds,
            "paper": lambda row: row.paper,
        },
        [
            Column("Task", lambda row: row.task.label, "l"),
            Column("Phase", lambda row: row.phase, "l"),
            Column("Model", lambda row: row.run.label, "l"),
            Column("On", lambda row: row.processor, "l"),
            Column("Seconds", lambda row: fixed(row.seconds, 1)),
            Column("Ratio", lambda row: fixed(row.ratio, 2)),
            Column("Seeds", lambda row: str(row.seeds)),
            Column("Paper", lambda row: fixed(row.paper, 2)),
        ],
        notes,
        group=2,
    )


def _overheads(task: TaskRuns, baseline: str, paper: PaperTable | None) -> Iterator[Overhead]:
    """Training, then decoding by beam, of every model that has a time of it."""
    times = {
        model: [time for run in runs for time in _times(run)] for model, runs in task.models.items()
    }
    phases = dict.fromkeys(time.phase for run in task.runs for time in _times(run))
    for phase in phases:
        base = [time for time in times.get(baseline, []) if time.phase == phase]
        for model, runs in task.models.items():
            own = [time for time in times[model] if time.phase == phase]
            if own:
                seconds = _mean_seconds(own)
                same = len({time.processor for time in (*own, *base)}) == 1
                yield Overhead(
                    task=task,
                    phase=phase,
                    run=runs[0],
                    processor=own[0].processor,
                    seconds=seconds,
                    ratio=seconds / _mean_seconds(base) if base and same else None,
                    seeds=len(own),
                    paper=paper.value(TIME_RATIO, ANY_ROW, model) if paper else None,
                )


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
