"""Read the scored runs of an experiment, and group what else is known of its runs.

Tasks and models are in the order of the configuration, seeds ascending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from pam.evaluation.metrics import METRICS, metric_of, of_beam
from pam.evaluation.records import load
from pam.evaluation.scores import Scores
from pam.experiments.experiment import Experiment, TaskConfig
from pam.experiments.parsing import parse
from pam.experiments.yaml import read_yaml
from pam.reporting.catalogue import DEMONSTRATION, is_demonstration
from pam.runtime.errors import UserError, unknown


@dataclass(frozen=True)
class OfRun:
    """A file, and the run that it belongs to."""

    path: Path
    task: str
    model: str
    label: str
    seed: int


@dataclass(frozen=True)
class ScoredRun(OfRun):
    """One `scores.json`."""

    scores: Scores

    @property
    def decodings(self) -> dict[str, dict[str, Any]]:
        """The records of decoding by beam, the main one first."""
        recorded = self.scores.decoding
        # a single beam
        if "beam" in recorded:
            return {str(recorded["beam"]): recorded}
        return recorded

    @property
    def main_decoding(self) -> dict[str, Any]:
        """The record of decoding with the main beam; empty if there is none."""
        return next(iter(self.decodings.values()), {})


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one task; models in the order of the configuration, seeds ascending."""

    name: str
    label: str
    config: TaskConfig
    models: dict[str, list[ScoredRun]]
    # outputs that no model made and that no metric is defined for
    unscored: Sequence[ScoredRun] = ()

    @property
    def runs(self) -> list[ScoredRun]:
        """All runs, model by model."""
        return [run for of_model in self.models.values() for run in of_model]

    def metrics(self, patterns: Sequence[str]) -> list[str]:
        """Return the metrics that every run has and that match a pattern such as `bleu_b*`.

        They are in the order of the patterns.
        """
        shared = [
            name
            for name in self.runs[0].scores.metrics
            if all(name in run.scores.metrics for run in self.runs)
        ]
        matching = [name for pattern in patterns for name in shared if fnmatchcase(name, pattern)]
        return list(dict.fromkeys(matching))


def load_experiment(path: Path | str) -> Experiment:
    """Read an experiment's configuration, with its demonstrations after all other tasks."""
    experiment = parse(Experiment, read_yaml(path), path)
    tasks = sorted(experiment.tasks.items(), key=lambda item: is_demonstration(item[1]))
    return experiment.model_copy(update={"tasks": dict(tasks)})


def label_of(task: str, experiment: Experiment) -> str:
    """Return a task's name in tables and figures, which marks a demonstration as one."""
    config = experiment.tasks[task]
    label = config.label or task
    if is_demonstration(config) and DEMONSTRATION not in label.lower():
        return f"{label} ({DEMONSTRATION})"
    return label


