"""Score a run, or a control without a model: count, and compute metrics with intervals and cost.

What is counted is decided by the kind of task, `counts` of its `TaskKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pam.data.dataset import Prepared
from pam.evaluation import bootstrap
from pam.evaluation.inputs import Counts, EvalInputs, GroupCounts
from pam.evaluation.metrics import Metric, Units, metric_of
from pam.evaluation.scores import Cost, GroupScores, Scores, Value
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import GOLD, RunFolder
from pam.runtime.errors import UserError
from pam.runtime.files import read_json, write_text
from pam.tasks import KINDS, find_kind, imported

ControlRows = Callable[[str, Prepared, str], tuple[str, Sequence[Sequence[str]]]]


Record = dict[str, Any]  # the content of a file that training or decoding wrote


def make(
    kind: str,
    counts: Counts,
    identity: Mapping[str, Any],
    training: Record,
    decoding: Mapping[str, Record],
) -> Scores:
    """Build the record of a run.

    Args:
        identity: experiment, task, model, label and seed; empty for predictions from elsewhere.
        training: content of `training.json`, or empty; without its cost, the whole cost is unknown.
        decoding: content of each `decoding.json` by beam, the main beam's first, whose cost counts.
    """
    units = counts.units
    main_decoding = next(iter(decoding.values()), {})

    return Scores(
        **identity,
        kind=kind,
        metrics=values_of(units, [metric_of(name) for name in counts.metrics]),
        cost=_whole_cost(training, main_decoding),
        unseen=main_decoding.get("unseen") or {},
        training=training,
        decoding=dict(decoding),
        details=counts.details,
        bootstrap=bootstrap.settings(len(units.names)),
        references=units.references,
        over=counts.over,
        columns=list(units.columns),
        units=_numbers_by_unit(units),
        groups={name: _scores_of(group) for name, group in counts.groups.items()},
    )


def _scores_of(group: GroupCounts) -> GroupScores:
    """Compute the scores of a group."""
    metrics = [metric_of(name) for name in group.metrics]
    return GroupScores(metrics=values_of(group.units, metrics), units=_numbers_by_unit(group.units))


def _numbers_by_unit(units: Units) -> dict[str, list[int | float]]:
    """Return the counts of each unit by its name."""
    return dict(zip(units.names, map(_as_numbers, units.counts.tolist()), strict=True))


def values_of(units: Units, metrics: Sequence[Metric]) -> dict[str, Value]:
    """Compute each metric with its bootstrap interval, by the metric's name."""
    sums = bootstrap.resampled_sums(units.counts[None])[0]

    # All metrics see the same draws.
    values = {}
    for metric in metrics:
        column_indices = [units.index_of(column) for column in metric.columns]
        interval = bootstrap.interval(metric.value(sums[:, column_indices]))
        values[metric.name] = Value(
            value=float(metric.value(units.total(metric.columns))),
            low=interval.low,
            high=interval.high,
            n=int(units.total([metric.counted])[0]),
            unit=metric.unit,
        )

    return values


def _whole_cost(training: Record, decoding: Record) -> Cost:
    """Add up the seconds of training and decoding; those that training lacks stay unknown."""
    # A sum without the seconds of training would pass for the whole.
    cost = {}
    for key in Cost.model_fields:
        if training.get(key) is not None:
            cost[key] = float(training[key]) + float(decoding.get(key) or 0.0)

    return Cost(**cost)


def _as_numbers(row: list[float]) -> list[int | float]:
    """Return whole numbers as `int`, which JSON writes without `.0`."""
    return [int(number) if number.is_integer() else number for number in row]


@dataclass(frozen=True)
class Scored(EvalInputs):
    """The files from which a run's scores are made; what is not there is left out."""

    decoding: Sequence[Path] = ()  # records of the predictions, in their order; they name the beams
    run: RunConfig | None = None  # whose scores these are
    training: Path | None = None  # the record of its training, for the cost
    kind: str | None = None  # kind of scoring; None: that of the data's kind of task


