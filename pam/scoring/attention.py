"""Attention under teacher forcing, gathered sentence by sentence into an `Analysis`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pam.scoring.analysis import (
    COVERAGE_EDGES,
    COVERED,
    ENTROPY_EDGES,
    Analysis,
    Coverage,
    Entropy,
    Links,
    Sentences,
)
from pam.scoring.metrics import Floats

DIGITS = 6
"""After the point, in the file."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of n target symbols and m source symbols, end symbols included.

    Attributes:
        log_probs: (n,) log p(y_t | y_<t, x). exact: (n,) summed over all source positions.
        correct: (n,) whether y_t is the most probable symbol.
        prior, alignment: (n, m) distributions over source positions, and what was handed on.
        source_words: (m - 1,) for each source symbol the number of its word; target_words: (n - 1,)
            likewise.
    """

    log_probs: Floats
    exact: Floats
    correct: NDArray[np.bool_]
    prior: Floats
    alignment: Floats
    source_words: list[int]
    target_words: list[int]


@dataclass
class Gatherer:
    """Adds up what sentences show; they may come in any order."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    uncertain: list[NDArray[np.int64]] = field(default_factory=list)
    nats: list[float] = field(default_factory=list)
    attended: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, number: int, sentence: Sentence) -> None:
        """Takes in row `number` of the split."""
        alignment = by_source_word(sentence.alignment, sentence.source_words)
        coverage = np.minimum(alignment.sum(axis=0), 1.0)
        self.rows[number] = {
            "nll": _rounded(-sentence.log_probs.sum()),
            "nll_exact": _rounded(-sentence.exact.sum()),
            "tokens": len(sentence.log_probs),
            "correct": int(sentence.correct.sum()),
            "source_words": alignment.shape[1],
            "coverage": _rounded(coverage.mean()),
            "covered": _rounded((coverage >= COVERED).mean()),
            "links": most_attended(alignment, sentence.target_words),
            "links_prior": most_attended(
                by_source_word(sentence.prior, sentence.source_words), sentence.target_words
            ),
        }
        nats = entropies(sentence.prior)
        self.nats += nats.tolist()
        uncertain = _bins(nats, ENTROPY_EDGES)
        size = len(ENTROPY_EDGES) - 1
        right = np.bincount(uncertain, sentence.correct, minlength=size).astype(np.int64)
        self.uncertain.append(np.stack([np.bincount(uncertain, minlength=size), right]))
        self.attended.append(_histogram(coverage))

    def analysis(self, **about: Any) -> Analysis:
        """All that was gathered.

        Args:
            about: whose it is, and what it cost.
        """
        rows = [self.rows[number] for number in sorted(self.rows)]
        columns = {key: [row[key] for row in rows] for key in Sentences.model_fields}
        count, correct = np.sum(self.uncertain, axis=0).tolist()
        return Analysis(
            sentences=Sentences(**columns),
            entropy=Entropy(
                mean=round(fsum(self.nats) / len(self.nats), DIGITS), count=count, correct=correct
            ),
            coverage=Coverage(
                words=np.sum(self.attended, axis=0).tolist(),
                sentences=_histogram(np.array(columns["covered"])).tolist(),
            ),
            **about,
        )


def entropies(distributions: Floats) -> Floats:
    """Entropy in nats of each row of (n, m); what has no probability adds nothing."""
    logs = np.log(np.where(distributions > 0, distributions, 1.0))
    entropy: Floats = -(distributions * logs).sum(axis=1)
    return entropy


def by_source_word(alignment: Floats, words: list[int]) -> Floats:
    """Attention (n, m) of all symbols to that of target symbols to source words: (n - 1, words).

    A word gets what its symbols get; end symbols are left out on both sides.
    """
    return np.add.reduceat(alignment[:-1, :-1], _starts(words), axis=1)


def most_attended(alignment: Floats, words: list[int]) -> Links:
    """For each target word its most attended source word; a word attends as its symbols do on
    average (Ghader & Monz 2017, section 3).

    Args:
        alignment: (n - 1, source words).
        words: (n - 1,) for each target symbol the number of its word.
    """
    if not words:
        return []
    # A sum has its largest entry where the average has it.
    of_words = np.add.reduceat(alignment, _starts(words), axis=0)
    return [(int(source), target) for target, source in enumerate(of_words.argmax(axis=1))]


def _starts(words: list[int]) -> NDArray[np.int64]:
    """Where each word begins."""
    return np.flatnonzero(np.diff(words, prepend=-1))


def _bins(values: Floats, edges: list[float]) -> NDArray[np.int64]:
    """The bin of each value; what lies beyond the last edge is in the last bin."""
    found = np.searchsorted(np.array(edges[1:-1]), values, side="right")
    return found.astype(np.int64)


def _histogram(values: Floats) -> NDArray[np.int64]:
    return np.bincount(_bins(values, COVERAGE_EDGES), minlength=len(COVERAGE_EDGES) - 1)


def _rounded(value: np.float64) -> float:
    return round(float(value), DIGITS)