class OfARun(Protocol):
    """The content of a file, which says the run that it belongs to."""

    @property
    def task(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def seed(self) -> int: ...


Record = TypeVar("Record", bound=OfARun)
ByTask = dict[str, dict[str, list[Record]]]  # task -> model -> seeds, ascending


def by_task(records: Sequence[Record], experiment: Experiment) -> ByTask[Record]:
    """Group records of runs by task and model.

    Tasks and models are in the order of the experiment, models that it does not list come last.
    """
    grouped: ByTask[Record] = {}
    for task in experiment.tasks:
        # The models of the configuration come first, whatever the order of the files.
        by_model: dict[str, list[Record]] = {model: [] for model in experiment.models_of(task)}
        for record in records:
            if record.task == task:
                by_model.setdefault(record.model, []).append(record)

        present = {
            model: sorted(seeds, key=attrgetter("seed"))
            for model, seeds in by_model.items()
            if seeds
        }
        if present:
            grouped[task] = present
    return grouped


def labels(grouped: ByTask[Record]) -> dict[str, str]:
    """Return the label of every model that any task has."""
    return {
        model: seeds[0].label for by_model in grouped.values() for model, seeds in by_model.items()
    }


def load_runs(paths: Sequence[Path | str], experiment: Experiment) -> list[TaskRuns]:
    """Read and group scored runs.

    Raises:
        UserError: a run is of another experiment or of no known task, two files are of one run, or
            runs of one task were scored on different test sets.
    """
    runs: dict[tuple[str, str, int], ScoredRun] = {}
    for path in map(Path, paths):
        run = _load_run(path, experiment)
        key = (run.task, run.model, run.seed)
        if key in runs:
            words = f"the same run as {runs[key].path}: {run.task}, {run.model}, seed {run.seed}"
            raise UserError(words, file=path, hint="name each file once")
        runs[key] = run

    if not runs:
        raise UserError("no scores to report", hint="name at least one scores.json")

    first: dict[str, ScoredRun] = {}
    for run in runs.values():
        check_comparable(first.setdefault(run.task, run), run)

    unscored = [run for run in runs.values() if not (run.scores.metrics or run.scores.training)]
    scored = [run for run in runs.values() if run not in unscored]
    return [
        TaskRuns(
            name=task,
            label=label_of(task, experiment),
            config=experiment.tasks[task],
            models=models,
            unscored=[run for run in unscored if run.task == task],
        )
        for task, models in by_task(scored, experiment).items()
    ]


def _load_run(path: Path, experiment: Experiment) -> ScoredRun:
    """Read the scores of one run of the experiment."""
    scores = load(Scores, path)
    task, model, seed = scores.task, scores.model, scores.seed
    if task is None or model is None or seed is None:
        raise UserError(
            "these scores do not say which run they belong to",
            file=path,
            hint="score the predictions again with --run",
        )
    if scores.experiment != experiment.experiment or task not in experiment.tasks:
        words = (
            f"this is task `{task}` of experiment `{scores.experiment}`, not of"
            f" `{experiment.experiment}`"
        )
        raise UserError(words, file=path, hint="report each experiment on its own")

    return ScoredRun(path, task, model, scores.label or model, seed, scores)


def check_comparable(first: ScoredRun, other: ScoredRun) -> None:
    """Check that two runs were scored on the same units in the same order.

    Raises:
        UserError: they were not; the error names the first unit that differs, and its line.
    """
    if first.scores.references == other.scores.references:
        return

    difference = "what was to be predicted differs"
    line = None
    unit = _first_difference(first, other)
    if unit is not None:
        difference = f"the first difference is `{unit}`"
        # The file has a line for each unit, indented by four spaces.
        start = f"    {json.dumps(unit, ensure_ascii=False)}: ["
        texts = enumerate(other.path.read_text(encoding="utf-8").split("\n"), start=1)
        line = next((number for number, text in texts if text.startswith(start)), None)

    raise UserError(
        f"scored on another test set than {first.path}: {difference}",
        file=other.path,
        line=line,
        hint="predict and score both runs on the same prepared data",
    )


def _first_difference(first: ScoredRun, other: ScoredRun) -> str | None:
    """Return the other run's first unit that the first run lacks, has elsewhere or counts apart."""
    counts = first.scores.counts()
    other_counts = other.scores.counts()
    # Columns that depend on the references alone, not on the outputs.
    counted = {metric_of(name).counted for name in first.scores.metrics}
    judged = [index for index, name in enumerate(counts.columns) if name in counted]

    for index, name in enumerate(other_counts.names):
        if counts.names[index : index + 1] != (name,):
            return name
        if not np.array_equal(counts.counts[index, judged], other_counts.counts[index, judged]):
            return name
    return None


class LeftOutError(UserError):
    """Scoring has left out these metrics of all tasks; the message gives its reasons."""


def reasons_left_out(tasks: Sequence[TaskRuns]) -> list[str]:
    """Return why metrics are left out of scores, each reason once."""
    all_details = [run.scores.details for task in tasks for run in [*task.runs, *task.unscored]]
    return list(
        dict.fromkeys(reason for details in all_details for reason in details.get("left_out", ()))
    )


def notes_of(task: TaskRuns) -> list[str]:
    """Return what a reader of a task's scores has to know, each note once, and blank outputs."""
    notes = dict.fromkeys(note for run in task.runs for note in run.scores.details.get("notes", ()))
    blank = [text for runs in task.models.values() if (text := _blank_outputs(runs))]
    if blank:
        notes[f"blank outputs of the main beam, over all seeds: {', '.join(blank)}"] = None
    return list(notes)


def _blank_outputs(runs: Sequence[ScoredRun]) -> str:
    """Count the blank outputs of a model's seeds; return nothing if there are none."""
    blank = 0
    outputs = 0
    for run in runs:
        details = run.scores.details
        beam = run.main_decoding.get("beam")
        blank += details.get("empty", details.get(of_beam("empty", beam), 0))
        # The rows of inflection are forms, its units are lemmas.
        counts = run.scores.counts()
        outputs += int(counts.total(["forms"])[0]) if counts.has(["forms"]) else len(counts.names)

    if not blank:
        return ""
    return f"{runs[0].label} {blank:,} of {outputs:,}"


def check_known(patterns: Sequence[str], tasks: Sequence[TaskRuns]) -> None:
    """Check that some task has a metric that matches.

    Raises:
        LeftOutError: none has, and scoring may have left out the metric.
        UserError: none has; the error names the closest metric that there is.
    """
    if any(task.metrics(patterns) for task in tasks):
        return

    reasons = reasons_left_out(tasks)
    # The name of any beam stands for those of all beams.
    names = [*METRICS, *(f"{name}_b1" for name in METRICS)]
    if reasons and any(fnmatchcase(name, pattern) for pattern in patterns for name in names):
        raise LeftOutError("; ".join(reasons), hint="choose another metric")

    present = dict.fromkeys(name for task in tasks for name in task.metrics(["*"]))
    raise unknown("metric", ", ".join(patterns), list(present))


def processor_seconds(recorded: dict[str, Any]) -> tuple[str, float] | None:
    """Return which processor did a piece of work and its seconds; the GPU where one was used."""
    for processor, key in (("GPU", "gpu_s"), ("CPU", "cpu_s")):
        if recorded.get(key):
            return processor, float(recorded[key])
    return None


def processor_of(work: dict[str, Any], training: dict[str, Any]) -> tuple[str, float] | None:
    """Return the name of the processor that did a piece of work, and its seconds.

    A record of decoding without a name counts as made on the machine of the training, if both used
    the same kind of processor.
    """
    spent = processor_seconds(work)
    if spent is None:
        return None

    kind, seconds = spent
    hardware = work.get("hardware") or {}
    of_training = processor_seconds(training)
    if not hardware and of_training is not None and of_training[0] == kind:
        hardware = training.get("hardware") or {}
    return str(hardware.get(kind.lower()) or kind), seconds


DEVICES = ("CPU", "GPU")


def whole_cost(run: ScoredRun) -> tuple[str, float] | None:
    """Return the device that both trained and decoded a run, and its seconds.

    None where these were not measured, or one device trained and another one decoded: their sum
    says nothing.
    """
    cost = run.scores.cost
    pieces = [processor_seconds(piece) for piece in (run.scores.training, run.main_decoding)]
    devices = {piece[0] for piece in pieces if piece is not None}
    if not devices:
        # No piece tells its device; the total does.
        devices = {"GPU" if cost.gpu_s else "CPU"}
    if len(devices) > 1:
        return None

    (device,) = devices
    seconds = cost.gpu_s if device == "GPU" else cost.cpu_s
    if seconds is None:
        return None
    return device, seconds


def check_task(task: str, path: Path, experiment: Experiment) -> None:
    """Check that the experiment has the task of a file."""
    if task not in experiment.tasks:
        words = f"this is task `{task}`, not one of `{experiment.experiment}`"
        raise UserError(words, file=path, hint="draw each experiment on its own")


Means = Mapping[tuple[str, str], float | None]  # by task and model; None if unknown


def means_over_seeds(records: Iterable[tuple[str, str, float | None]]) -> Means:
    """Return means over seeds, unknown where the value of one seed is.

    Args:
        records: task, model and value of each run.
    """
    by_model: dict[tuple[str, str], list[float | None]] = {}
    for task, model, value in records:
        by_model.setdefault((task, model), []).append(value)

    means: dict[tuple[str, str], float | None] = {}
    for key, values in by_model.items():
        known = [value for value in values if value is not None]
        # A mean over some of the seeds would not compare with the means of other models.
        means[key] = float(np.mean(known)) if len(known) == len(values) else None
    return means
