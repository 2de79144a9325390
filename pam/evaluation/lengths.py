"""BLEU by sentence length (as Luong et al. 2015, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pam.evaluation import metrics
from pam.evaluation.scores import Scores

EDGES = (10, 20, 30, 40, 50)


class LengthBin(NamedTuple):
    """Sentences of similar length.

    Attributes:
        low, high: words, `low` <= length < `high`; None: without end.
        sentences: how many of the test set.
        value: the metric on them alone; None where there are none.
    """

    low: int
    high: int | None
    sentences: int
    value: float | None


def by_length(
    scores: Scores,
    beam: int | None,
    metric: str = "bleu",
    by: str = "source_words",
    edges: Sequence[int] = EDGES,
) -> list[LengthBin]:
    """A metric of translation on sentences of each length.

    Args:
        metric: `bleu`, `sacrebleu` or `chrf`.
        by: the count that is a sentence's length: `source_words`, or `words` of the reference.
        edges: lengths at which a bin ends and the next begins, ascending.
    """
    units, known = scores.counts(), metrics.metric_of(metrics.of_beam(metric, beam))
    lengths, counts = units.of([by])[:, 0], units.of(known.columns)
    bins = []
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        chosen = (lengths >= low) & (lengths < (float("inf") if high is None else high))
        total = int(chosen.sum())
        value = float(known.value(counts[chosen].sum(axis=0))) if total else None
        bins.append(LengthBin(low, high, total, value))
    return bins
