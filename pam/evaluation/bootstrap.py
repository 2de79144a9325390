"""Bootstrap over units: percentile intervals and paired differences.

A test set of 200 lemmas with 8 forms each is a sample of 200 lemmas, not of 1,600 independent
forms: the forms of a lemma are right or wrong together. So lemmas are drawn, with replacement,
and each brings all its forms. In a translated text, sentences are drawn. Every system of a task
sees the same draws, which makes differences between systems paired. The draws depend only on the
seed and the number of units, so a system's interval does not change when another system joins
the table.

These are intervals of single runs, over units alone. Means over seeds, and verdicts, are those of
`pam.evaluation.two_levels`, which draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def settings(units: int) -> dict[str, float]:
    """Return how the intervals of so many units are made, as records of scores tell it."""
    return {"resamples": resamples_for(units), "seed": SEED, "level": LEVEL}


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
