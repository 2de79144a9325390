"""Metrics as functions of summed counts, so that one bootstrap serves them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A corpus figure that depends on the outputs only through sums over resampling units.

    Attributes:
        name: key in `scores.json` and in the column `metric` of the tables.
        label: words for an axis or a heading, without the unit.
        unit: unit of the value.
        columns: names of the counts it needs, in the order in which `value` takes them.
        value: sums (..., columns) to values (...), in `unit`.
        counted: the column whose sum is the number of things judged.
        decimals: digits shown after the point.
    """

    name: str
    label: str
    unit: str
    columns: tuple[str, ...]
    value: Callable[[Floats], Floats]
    counted: str
    decimals: int = 2


def percentage(sums: Floats) -> Floats:
    """100 x first count / second count; sums (..., 2) -> (...)."""
    return 100.0 * sums[..., 0] / sums[..., 1]


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Accuracy", "%", ("correct", "forms"), percentage, "forms"),
        Metric(
            "paradigm_accuracy",
            "Whole paradigms",
            "%",
            ("whole", "paradigms"),
            percentage,
            "paradigms",
        ),
    )
}