def files_of(folder: RunFolder, split: str) -> Scored:
    """List the files of a run from which its scores on a split are made."""
    run = folder.load()

    # Several beams are decoded of the test split alone; hand-aligned sentences are not decoded.
    beams: list[int | str]
    if split == "test":
        beams = list(dict.fromkeys([run.decoding.beam, *run.decoding.beams]))
    elif split == GOLD:
        beams = []
    else:
        beams = [run.decoding.beam]

    analysis = folder.analysis(split)
    return Scored(
        predictions=[folder.predictions(split, beam) for beam in beams],
        decoding=[folder.decoding(split, beam) for beam in beams],
        data=folder.data(split),
        split=split,
        # Runs of inflection may have none, and their scores need none.
        analysis=analysis if analysis.is_file() else None,
        run=run,
        training=folder.training,
    )


def score(files: Scored) -> Scores:
    """Compute the scores and the whole cost of a run.

    Raises:
        UserError: there is no such kind, or files are faulty or of different runs.
    """
    if not files.kind and files.data is None:
        hint = "name the run with --run, its data with --data, or the kind: --kind inflection"
        raise UserError("the kind of these predictions is unknown", hint=hint)

    kind = files.kind or str(files.prepared.summary["task"])
    decoding_records, beams = _decoding(files)
    counts = _count(kind, replace(files, beams=beams))

    identity = {}
    if files.run:
        names = ("experiment", "task", "model", "label", "seed")
        identity = {name: getattr(files.run, name) for name in names}
    training: Record = {}
    if files.training is not None:
        training = _content(files.training)
    decoding_by_beam = {str(record.get("beam", 1)): record for record in decoding_records}

    return make(kind, counts, identity, training, decoding_by_beam)


def score_control(
    name: str, data: Path, split: str, predictions: Path, experiment: str, task: str
) -> Scores:
    """Write the outputs of a control for a split, and return its scores as a model's of that name.

    Args:
        name: of the control, such as `lead`.
        predictions: the file to write.
        experiment, task: whose tables show the control.

    Raises:
        UserError: there is no such control for data of this kind.
    """
    prepared = Prepared(data)
    kind = str(prepared.summary["task"])
    controls = find_kind(kind).controls
    if not controls:
        with_controls = [other.name for other in KINDS.values() if other.controls]
        hint = f"name the data of a task of {' or '.join(with_controls)}"
        raise UserError(f"a task of {kind} has no controls", file=data, hint=hint)

    control_rows: ControlRows = imported(controls)
    label, rows = control_rows(name, prepared, split)
    write_text(predictions, "".join("\t".join(row) + "\n" for row in rows))

    counts = _count(kind, EvalInputs([predictions], [None], data=data, split=split))
    identity = {"experiment": experiment, "task": task, "model": name, "label": label, "seed": 1}
    return make(kind, counts, identity, training={}, decoding={})


def _count(kind: str, files: EvalInputs) -> Counts:
    """Count what the metrics of a kind of task need."""
    count: Callable[[EvalInputs], Counts] = imported(find_kind(kind).counts)
    return count(files)


def _decoding(files: Scored) -> tuple[list[Record], list[int | None]]:
    """Read the records of decoding, and return them with the beam of each file of predictions.

    There is one record for each file of predictions, or none at all. No beam occurs twice.
    """
    records = [_content(path) for path in files.decoding]
    if records and len(records) != len(files.predictions):
        problem = f"{len(files.predictions)} files of predictions and {len(records)} of decoding"
        hint = "name one --decoding for each of --predictions, in the same order"
        raise UserError(problem, hint=hint)

    beams = [record.get("beam") for record in records] or [None] * len(files.predictions)
    if len(set(beams)) < len(beams):
        problem = f"several files of predictions, of beams {', '.join(map(str, beams))}"
        raise UserError(problem, hint="name their records with --decoding, each beam once")

    return records, beams


def _content(path: Path) -> Record:
    """Read a record that training or decoding wrote."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError("expected keys and values", file=path, hint="delete it and make it again")
    return content
