"""`scores.json`: all that is known of one trained cell, result, cost and origin.

Tables and figures read nothing else of a cell, except histories and alignments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import Field

from pam.config import Strict, parse
from pam.errors import UserError
from pam.files import read_json, write_text
from pam.scoring import bootstrap
from pam.scoring.metrics import METRICS
from pam.scoring.units import Units


class Cost(Strict):
    """Seconds of training and decoding together; null where they were not measured."""

    wall_s: float | None = None
    cpu_s: float | None = None
    gpu_s: float | None = None


class Value(Strict):
    """One metric of one cell with its bootstrap interval over units."""

    value: float
    low: float
    high: float
    n: int = Field(description="things judged: forms, paradigms")
    unit: str


class Scores(Strict):
    """The content of `scores.json`."""

    experiment: str | None = None
    task: str | None = None
    model: str | None = None
    label: str | None = None
    seed: int | None = None
    metrics: dict[str, Value]
    lemmas: int
    cost: Cost
    unseen: dict[str, int] = Field({}, description="characters the vocabulary lacks, counted")
    training: dict[str, Any] = Field({}, description="what training recorded")
    decoding: dict[str, Any] = Field({}, description="what decoding recorded")
    bootstrap: dict[str, float] = Field(description="resamples, seed and level of the intervals")
    references: str = Field(description="SHA-256 of lemmas, features and forms")
    columns: list[str] = Field(description="names of the counts per unit")
    units: dict[str, list[int | float]] = Field(description="counts per lemma", min_length=1)

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
    for metric in (METRICS[name] for name in metrics):
        places = [units.columns.index(column) for column in metric.columns]
        spread = bootstrap.interval(metric.value(sums[:, places]))
        values[metric.name] = Value(
            value=float(metric.value(units.total(metric.columns))),
            low=spread.low,
            high=spread.high,
            n=int(units.total([metric.counted])[0]),
            unit=metric.unit,
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
    units: Units,
    metrics: Iterable[str],
    identity: dict[str, Any],
    training: dict[str, Any],
    decoding: dict[str, Any],
) -> Scores:
    """Puts a cell's record together.

    Args:
        identity: experiment, task, model, label and seed; empty for predictions from elsewhere.
        training: content of `training.json`, or empty.
        decoding: content of `decoding.json`, or empty.
    """
    return Scores(
        **identity,
        metrics=measure(units, metrics),
        lemmas=len(units.names),
        cost=total_cost(training, decoding),
        unseen=decoding.get("unseen") or {},
        training=training,
        decoding=decoding,
        bootstrap={
            "resamples": bootstrap.RESAMPLES,
            "seed": bootstrap.SEED,
            "level": bootstrap.LEVEL,
        },
        references=units.references,
        columns=list(units.columns),
        units={
            name: [int(number) if number.is_integer() else number for number in row.tolist()]
            for name, row in zip(units.names, units.counts, strict=True)
        },
    )


def to_json(scores: Scores) -> str:
    """Indented JSON, except that each unit's counts stand on one line, for people to read."""
    content = scores.model_dump()
    units = content.pop("units")
    head = json.dumps(content, indent=2, ensure_ascii=False)[:-2]
    rows = ",\n".join(
        f"    {json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}"
        for name, row in units.items()
    )
    return f'{head},\n  "units": {{\n{rows}\n  }}\n}}\n'


def save(scores: Scores, path: Path | str) -> None:
    """Writes `scores.json`, whole or not at all."""
    write_text(path, to_json(scores))


def load(path: Path | str) -> Scores:
    """Reads `scores.json`.

    Raises:
        UserError: missing, not JSON, or not a record of scores.
    """
    return read_made(Scores, path)


Made = TypeVar("Made", bound=Strict)


def read_made(kind: type[Made], path: Path | str) -> Made:
    """Reads JSON that an earlier step has made, as `kind`.

    Raises:
        UserError: missing, not JSON, or something else; the remedy is to make it again.
    """
    content = read_json(path)
    try:
        return parse(kind, content, path)
    except UserError as error:
        raise UserError(
            error.message, file=path, line=error.line, remedy="delete it and make it again"
        ) from error
