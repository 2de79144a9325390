"""`scores.json`: all that is known of one trained run, result, cost and origin; and what the
command `score` does.

Tables and figures read nothing else of a run, except histories and alignments. To score another
kind of task: a function from `EvalInputs` to `Counts`, and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from pam.config import RunConfig
from pam.data.dataset import Prepared
from pam.evaluation import alignment, bootstrap, captioning, inflection, summarization, translation
from pam.evaluation.inputs import Counts, EvalInputs
from pam.evaluation.metrics import Units, metric_of
from pam.io import Strict, UserError, read_json, unknown, write_text
from pam.run_folder import GOLD, RunFolder

KINDS: dict[str, Callable[[EvalInputs], Counts]] = {
    "inflection": inflection.count,
    "translation": translation.count,
    "alignment": alignment.count,
    "summarization": summarization.count,
    "captioning": captioning.count,
}

CONTROLS: dict[str, Callable[[str, Prepared, str], tuple[str, Sequence[Sequence[str]]]]] = {
    "summarization": summarization.control_rows,
    "captioning": captioning.control_rows,
}
"""By kind of task what makes outputs without a model, which are scored as a model's are."""


class Cost(Strict):
    """Seconds of training and decoding together; null where they were not measured."""

    wall_s: float | None = None
    cpu_s: float | None = None
    gpu_s: float | None = None


class Value(Strict):
    """One metric of one run with its bootstrap interval over units."""

    value: float
    low: float
    high: float
    n: int = Field(description="things judged: forms, paradigms, sentences, symbols")
    unit: str


