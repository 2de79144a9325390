"""Time of every model over the baseline's, in training and in decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pam.config import Experiment
from pam.reporting.numbers import fixed, rounded
from pam.reporting.paper import PaperTable
from pam.reporting.runs import ScoredRun, TaskRuns
from pam.reporting.typeset import Sheet

METRIC, ROW = "time_ratio", "any"
"""Where the papers' figures have an overhead, whatever the task."""


class Time(NamedTuple):
    """Seconds of one piece of work, and the kind of processor that they are of."""

    phase: str
    processor: str
    seconds: float


def overhead(
    tasks: Sequence[TaskRuns], experiment: Experiment, paper: PaperTable | None, title: str
) -> Sheet:
    """One row per task, phase and model: seconds, and how many times the baseline's they are.

    Seconds are those of the GPU where one was used, else of the processor. A ratio is formed only
    between times on the same kind of processor.
    """
    records: list[tuple[object, ...]] = []
    body: list[tuple[str, ...]] = []
    for task in tasks:
        for phase in _phases(task):
            for model, runs in task.models.items():
                own = _times(runs, phase)
                base = _times(task.models.get(experiment.baseline, []), phase)
                if not own:
                    continue
                ratio = _ratio(own, base)
                figure = paper.figure(METRIC, ROW, model) if paper else None
                seconds = float(np.mean([time.seconds for time in own]))
                numbers = (rounded(seconds, 3), rounded(ratio, 3), len(own), figure)
                records.append((task.name, phase, model, own[0].processor, *numbers))
                body.append(
                    (task.label, phase, runs[0].label, own[0].processor)
                    + (fixed(seconds, 1), fixed(ratio, 2), str(len(own)), fixed(figure, 2))
                )
    return Sheet(
        title=f"Time of every model over the baseline's{title}",
        columns=("task", "phase", "model", "processor", "seconds", "ratio", "n", "paper"),
        records=records,
        headings=("Task", "Phase", "Model", "On", "Seconds", "Ratio", "Seeds", "Paper"),
        body=body,
        align="llllrrrr",
        notes=(
            "Seconds: of one epoch of training, its development split included, and of decoding "
            "the test split, processor or GPU seconds, mean over seeds. Ratio: over the baseline's "
            f"({experiment.baseline}). Other work on the machine blurs such ratios; `python -m pam "
            "bench` takes the models in turns.",
            *([f"Paper: {paper.source}. {paper.note}"] if paper else []),
        ),
        group=2,
    )


def _phases(task: TaskRuns) -> list[str]:
    """What any run of the task has a time of: training, then decoding by beam."""
    phases = dict.fromkeys(time.phase for run in task.runs for time in _of_run(run))
    return list(phases)


def _times(runs: Sequence[ScoredRun], phase: str) -> list[Time]:
    return [time for run in runs for time in _of_run(run) if time.phase == phase]


def _of_run(run: ScoredRun) -> Iterator[Time]:
    training = run.scores.training
    spent = _spent(training)
    if spent is not None and training.get("epochs"):
        yield Time("training", spent[0], spent[1] / training["epochs"])
    for beam, decoding in run.decodings.items():
        spent = _spent(decoding)
        if spent is not None:
            yield Time(f"decoding, beam {beam}", *spent)


def _spent(recorded: dict[str, Any]) -> tuple[str, float] | None:
    if recorded.get("gpu_s"):
        return "GPU", float(recorded["gpu_s"])
    return ("CPU", float(recorded["cpu_s"])) if recorded.get("cpu_s") else None


def _ratio(own: Sequence[Time], base: Sequence[Time]) -> float | None:
    if not base or len({time.processor for time in (*own, *base)}) > 1:
        return None
    ours, theirs = (np.mean([time.seconds for time in times]) for times in (own, base))
    return float(ours / theirs)
