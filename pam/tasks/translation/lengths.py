"""BLEU by the length of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pam.evaluation.metrics import Units, metric_of, of_beam

if TYPE_CHECKING:
    pass


LENGTHS = (10, 20, 30, 40, 50)


class LengthBin(NamedTuple):
    low: int  # words, of the shortest sentence
    high: int | None  # all are shorter; None: without end
    sentences: int
    value: float | None  # BLEU; None: there are no sentences


def by_length(units: Units, beam: int | None, edges: Sequence[int] = LENGTHS) -> list[LengthBin]:
    """Compute BLEU on sentences of each length in source words (as Luong et al. 2015, Figure 6).

    Args:
        units: the counts that `count` returns.
        edges: lengths, ascending, at each of which a bin ends and the next begins.
    """
    metric = metric_of(of_beam("bleu", beam))
    lengths = units.of(["source_words"])[:, 0]
    counts = units.of(metric.columns)

    bins = []
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        in_bin = lengths >= low
        if high is not None:
            in_bin &= lengths < high
        value = None
        if in_bin.any():
            value = float(metric.value(counts[in_bin].sum(axis=0)))
        bins.append(LengthBin(low, high, int(in_bin.sum()), value))

    return bins
