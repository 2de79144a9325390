"""Metrics of word alignments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pam.evaluation.metrics import Floats, Metric


def alignment_agreement(sums: Floats) -> Floats:
    """Compute 1 - AER = (|A & S| + |A & P|) / (|A| + |S|) (Och & Ney 2003, equation 23).

    Args:
        sums: (..., 4) the four counts, in this order. Where no word is to be linked and none is, it
            is 1.
    """
    links = sums[..., 2] + sums[..., 3]
    return np.divide(
        sums[..., 0] + sums[..., 1], links, out=np.ones(sums.shape[:-1]), where=links > 0
    )


def _of_links(name: str, label: str, suffix: str = "", error: bool = False) -> Metric:
    value: Callable[[Floats], Floats] = alignment_agreement
    if error:
        value = _alignment_error

    return Metric(
        name=name,
        label=label,
        of_outputs=(),
        shared=(f"sure_hit{suffix}", f"possible_hit{suffix}", f"links{suffix}", "sure"),
        value=value,
        decimals=3,
        lower_is_better=error,
        span=(0.0, 1.0),
    )


def _alignment_error(sums: Floats) -> Floats:
    return 1.0 - alignment_agreement(sums)


METRICS: tuple[Metric, ...] = (
    _of_links("aer", "AER", error=True),
    _of_links("one_minus_aer", "1 − AER"),
    _of_links("aer_prior", "AER of the prior", "_prior", error=True),
    _of_links("one_minus_aer_prior", "1 − AER of the prior", "_prior"),
    _of_links("aer_late", "AER of the next step's prior", "_late", error=True),
    _of_links("one_minus_aer_late", "1 − AER of the next step's prior", "_late"),
    _of_links("aer_posterior", "AER of the posterior", "_posterior", error=True),
    _of_links("one_minus_aer_posterior", "1 − AER of the posterior", "_posterior"),
    _of_links("aer_head", "AER of the best head", "_head", error=True),
    _of_links("one_minus_aer_head", "1 − AER of the best head", "_head"),
    _of_links("aer_shift_att", "AER of Shift-Att", "_shift_att", error=True),
    _of_links("one_minus_aer_shift_att", "1 − AER of Shift-Att", "_shift_att"),
)
