"""Student's t distribution: tail probabilities and quantiles."""

from __future__ import annotations

from functools import lru_cache
from math import exp, isinf, lgamma, log, log1p, pi
from statistics import NormalDist

MOST_FREEDOM = 1e6  # from here on the distribution is the normal one to six digits
_PRECISION = 1e-14
_TINY = 1e-300


def two_sided(t: float, freedom: float) -> float:
    """Return the probability of a value at least as far from 0 as `t`."""
    if isinf(t):
        return 0.0
    if t == 0:
        return 1.0
    freedom = min(freedom, MOST_FREEDOM)
    a = freedom / 2
    b = 0.5
    # The regularized incomplete beta function I_x(a, b) is the probability.
    x = freedom / (freedom + t * t)
    rest = t * t / (freedom + t * t)  # 1 - x, without cancellation
    log_front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest)
    if x < (a + 1) / (a + b + 2):
        return exp(log_front) * _continued_fraction(x, a, b) / a
    # The fraction converges fast on the other side of the mode.
    return 1.0 - exp(log_front) * _continued_fraction(rest, b, a) / b


@lru_cache(maxsize=4096)
def quantile(level: float, freedom: float) -> float:
    """Return the t between whose negative and itself lies a share `level` of the distribution."""
    freedom = min(freedom, MOST_FREEDOM)
    tail = 1.0 - level
    # The tail is convex, so that Newton's steps from the left of the root never pass it.
    t = NormalDist().inv_cdf(1.0 - tail / 2)
    for _ in range(100):
        step = (two_sided(t, freedom) - tail) / (2.0 * _density(t, freedom))
        t += step
        if abs(step) < 1e-12 * t:
            break
    return t


def _density(t: float, freedom: float) -> float:
    """Return the density of the distribution at `t`."""
    log_norm = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - 0.5 * log(freedom * pi)
    return exp(log_norm - (freedom + 1) / 2 * log1p(t * t / freedom))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function by Lentz's method.

    It is formula 26.5.8 of Abramowitz and Stegun.
    """
    d = 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    c = 1.0
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        factor = 1.0
        for numerator in (even, odd):
            d = 1.0 / _not_zero(1.0 + numerator * d)
            c = _not_zero(1.0 + numerator / c)
            factor = c * d
            value *= factor
        if abs(factor - 1.0) < _PRECISION:
            break
    return value


def _not_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY
