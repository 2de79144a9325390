"""The runs of one experiment: scores, analyses and histories, in the configuration's order."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pam.config import Experiment, TaskConfig, load_run
from pam.evaluation.attention import Analysis
from pam.evaluation.inputs import columns_of, load, read_predictions
from pam.evaluation.metrics import METRICS, Floats, metric_of
from pam.evaluation.scores import Scores
from pam.io import UserError, parse, read_yaml, unknown


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
        """What decoding recorded, by beam, the main one first."""
        recorded = self.scores.decoding
        return {str(recorded["beam"]): recorded} if "beam" in recorded else recorded

    @property
    def main_decoding(self) -> dict[str, Any]:
        """What decoding with the main beam recorded; empty if nothing."""
        return next(iter(self.decodings.values()), {})


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one task; models in the order of the configuration, seeds ascending."""

    name: str
    label: str
    config: TaskConfig
    models: dict[str, list[ScoredRun]]

    @property
    def runs(self) -> list[ScoredRun]:
        """All of them, model by model."""
        return [run for of_model in self.models.values() for run in of_model]

    def metrics(self, patterns: Sequence[str]) -> list[str]:
        """The metrics that every run has and that match a pattern such as `bleu_b*`, in the order
        of the patterns.
        """
        known = [
            name
            for name in self.runs[0].scores.metrics
            if all(name in run.scores.metrics for run in self.runs)
        ]
        return list(
            dict.fromkeys(name for one in patterns for name in known if fnmatchcase(name, one))
        )


def load_experiment(path: Path | str) -> Experiment:
    """The experiment's configuration (YAML or JSON), its demonstrations after all other tasks."""
    found = parse(Experiment, read_yaml(path), path)
    tasks = sorted(found.tasks.items(), key=lambda item: is_demonstration(item[1]))
    return found.model_copy(update={"tasks": dict(tasks)})


DEMONSTRATION = "demonstration"


def is_demonstration(task: TaskConfig) -> bool:
    """Whether the label or the note of a task calls it a demonstration."""
    return DEMONSTRATION in f"{task.label} {task.note}".lower()


def label_of(task: str, experiment: Experiment) -> str:
    """A task's name in tables and figures, which says of a demonstration that it is one."""
    own = experiment.tasks[task]
    label = own.label or task
    return (
        f"{label} ({DEMONSTRATION})"
        if is_demonstration(own) and DEMONSTRATION not in label.lower()
        else label
    )


@dataclass(frozen=True)
class History(OfRun):
    columns: dict[str, Floats]  # of `history.csv`, by name
    targets: str  # what losses are counted in: symbols, or actions of a pointer


@dataclass(frozen=True)
class Outputs(OfRun):
    lines: list[tuple[str, ...]]  # source, reference and output of each row of a split


Own = TypeVar("Own", ScoredRun, Analysis, History, Outputs)  # whatever belongs to a run
ByTask = dict[str, dict[str, list[Own]]]  # task -> model -> seeds, ascending


def by_task(found: Sequence[Own], experiment: Experiment) -> ByTask[Own]:
    """Groups what belongs to runs; tasks and models as the experiment has them, others last."""
    grouped: ByTask[Own] = {}
    for task in experiment.tasks:
        by_model: dict[str, list[Own]] = {model: [] for model in experiment.models_of(task)}
        for one in found:
            if one.task == task:
                by_model.setdefault(one.model, []).append(one)
        if known := {
            model: sorted(seeds, key=attrgetter("seed"))
            for model, seeds in by_model.items()
            if seeds
        }:
            grouped[task] = known
    return grouped


def labels(grouped: ByTask[Own]) -> dict[str, str]:
    """Every model that any task has, with its name."""
    return {model: own[0].label for models in grouped.values() for model, own in models.items()}


