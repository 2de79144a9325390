"""Monotone character alignments, learned by EM.

The model is the memoryless stochastic transducer of Ristad and Yianilos (1998, section 2): a pair
of strings is made by independent operations, each of which writes a pair (a, b) of symbols, a
source symbol alone (deletion) or a target symbol alone (insertion). EM learns one probability per
operation; the alignment is read off the most likely sequence of operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[str, str]

EPSILON, OTHER = 0, 1
"""Codes of 'no symbol' and of one that training did not contain."""

PRIOR_COUNT = 0.01
"""Added to the expected count of every operation: unseen ones stay possible."""

LARGEST = 4096
"""Pairs in a group, so that memory is bounded by their lengths alone."""


@dataclass(frozen=True)
class Group:
    """Pairs of the same lengths, in one array, so that arrays need no padding.

    Attributes:
        pairs: N of them. source: (N, n) codes. target: (N, m) codes.
        weight: (N,) how often each pair occurs.
    """

    pairs: list[Pair]
    source: Ints
    target: Ints
    weight: Floats


class CharacterAligner:
    """Aligns pairs of strings; made by `fit`.

    Attributes:
        source, target: codes of the symbols that training contained.
        log_probs: (source codes, target codes) natural logarithms of the operations'
            probabilities; row EPSILON holds insertions, column EPSILON deletions.
    """

    def __init__(self, source: dict[str, int], target: dict[str, int], log_probs: Floats) -> None:
        self.source = source
        self.target = target
        self.log_probs = log_probs

    @classmethod
    def fit(cls, pairs: Sequence[Pair], iterations: int = 8) -> CharacterAligner:
        """Learns the operations' probabilities from `pairs` of non-empty strings.

        The start is uniform, so the result depends on nothing but the pairs.
        """
        source = _codes(first for first, _ in pairs)
        target = _codes(second for _, second in pairs)
        probs = np.ones((len(source) + 2, len(target) + 2))
        probs[EPSILON, EPSILON] = 0.0
        aligner = cls(source, target, _log(probs / probs.sum()))
        groups = aligner._groups(pairs)
        for _ in range(iterations):
            counts = np.full(probs.shape, PRIOR_COUNT)
            counts[EPSILON, EPSILON] = 0.0
            for group in groups:
                counts += _expected_counts(aligner.log_probs, group)
            aligner = cls(source, target, _log(counts / counts.sum()))
        return aligner

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """For each pair, the source position of every target symbol, never decreasing.

        An inserted symbol takes the position of the symbol before it; at the start, 0.
        """
        positions: dict[Pair, list[int]] = {}
        for group in self._groups(pairs):
            found = _best_positions(self.log_probs, group).tolist()
            positions.update(zip(group.pairs, found, strict=True))
        return [positions[pair] for pair in pairs]

    def _groups(self, pairs: Sequence[Pair]) -> list[Group]:
        """Distinct pairs by their lengths, in a fixed order."""
        counts = Counter(pairs)
        by_lengths: dict[tuple[int, int], list[Pair]] = defaultdict(list)
        for pair in sorted(counts):
            by_lengths[len(pair[0]), len(pair[1])].append(pair)
        return [
            Group(
                pairs=members,
                source=np.array([[self.source.get(c, OTHER) for c in a] for a, _ in members]),
                target=np.array([[self.target.get(c, OTHER) for c in b] for _, b in members]),
                weight=np.array([float(counts[pair]) for pair in members]),
            )
            for _, same in sorted(by_lengths.items())
            for members in (same[at : at + LARGEST] for at in range(0, len(same), LARGEST))
        ]


def _codes(strings: Iterable[str]) -> dict[str, int]:
    return {char: code for code, char in enumerate(sorted(set().union(*strings)), OTHER + 1)}


def _log(probs: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probs)


def _operations(log_probs: Floats, group: Group) -> tuple[Floats, Floats, Floats]:
    """Log probabilities of substitution (n, m, N), deletion (n, N) and insertion (m, N)."""
    source, target = group.source.T, group.target.T
    return (log_probs[source[:, None], target[None]], log_probs[source, EPSILON], log_probs[EPSILON, target])


def _expected_counts(log_probs: Floats, group: Group) -> Floats:
    """Expected uses of each operation, by forward-backward (their Algorithm 'expectation')."""
    substitution, deletion, insertion = _operations(log_probs, group)
    forward = _forward(substitution, deletion, insertion)
    # The backward quantities are the forward ones of the reversed strings.
    backward = _forward(substitution[::-1, ::-1], deletion[::-1], insertion[::-1])[::-1, ::-1]
    total = forward[-1, -1] - np.log(group.weight)
    counts = np.zeros(log_probs.size)
    columns = log_probs.shape[1]
    source = group.source.T[:, None] * columns
    target = group.target.T[None]
    for cells, uses in (
        (source + target, forward[:-1, :-1] + substitution + backward[1:, 1:]),
        (source, forward[:-1] + deletion[:, None] + backward[1:]),
        (target, forward[:, :-1] + insertion[None] + backward[:, 1:]),
    ):
        spread = np.broadcast_to(cells, uses.shape).ravel()
        counts += np.bincount(spread, np.exp(uses - total).ravel(), counts.size)
    return counts.reshape(log_probs.shape)


def _forward(substitution: Floats, deletion: Floats, insertion: Floats) -> Floats:
    """Log probability of all ways to write the first i and j symbols: (n + 1, m + 1, N)."""
    n, m, pairs = substitution.shape
    forward = np.empty((n + 1, m + 1, pairs))
    forward[0, 0] = 0.0
    forward[1:, 0] = np.cumsum(deletion, axis=0)
    forward[0, 1:] = np.cumsum(insertion, axis=0)
    for i in range(1, n + 1):
        # Without the insertion, which needs the cell to the left in the same row.
        above = np.logaddexp(forward[i - 1, :-1] + substitution[i - 1], forward[i - 1, 1:] + deletion[i - 1])
        for j in range(1, m + 1):
            np.logaddexp(above[j - 1], forward[i, j - 1] + insertion[j - 1], out=forward[i, j])
    return forward


def _best_positions(log_probs: Floats, group: Group) -> Ints:
    """Source positions (N, m) on the most likely path (Viterbi).

    Of equally likely operations the substitution wins over the deletion, that over the insertion.
    """
    substitution, deletion, insertion = _operations(log_probs, group)
    n, m, pairs = substitution.shape
    best = np.zeros((n + 1, m + 1, pairs))
    choice = np.zeros((n + 1, m + 1, pairs), np.int8)
    best[1:, 0], choice[1:, 0] = np.cumsum(deletion, axis=0), 1
    best[0, 1:], choice[0, 1:] = np.cumsum(insertion, axis=0), 2
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            ways = np.stack(
                (
                    best[i - 1, j - 1] + substitution[i - 1, j - 1],
                    best[i - 1, j] + deletion[i - 1],
                    best[i, j - 1] + insertion[j - 1],
                )
            )
            choice[i, j] = ways.argmax(axis=0)
            best[i, j] = ways.max(axis=0)
    return _follow(choice)


def _follow(choice: NDArray[np.int8]) -> Ints:
    """Reads the operations back from the end: 0 substitutes, 1 deletes, 2 inserts."""
    n, m, pairs = choice.shape[0] - 1, choice.shape[1] - 1, choice.shape[2]
    aligned = np.zeros((pairs, m), np.int64)
    every = np.arange(pairs)
    i, j = np.full(pairs, n), np.full(pairs, m)
    for _ in range(n + m):
        step = choice[i, j, every]
        pair = (step == 0) & (i > 0)
        aligned[every[pair], j[pair] - 1] = i[pair] - 1
        i = i - ((step != 2) & (i > 0))
        j = j - ((step != 1) & (j > 0))
    # Substituted positions grow, so the running maximum hands each one on to the insertions.
    return np.maximum.accumulate(aligned, axis=1)
