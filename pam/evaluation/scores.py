"""`scores.json`: all that is known of one trained run, result, cost and origin.

Tables and figures read nothing else of a run, except histories and alignments. To score another
kind of task: a function from `EvalInputs` to `Counts`, and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from pam.evaluation import alignment, bootstrap, inflection, translation
from pam.evaluation.inputs import Counts, EvalInputs, read_record, to_json
from pam.evaluation.metrics import Units, metric_of
from pam.io import Strict, unknown, write_text

KINDS: dict[str, Callable[[EvalInputs], Counts]] = {
    "inflection": inflection.count,
    "translation": translation.count,
    "alignment": alignment.count,
}
"""How each kind of task is scored."""


def count(kind: str, inputs: EvalInputs) -> Counts:
    """Reads and counts what the metrics of a kind of task need.

    Raises:
        UserError: no such kind; a file is missing or faulty, or does not belong to the others.
    """
    if kind not in KINDS:
        raise unknown("kind of scoring", kind, list(KINDS))
    return KINDS[kind](inputs)


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
        return Units(
            names=tuple(self.units),
            columns=tuple(self.columns),
            counts=np.array(list(self.units.values()), dtype=np.float64),
            references=self.references,
        )


def measure(units: Units, metrics: Iterable[str]) -> dict[str, Value]:
    """Each metric on all units, with its percentile bootstrap interval."""
    sums = bootstrap.resampled_sums(units.counts[None])[0]
    values = {}
    for known in map(metric_of, metrics):
        places = [units.columns.index(column) for column in known.columns]
        spread = bootstrap.interval(known.value(sums[:, places]))
        values[known.name] = Value(
            value=float(known.value(units.total(known.columns))),
            low=spread.low,
            high=spread.high,
            n=int(units.total([known.counted])[0]),
            unit=known.unit,
        )
    return values


def total_cost(training: dict[str, Any], decoding: dict[str, Any]) -> Cost:
    """Training and decoding added up; unknown where training's part is unknown."""

    def total(key: str) -> float | None:
        if training.get(key) is None:
            return None
        return float(training[key]) + float(decoding.get(key) or 0.0)

    return Cost(wall_s=total("wall_s"), cpu_s=total("cpu_s"), gpu_s=total("gpu_s"))


def make(
    kind: str,
    counts: Counts,
    identity: Mapping[str, Any],
    training: dict[str, Any],
    decoding: Mapping[str, dict[str, Any]],
) -> Scores:
    """Puts a run's record together.

    Args:
        kind: of `KINDS`.
        identity: experiment, task, model, label and seed; empty for predictions from elsewhere.
        training: content of `training.json`, or empty.
        decoding: content of each `decoding.json` by beam, the main beam's first, whose cost counts.
    """
    main = next(iter(decoding.values()), {})
    units = counts.units
    return Scores(
        **identity,
        kind=kind,
        metrics=measure(units, counts.metrics),
        cost=total_cost(training, main),
        unseen=main.get("unseen") or {},
        training=training,
        decoding=dict(decoding),
        details=counts.details,
        bootstrap={
            "resamples": bootstrap.resamples_for(len(units.names)),
            "seed": bootstrap.SEED,
            "level": bootstrap.LEVEL,
        },
        references=units.references,
        over=counts.over,
        columns=list(units.columns),
        units={
            name: [int(number) if number.is_integer() else number for number in row.tolist()]
            for name, row in zip(units.names, units.counts, strict=True)
        },
    )


def save(scores: Scores, path: Path | str) -> None:
    """Writes `scores.json`, whole or not at all."""
    write_text(path, to_json(scores))


def load(path: Path | str) -> Scores:
    """Reads `scores.json`.

    Raises:
        UserError: missing, not JSON, or not a record of scores.
    """
    return read_record(Scores, path)