def load_runs(paths: Sequence[Path | str], experiment: Experiment) -> list[TaskRuns]:
    """Reads and groups scored runs.

    A UserError names a run of another experiment or of no known task, two files of one run, or runs
    of one task that were scored on different test sets.
    """
    runs: dict[tuple[str, str, int], ScoredRun] = {}
    for path in map(Path, paths):
        scores = load(Scores, path)
        task, model, seed = scores.task, scores.model, scores.seed
        if task is None or model is None or seed is None:
            hint = "score the predictions again with --run"
            raise UserError(
                "these scores do not say which run they belong to", file=path, hint=hint
            )
        if scores.experiment != experiment.experiment or task not in experiment.tasks:
            words = (
                f"this is task `{task}` of experiment `{scores.experiment}`, not of"
                f" `{experiment.experiment}`"
            )
            raise UserError(words, file=path, hint="report each experiment on its own")
        if (task, model, seed) in runs:
            words = f"the same run as {runs[task, model, seed].path}: {task}, {model}, seed {seed}"
            raise UserError(words, file=path, hint="name each file once")
        runs[task, model, seed] = ScoredRun(path, task, model, scores.label or model, seed, scores)
    if not runs:
        raise UserError("no scores to report", hint="name at least one scores.json")
    first: dict[str, ScoredRun] = {}
    for run in runs.values():
        _check_comparable(first.setdefault(run.task, run), run)
    grouped = by_task(list(runs.values()), experiment).items()
    return [
        TaskRuns(name, label_of(name, experiment), experiment.tasks[name], models)
        for name, models in grouped
    ]


def _check_comparable(first: ScoredRun, other: ScoredRun) -> None:
    """A UserError names the first unit that two runs do not share, or have in another order, and
    its line.
    """
    if first.scores.references == other.scores.references:
        return
    mine, theirs = first.scores.counts(), other.scores.counts()
    counted = sorted({metric_of(name).counted for name in first.scores.metrics})
    judged = [place for place, name in enumerate(mine.columns) if name in counted]
    what, line = "what was to be predicted differs", None
    for index, name in enumerate(theirs.names):
        same = mine.names[index : index + 1] == (name,)
        if not same or not np.array_equal(mine.counts[index, judged], theirs.counts[index, judged]):
            what, start = (
                f"the first difference is `{name}`",
                f"    {json.dumps(name, ensure_ascii=False)}: [",
            )
            texts = enumerate(other.path.read_text(encoding="utf-8").split("\n"), start=1)
            line = next((number for number, text in texts if text.startswith(start)), None)
            break
    words = f"scored on another test set than {first.path}: {what}"
    raise UserError(
        words,
        file=other.path,
        line=line,
        hint="predict and score both runs on the same prepared data",
    )


class LeftOutError(UserError):
    """Metrics that scoring has left out of all tasks, with its reasons as the message."""


def reasons_left_out(tasks: Sequence[TaskRuns]) -> list[str]:
    """Why metrics are left out of scores, each reason once."""
    details = [run.scores.details for task in tasks for run in task.runs]
    return list(dict.fromkeys(reason for own in details for reason in own.get("left_out", ())))


def check_known(patterns: Sequence[str], tasks: Sequence[TaskRuns]) -> None:
    """Raise a `UserError` if no task has a metric that matches.

    It is a `LeftOutError` if scoring may have left out the metric, else one that names the closest
    metric that there is.
    """
    if not any(task.metrics(patterns) for task in tasks):
        reasons = reasons_left_out(tasks)
        names = [*METRICS, *(f"{name}_b1" for name in METRICS)]
        if reasons and any(fnmatchcase(name, pattern) for pattern in patterns for name in names):
            raise LeftOutError("; ".join(reasons), hint="choose another metric")
        known = dict.fromkeys(name for task in tasks for name in task.metrics(["*"]))
        raise unknown("metric", ", ".join(patterns), list(known))


def processor_seconds(recorded: dict[str, Any]) -> tuple[str, float] | None:
    """Which processor did a piece of work, the GPU where one was used, and its seconds."""
    known = (("GPU", "gpu_s"), ("CPU", "cpu_s"))
    return next(
        ((processor, float(recorded[key])) for processor, key in known if recorded.get(key)), None
    )