class Scores(Strict):
    """The content of `scores.json` and of `gold_scores.json`."""

    experiment: str | None = None
    task: str | None = None
    model: str | None = None
    label: str | None = None
    seed: int | None = None
    kind: str = Field("inflection", description="kind of scoring, of `KINDS`")
    metrics: dict[str, Value]
    cost: Cost
    unseen: dict[str, int] = Field({}, description="symbols the vocabulary lacks, counted")
    training: dict[str, Any] = Field({}, description="what training recorded")
    decoding: dict[str, Any] = Field({}, description="what decoding recorded, by beam")
    details: dict[str, Any] = Field({}, description="signatures, counts of oddities")
    bootstrap: dict[str, float] = Field(description="resamples, seed and level of the intervals")
    references: str = Field(description="SHA-256 of what was to be predicted")
    over: str = Field("lemmas", description="what the units are, in words")
    columns: list[str] = Field(description="names of the counts per unit")
    units: dict[str, list[int | float]] = Field(description="counts per unit", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _without_lemmas(cls, content: Any) -> Any:
        """Records made before anything but inflection was scored say how many lemmas they have."""
        if isinstance(content, dict) and "kind" not in content:
            return {key: value for key, value in content.items() if key != "lemmas"}
        return content

    def counts(self) -> Units:
        """The counts per unit as arrays."""
        counts = np.array(list(self.units.values()), dtype=np.float64)
        return Units(tuple(self.units), tuple(self.columns), counts, self.references)


Record = dict[str, Any]  # the content of a file that training or decoding wrote


def make(
    kind: str,
    counts: Counts,
    identity: Mapping[str, Any],
    training: Record,
    decoding: Mapping[str, Record],
) -> Scores:
    """Puts a run's record together.

    Args:
        identity: experiment, task, model, label and seed; empty for predictions from elsewhere.
        training: content of `training.json`, or empty; without its cost, the whole cost is unknown.
        decoding: content of each `decoding.json` by beam, the main beam's first, whose cost counts.
    """
    units, main = counts.units, next(iter(decoding.values()), {})
    trained = {key: training[key] for key in Cost.model_fields if training.get(key) is not None}
    cost = {key: float(seconds) + float(main.get(key) or 0.0) for key, seconds in trained.items()}
    sums, metrics = bootstrap.resampled_sums(units.counts[None])[0], {}
    for known in map(metric_of, counts.metrics):
        places = [units.index_of(column) for column in known.columns]
        value, n = (
            float(known.value(units.total(known.columns))),
            int(units.total([known.counted])[0]),
        )
        spread = bootstrap.interval(known.value(sums[:, places]))
        metrics[known.name] = Value(
            value=value, low=spread.low, high=spread.high, n=n, unit=known.unit
        )
    resamples, rows = bootstrap.resamples_for(len(units.names)), units.counts.tolist()
    numbers = [[int(number) if number.is_integer() else number for number in row] for row in rows]
    return Scores(
        **identity,
        kind=kind,
        metrics=metrics,
        cost=Cost(**cost),
        unseen=main.get("unseen") or {},
        training=training,
        decoding=dict(decoding),
        details=counts.details,
        bootstrap={"resamples": resamples, "seed": bootstrap.SEED, "level": bootstrap.LEVEL},
        references=units.references,
        over=counts.over,
        columns=list(units.columns),
        units=dict(zip(units.names, numbers, strict=True)),
    )


@dataclass(frozen=True)
class Scored(EvalInputs):
    """The files that a run's scores are made of; what is not there is left out."""

    decoding: Sequence[Path] = ()  # records of the predictions, in their order; they name the beams
    run: RunConfig | None = None  # whose scores these are
    training: Path | None = None  # the record of its training, for the cost
    kind: str | None = None  # kind of scoring; None: that of the data's kind of task


def files_of(folder: RunFolder, split: str) -> Scored:
    """The files of a run that its scores on a split are made of."""
    run, analysis = folder.load(), folder.analysis(split)
    beams: list[int | str] = list(dict.fromkeys([run.decoding.beam, *run.decoding.beams]))
    if split != "test":
        beams = [] if split == GOLD else [run.decoding.beam]
    return Scored(
        predictions=[folder.predictions(split, beam) for beam in beams],
        decoding=[folder.decoding(split, beam) for beam in beams],
        data=folder.data(split),
        split=split,
        # Of a task of inflection there may be one that its scores do not need.
        analysis=analysis if analysis.is_file() else None,
        run=run,
        training=folder.training,
    )


def score(files: Scored) -> Scores:
    """Scores and the whole cost; a UserError if there is no such kind, or files are faulty or of
    different runs.
    """
    if not files.kind and files.data is None:
        hint = "name the run with --run, its data with --data, or the kind: --kind inflection"
        raise UserError("what kind of predictions these are is not said", hint=hint)
    kind = files.kind or str(files.prepared.summary["task"])
    decoding, beams = _decoding(files)
    if kind not in KINDS:
        raise unknown("kind of scoring", kind, list(KINDS))
    counts = KINDS[kind](replace(files, beams=beams))
    names = ("experiment", "task", "model", "label", "seed")
    identity = {name: getattr(files.run, name) for name in names} if files.run else {}
    training = {} if files.training is None else _content(files.training)
    return make(
        kind, counts, identity, training, {str(found.get("beam", 1)): found for found in decoding}
    )


def score_control(
    name: str, data: Path, split: str, predictions: Path, experiment: str, task: str
) -> Scores:
    """Writes what a control gives for a split as `predictions`; its scores, as those of a model of
    that name.

    A UserError says that there is no such control for data of this kind.
    """
    prepared = Prepared(data)
    kind = str(prepared.summary["task"])
    if kind not in CONTROLS:
        hint = f"name the data of a task of {' or '.join(CONTROLS)}"
        raise UserError(f"a task of {kind} has no controls", file=data, hint=hint)
    label, rows = CONTROLS[kind](name, prepared, split)
    write_text(predictions, "".join("\t".join(row) + "\n" for row in rows))
    identity = {"experiment": experiment, "task": task, "model": name, "label": label, "seed": 1}
    return make(
        kind,
        KINDS[kind](EvalInputs([predictions], [None], data=data, split=split)),
        identity,
        {},
        {},
    )


def _decoding(files: Scored) -> tuple[list[dict[str, Any]], list[int | None]]:
    """The records of decoding, one for each file of predictions, or none; and the beams, which
    differ.
    """
    found = [_content(path) for path in files.decoding]
    if found and len(found) != len(files.predictions):
        words = f"{len(files.predictions)} files of predictions and {len(found)} of decoding"
        raise UserError(
            words, hint="name one --decoding for each of --predictions, in the same order"
        )
    beams = [content.get("beam") for content in found] or [None] * len(files.predictions)
    if len(set(beams)) < len(beams):
        words = f"several files of predictions, of beams {', '.join(map(str, beams))}"
        raise UserError(words, hint="name their records with --decoding, each beam once")
    return found, beams


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError("expected keys and values", file=path, hint="delete it and make it again")
    return content
