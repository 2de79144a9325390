"""Bootstrap over units: percentile intervals and paired differences.

A test set of 200 lemmas with 8 forms each is a sample of 200 lemmas, not of 1,600 independent forms: the forms of a
lemma are right or wrong together. So lemmas are drawn, with replacement, and each brings all its forms; of a translated
text, sentences are drawn. Every system of a task sees the same draws, which makes differences between systems paired;
the draws depend on the seed and the number of units only, so a system's interval does not change when another one joins
the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam.evaluation.metrics import Floats

RESAMPLES, RESAMPLES_OF_MANY = 10_000, 1_000
MANY = 1_000
"""Sets of more units than this are resampled `RESAMPLES_OF_MANY` times, as sacreBLEU does it: their draws cost in
proportion to the units, and 1,000 still give an interval's ends."""
SEED, LEVEL = 2019, 0.95
_WEIGHTS_AT_ONCE = 4_000_000  # 32 MB, whatever the size of the test set


@dataclass(frozen=True)
class Interval:
    """A percentile interval at `LEVEL`."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def resamples_for(units: int) -> int:
    """How many bootstrap samples are drawn of so many units."""
    return RESAMPLES if units <= MANY else RESAMPLES_OF_MANY


def resampled_sums(counts: Floats, resamples: int | None = None, seed: int = SEED) -> Floats:
    """Sums of `counts` (systems, units, columns) over bootstrap samples of the units: (systems, resamples, columns).

    How often each of n units is drawn among n draws is multinomial, so one matrix product of these frequencies with the
    counts gives all sums at once. Without `resamples`, there are as many as `resamples_for` the units.
    """
    systems, units, columns = counts.shape
    resamples = resamples or resamples_for(units)
    generator = np.random.default_rng(seed)
    by_unit = counts.transpose(1, 0, 2).reshape(units, systems * columns)
    sums = np.empty((resamples, systems * columns))
    chunk = max(1, _WEIGHTS_AT_ONCE // units)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        weights = generator.multinomial(units, np.full(units, 1.0 / units), size=size)
        sums[start : start + size] = weights.astype(np.float64) @ by_unit
    return sums.reshape(resamples, systems, columns).transpose(1, 0, 2)


def interval(values: Floats) -> Interval:
    """The central `LEVEL` of resampled values, (resamples,)."""
    tail = 100 * (1 - LEVEL) / 2
    return Interval(*np.percentile(values, [tail, 100 - tail]).tolist())


def p_value(differences: Floats, observed: float) -> float:
    """Two-sided paired bootstrap test of the hypothesis that two systems do equally well.

    The resampled differences, (resamples,), are shifted to mean 0, which is what they would scatter around if the
    hypothesis held; c counts those at least as large as the observed difference, in either direction, and p = (c + 1) /
    (n + 1). As in sacreBLEU's `significance` (after Clark's multeval), 1 is added above and below because the observed
    sample is itself one draw under the hypothesis: without it the test could claim p = 0, and would reject more often
    than its level says.

    It departs from sacreBLEU in two points. sacreBLEU takes absolute values before it shifts, which makes p of a clear
    gain one-sided, half of this one; and it counts strictly larger differences, so that two systems with the same
    outputs get p = 1 / (n + 1), here 1.
    """
    shifted = np.abs(differences - np.mean(differences))
    # Differences live on a lattice (whole forms): a tie must not hang on the last bit.
    count = int(np.sum(shifted >= abs(observed) - 1e-9))
    return (count + 1) / (len(differences) + 1)