DEVICES = ("CPU", "GPU")


def whole_cost(run: ScoredRun) -> tuple[str, float] | None:
    """The device that both trained and decoded a run, and its seconds.

    None where these were not measured, or one device trained and another one decoded: their sum
    says nothing.
    """
    cost = run.scores.cost
    pieces = [processor_seconds(piece) for piece in (run.scores.training, run.main_decoding)]
    devices = {piece[0] for piece in pieces if piece is not None}
    if not devices:
        devices = {"GPU" if cost.gpu_s else "CPU"}
    if len(devices) > 1:
        return None
    (device,) = devices
    seconds = cost.gpu_s if device == "GPU" else cost.cpu_s
    return None if seconds is None else (device, seconds)


def load_analyses(paths: Sequence[Path], experiment: Experiment) -> ByTask[Analysis]:
    """Reads and groups analyses; a `UserError` if one is of a task that the experiment does not
    have.
    """
    found = [load(Analysis, path) for path in paths]
    for path, analysis in zip(paths, found, strict=True):
        _check_task(analysis.task, path, experiment)
    return by_task(found, experiment)


def _check_task(task: str, path: Path, experiment: Experiment) -> None:
    if task not in experiment.tasks:
        words = f"this is task `{task}`, not one of `{experiment.experiment}`"
        raise UserError(words, file=path, hint="draw each experiment on its own")


def load_outputs(paths: Sequence[Path], experiment: Experiment) -> ByTask[Outputs]:
    """Reads and groups outputs, each `predictions.tsv` in a folder beside its run's `run.yaml`.

    The source of an inflected form is its lemma with the features.
    """
    found = []
    for path in paths:
        run = load_run(path.parents[1] / "run.yaml")
        if "lemma" in columns_of(path):
            rows = read_predictions(path, ("lemma", "features", "form", "predicted"))
            lines = [
                (f"{lemma} ({features.replace(',', ', ')})", *others)
                for lemma, features, *others in rows
            ]
        else:
            lines = read_predictions(path, ("source", "target", "predicted"))
        found.append(Outputs(path, run.task, run.model, run.label, run.seed, lines))
    return by_task(found, experiment)


def load_histories(paths: Sequence[Path], experiment: Experiment) -> ByTask[History]:
    """Reads and groups histories, each with the `run.yaml` in its folder; a `UserError` if one is
    of another task.
    """
    found = []
    for path in paths:
        run = load_run(path.with_name("run.yaml"))
        _check_task(run.task, path, experiment)
        columns, targets = history_columns(path), run.components.targets
        found.append(History(path, run.task, run.model, run.label, run.seed, columns, targets))
    return by_task(found, experiment)


HISTORY_COLUMNS = ("epoch", "step", "train_loss", "dev_loss")
# empty where not measured
OPTIONAL_COLUMNS = ("dev_accuracy", "dev_token_accuracy", "dev_objective", "dev_positions")


def history_columns(path: Path) -> dict[str, Floats]:
    """The columns of `history.csv`, each (epochs,); a `UserError` names a missing column or number,
    or no epochs.
    """
    hint = "delete the run's history and train again"
    if not path.is_file():
        raise UserError("no such file", file=path, hint="train the run first")
    reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    for column in HISTORY_COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise UserError(f"missing column `{column}`", file=path, line=1, hint=hint)
    read = list(reader)
    known = [
        *HISTORY_COLUMNS,
        *(name for name in OPTIONAL_COLUMNS if any(row.get(name) for row in read)),
    ]
    rows = []
    for line, row in enumerate(read, start=2):
        try:
            rows.append([float(row[column]) for column in known])
        except (TypeError, ValueError) as error:
            raise UserError(
                "a number is missing or is none", file=path, line=line, hint=hint
            ) from error
    if not rows:
        raise UserError("no epochs", file=path, hint=hint)
    return dict(zip(known, np.array(rows).T, strict=True))
