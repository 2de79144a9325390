"""Intervals and tests of means over seeds and test units, in closed form.

A figure is a mean over a few seeds on some test units. Both are samples: the seeds of all trainings
that the same configuration could have had, the units (lemmas, sentences) of all that could have
been tested. A gain d of model A over model B, with S_A and S_B seeds on the same n units, has the
variance

    V = V_U + max(0, v - e) (1 / S_A + 1 / S_B)

- V_U is the variance over units of the difference of the models' influences, each a mean over
  seeds, divided by n. The influence of a unit is its leave-one-out pseudo-value; of a mean over
  units it is the unit's value less the mean. Models are paired, as both saw the same units.
- v is the variance over seeds, a mean over all models of the table: a few seeds of one model
  estimate it badly.
- e is the residual variance of seeds by units, divided by n, likewise a mean. It is a part of both
  V_U and v, and must not count twice.

By Satterthwaite's approximation V has f = V^2 F / (v (1 / S_A + 1 / S_B))^2 degrees of freedom, at
least 2, where F is the sum of S_m - 1 over the models of the table. The interval d ± t_f sqrt(V)
and p = 2 T_f(-|d| / sqrt(V)) are one test. Nothing is drawn, so no verdict depends on a random
seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pam.evaluation import student
from pam.evaluation.bootstrap import LEVEL, Interval
from pam.evaluation.metrics import Floats

LEAST_FREEDOM = 2.0


@dataclass(frozen=True)
class Measured:
    """The values of one model by one metric, with the influence of each test unit on them."""

    values: Floats  # (seeds,)
    influences: Floats  # (seeds, units); without units where a quantity has none
    # made by no training, so that its single seed is all that there is
    repeatable: bool = False

    @classmethod
    def of(
        cls, counts: Floats, value: Callable[[Floats], Floats], repeatable: bool = False
    ) -> Measured:
        """Measure a model by a function of counts summed over units.

        Args:
            counts: (seeds, units, columns).
            value: maps sums (..., columns) to values (...).
        """
        totals = counts.sum(axis=1)
        values = value(totals)
        units = counts.shape[1]
        # A metric may be undefined without the only unit that counts; its influence is then, too.
        with np.errstate(divide="ignore", invalid="ignore"):
            without_unit = value(totals[:, None] - counts)
            influences = (units - 1) * (values[:, None] - without_unit)

        return cls(values, influences, repeatable)

    @classmethod
    def of_seeds(cls, values: Sequence[float]) -> Measured:
        """Return a quantity that each seed has as a whole, without units."""
        of_seeds = np.array(values, dtype=np.float64)
        return cls(of_seeds, np.empty((len(of_seeds), 0)))

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(self.values.mean())

    def minus(self, other: Measured) -> Measured:
        """Return the difference of two metrics of the same runs, seed by seed."""
        return Measured(self.values - other.values, self.influences - other.influences)

    def log(self) -> Measured:
        """Return logarithms, whose differences are ratios."""
        return Measured(
            values=np.log(self.values),
            influences=self.influences / self.values[:, None],
            repeatable=self.repeatable,
        )

    def inverse_seeds(self) -> float:
        """Return the factor of the variance over seeds in that of the mean."""
        return 0.0 if self.repeatable else 1.0 / self.seeds

    def residual_variance(self) -> float:
        """Return the variance of seeds by units that neither explains alone, divided by n."""
        seeds, units = self.influences.shape
        if units < 2:
            return 0.0

        residuals = self.influences - self.influences.mean(axis=0)
        residuals -= residuals.mean(axis=1, keepdims=True)
        return float(np.sum(residuals**2) / ((seeds - 1) * (units - 1) * units))


class Scatter(NamedTuple):
    """How much seeds of one configuration scatter, pooled over the models of a table."""

    variance: float = 0.0  # v, over seeds
    residual: float = 0.0  # e, of seeds by units, divided by the number of units
    freedom: int = 0  # F, the sum of seeds - 1

    @classmethod
    def of(cls, models: Iterable[Measured]) -> Scatter:
        """Pool the models that have several seeds; without any nothing scatters."""
        several = [model for model in models if model.seeds > 1]
        if not several:
            return cls()

        return cls(
            variance=float(np.mean([model.values.var(ddof=1) for model in several])),
            residual=float(np.mean([model.residual_variance() for model in several])),
            freedom=sum(model.seeds - 1 for model in several),
        )


class Estimate(NamedTuple):
    """A value with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    freedom: float

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the interval that holds the truth with a probability of `level`."""
        half = student.quantile(level, self.freedom) * self.error
        return Interval(self.value - half, self.value + half)

    @property
    def p(self) -> float:
        """Two-sided p of the hypothesis that the true value is 0."""
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return student.two_sided(self.value / self.error, self.freedom)

    def times(self, factor: float) -> Estimate:
        """Return `factor` times the value."""
        return Estimate(factor * self.value, abs(factor) * self.error, self.freedom)

    def less(self, number: float) -> Estimate:
        """Return the value less an exact number."""
        return Estimate(self.value - number, self.error, self.freedom)


def gain(model: Measured, base: Measured, scatter: Scatter) -> Estimate:
    """Estimate by how much a model's mean exceeds another's on the same units."""
    return _estimate(
        value=model.mean - base.mean,
        influences=model.influences.mean(axis=0) - base.influences.mean(axis=0),
        inverse_seeds=model.inverse_seeds() + base.inverse_seeds(),
        scatter=scatter,
    )


def level(model: Measured, scatter: Scatter) -> Estimate:
    """Estimate a model's mean; a single seed is judged over its units alone."""
    inverse_seeds = 0.0
    if model.seeds > 1:
        inverse_seeds = model.inverse_seeds()

    return _estimate(
        value=model.mean,
        influences=model.influences.mean(axis=0),
        inverse_seeds=inverse_seeds,
        scatter=scatter,
    )


def level_on_these_units(model: Measured) -> Estimate:
    """Estimate a model's mean on the very units that were tested, over its own seeds alone.

    It is what compares with another's figure on the same test set.
    """
    error = float(model.values.std(ddof=1)) / np.sqrt(model.seeds)
    return Estimate(model.mean, float(error), float(model.seeds - 1))


def _estimate(value: float, influences: Floats, inverse_seeds: float, scatter: Scatter) -> Estimate:
    """Put together the variance over units and over seeds, with its degrees of freedom."""
    units = len(influences)
    variance = 0.0
    if units > 1:
        variance = float(influences.var(ddof=1)) / units
    variance += max(0.0, scatter.variance - scatter.residual) * inverse_seeds

    freedom = student.MOST_FREEDOM
    of_seeds = scatter.variance * inverse_seeds
    if of_seeds > 0:
        freedom = max(LEAST_FREEDOM, scatter.freedom * (variance / of_seeds) ** 2)
    return Estimate(value, float(np.sqrt(variance)), freedom)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct each p for their number, by Holm's step-down method; the order stays.

    The smallest of n is multiplied by n, the next by n - 1 and so on. None gets smaller than one
    before it, nor larger than 1. If only those below a level are called differences, the chance of
    calling any wrongly is at most that level.
    """
    ascending = sorted(range(len(p_values)), key=p_values.__getitem__)

    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(ascending):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest

    return corrected
