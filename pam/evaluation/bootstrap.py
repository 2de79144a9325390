"""Bootstrap over units: percentile intervals and paired differences.

A test set of 200 lemmas with 8 forms each is a sample of 200 lemmas, not of 1,600 independent
forms: the forms of a lemma are right or wrong together. So lemmas are drawn, with replacement,
and each brings all its forms. In a translated text, sentences are drawn. Every system of a task
sees the same draws, which makes differences between systems paired. The draws depend only on the
seed and the number of units, so a system's interval does not change when another system joins
the table.

A figure is a mean over a few seeds. These are a sample too, of all trainings that the same
configuration could have had, so `Draws` hold both levels. The units' draws give the mean over
seeds in other test sets. To each draw is added how far that mean would be off with other seeds,
which are drawn with replacement from those at hand. These deviations are widened by
sqrt(n / (n - 1)), because n deviations from their own mean are too small by that factor. Few
seeds estimate their own spread badly, so `spread` widens the tails from normal to Student's, by
Satterthwaite's degrees of freedom. In simulations with three seeds of each system, 93 to 96 % of
such 95 % intervals hold the truth, whichever level scatters more. Among intervals over units
alone, as few as half do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pam.evaluation.metrics import Floats

RESAMPLES = 10_000
RESAMPLES_OF_MANY = 1_000
MANY = 1_000
"""Sets of more units than this are resampled `RESAMPLES_OF_MANY` times, as sacreBLEU does it.

Draws cost in proportion to the units, and 1,000 still give an interval's ends.
"""
SEED = 2019
LEVEL = 0.95
_WEIGHTS_AT_ONCE = 4_000_000  # 32 MB, whatever the size of the test set
_MOST_KEPT = 10_000_000  # frequencies, 20 MB; of so many units none is drawn 2^16 times


@dataclass(frozen=True)
class Interval:
    """A percentile interval at `LEVEL`."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def resamples_for(units: int) -> int:
    """Return the number of bootstrap samples that are drawn from so many units."""
    if units <= MANY:
        return RESAMPLES
    return RESAMPLES_OF_MANY


def resampled_sums(counts: Floats, resamples: int | None = None, seed: int = SEED) -> Floats:
    """Sum counts over bootstrap samples of the units.

    Args:
        counts: (systems, units, columns).
        resamples: None: as many as `resamples_for` gives for the units.

    Returns:
        Sums, (systems, resamples, columns).
    """
    systems, units, columns = counts.shape
    resamples = resamples or resamples_for(units)
    chunks: Iterable[NDArray[np.integer[Any]]]
    if units * resamples <= _MOST_KEPT:
        chunks = _kept_frequencies(units, resamples, seed)
    else:
        chunks = _frequencies(units, resamples, seed)

    # One matrix product of the frequencies with the counts gives the sums of all systems at once.
    by_unit = counts.transpose(1, 0, 2).reshape(units, systems * columns)
    sums = np.concatenate([frequencies.astype(np.float64) @ by_unit for frequencies in chunks])

    return sums.reshape(resamples, systems, columns).transpose(1, 0, 2)


def _frequencies(units: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Draw how often each unit is in each sample, in chunks (samples, units).

    How often each of n units is drawn among n draws is multinomial.
    """
    generator = np.random.default_rng(seed)
    chunk = max(1, _WEIGHTS_AT_ONCE // units)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        yield generator.multinomial(units, np.full(units, 1.0 / units), size=size)


@lru_cache(maxsize=2)
def _kept_frequencies(units: int, resamples: int, seed: int) -> list[NDArray[np.uint16]]:
    """Draw frequencies, and keep them for the next models and metrics of test sets of this size."""
    return [chunk.astype(np.uint16) for chunk in _frequencies(units, resamples, seed)]


@dataclass(frozen=True)
class Draws:
    """A mean over seeds, or the difference of two, in resamples of units and of seeds."""

    values: Floats  # (resamples,)
    seed_parts: tuple[tuple[float, int], ...] = ()
    """For each system that has several seeds, the variance of the mean that is due to seeds, and
    its degrees of freedom.
    """

    def minus(self, other: Draws) -> Draws:
        """Return the draws of the difference; units are paired, seeds are independent."""
        return Draws(self.values - other.values, self.seed_parts + other.seed_parts)

    def times(self, factor: float) -> Draws:
        """Return the draws of `factor` times the mean."""
        parts = tuple((variance * factor**2, freedom) for variance, freedom in self.seed_parts)
        return Draws(self.values * factor, parts)

    def spread(self) -> Floats:
        """Return the draws (resamples,) with the tails of Student's distribution for so few seeds.

        Satterthwaite's approximation gives the degrees of freedom f of the variance of all draws:
        its square, divided by the sum of (part's variance)^2 / (part's degrees of freedom). A
        normal deviation times sqrt(f / chi2_f) is one of Student's with f degrees of freedom.
        """
        uncertainty = sum(variance**2 / freedom for variance, freedom in self.seed_parts)
        total_variance = float(np.var(self.values))
        if uncertainty == 0 or total_variance == 0:
            return self.values

        freedom = total_variance**2 / uncertainty
        chi_squared = np.random.default_rng(SEED).chisquare(freedom, size=len(self.values))
        center = self.values.mean()
        return np.asarray(center + (self.values - center) * np.sqrt(freedom / chi_squared))


def draws_over_seeds(values: Floats, means: Floats, name: str) -> Draws:
    """Return the draws of one system's mean over seeds.

    Args:
        values: (seeds,) the measured values.
        means: (resamples,) the mean over these seeds in each resample of the units.
        name: the system's, which decides its draws of seeds. So the draws of two systems are
            independent, and those of one do not change when another joins.
    """
    seeds = len(values)
    if seeds < 2:
        return Draws(means)

    generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    weights = generator.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=len(means)) / seeds
    deviations = np.sqrt(seeds / (seeds - 1)) * (values - values.mean())
    variance = float(values.var(ddof=1)) / seeds

    return Draws(means + weights @ deviations, ((variance, seeds - 1),))


def interval(values: Floats) -> Interval:
    """Return the central `LEVEL` of resampled values, (resamples,)."""
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(values, [tail, 100 - tail]).tolist()
    return Interval(low, high)


def p_value(differences: Floats, observed: float) -> float:
    """Test the hypothesis that two systems do equally well, by a two-sided paired bootstrap.

    The resampled differences, (resamples,), are shifted to mean 0, around which they would scatter
    if the hypothesis held. c counts those that are at least as large as the observed difference,
    in either direction, and p = (c + 1) / (n + 1). As in sacreBLEU's `significance` (after Clark's
    multeval), 1 is added above and below because the observed sample is itself one draw under the
    hypothesis. Without it the test could claim p = 0, and would reject more often than its level
    says.

    The test departs from sacreBLEU in two points. sacreBLEU takes absolute values before it
    shifts, which makes p of a clear gain one-sided, half of this one. And it counts strictly
    larger differences, so that two systems with the same outputs get p = 1 / (n + 1), here 1.
    """
    shifted = np.abs(differences - np.mean(differences))
    # Differences lie on a lattice (whole forms), so a tie must not depend on the last bit.
    count = int(np.sum(shifted >= abs(observed) - 1e-9))
    return (count + 1) / (len(differences) + 1)


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
