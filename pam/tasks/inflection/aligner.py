"""Monotone character alignments by the memoryless stochastic transducer of Ristad and Yianilos.

A pair of strings is made by independent operations (1998, section 2), each of which writes a pair
(a, b) of symbols, a source symbol alone (deletion) or a target symbol alone (insertion). EM learns
one probability per operation; the alignment is that of the most likely sequence of operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[str, str]

EPSILON = 0  # code of 'no symbol'
OTHER = 1  # code of a symbol that training did not contain
PRIOR_COUNT = 0.01  # added to the expected count of every operation: unseen ones stay possible
LARGEST = 4096  # pairs in a group, so that memory is bounded by their lengths alone


@dataclass(frozen=True)
class Group:
    """N pairs of the same lengths, in one array, so that arrays need no padding."""

    pairs: list[Pair]
    source: Ints  # (N, n) codes
    target: Ints  # (N, m) codes
    weight: Floats  # (N,) how often each pair occurs


@dataclass(frozen=True)
class CharacterAligner:
    """Aligns pairs of strings; made by `fit`."""

    source: dict[str, int]  # codes of the symbols that training contained
    target: dict[str, int]
    # (source codes, target codes) of operations: insertions in row, deletions in column EPSILON
    log_probs: Floats

    @classmethod
    def fit(cls, pairs: Sequence[Pair], iterations: int = 8) -> CharacterAligner:
        """Learn the probabilities of operations from `pairs` of non-empty strings.

        The start is uniform: the result depends on nothing but them.
        """
        source, target = (_codes(strings) for strings in zip(*pairs, strict=True))
        shape = (len(source) + 2, len(target) + 2)
        aligner = cls(source, target, _log_probs(np.ones(shape)))

        groups = aligner._groups(pairs)
        for _ in range(iterations):
            counts = np.full(shape, PRIOR_COUNT)
            for group in groups:
                counts += _expected_counts(aligner.log_probs, group)
            aligner = cls(source, target, _log_probs(counts))
        return aligner

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Return for each pair the source position of every target symbol, never decreasing.

        Insertions repeat the position before them, from 0.
        """
        positions: dict[Pair, list[int]] = {}
        for group in self._groups(pairs):
            best = _best_positions(self.log_probs, group)
            positions.update(zip(group.pairs, best.tolist(), strict=True))
        return [positions[pair] for pair in pairs]

    def _groups(self, pairs: Sequence[Pair]) -> list[Group]:
        """Group distinct pairs by their lengths, in a fixed order."""
        counts = Counter(pairs)
        by_lengths: dict[tuple[int, int], list[Pair]] = defaultdict(list)
        for pair in sorted(counts):
            source, target = pair
            by_lengths[len(source), len(target)].append(pair)

        groups = []
        for _, same_lengths in sorted(by_lengths.items()):
            for first in range(0, len(same_lengths), LARGEST):
                members = same_lengths[first : first + LARGEST]
                groups.append(self._group(members, counts))
        return groups

    def _group(self, pairs: list[Pair], counts: Mapping[Pair, int]) -> Group:
        """Encode pairs of the same lengths."""
        return Group(
            pairs=pairs,
            source=np.array([[self.source.get(c, OTHER) for c in text] for text, _ in pairs]),
            target=np.array([[self.target.get(c, OTHER) for c in text] for _, text in pairs]),
            weight=np.array([float(counts[pair]) for pair in pairs]),
        )


def _codes(strings: Iterable[str]) -> dict[str, int]:
    """Return a code for each character of `strings`."""
    characters = sorted(set().union(*strings))
    return {character: code for code, character in enumerate(characters, OTHER + 1)}


def _log_probs(counts: Floats) -> Floats:
    counts[EPSILON, EPSILON] = 0.0  # every operation writes a symbol
    with np.errstate(divide="ignore"):
        log_probs: Floats = np.log(counts / counts.sum())
    return log_probs


def _operations(log_probs: Floats, group: Group) -> tuple[Floats, Floats, Floats]:
    """Return log probabilities of substitution (n, m, N), deletion (n, N) and insertion (m, N)."""
    source = group.source.T
    target = group.target.T
    return (
        log_probs[source[:, None], target[None]],
        log_probs[source, EPSILON],
        log_probs[EPSILON, target],
    )


def _expected_counts(log_probs: Floats, group: Group) -> Floats:
    """Return the expected uses of operations, by forward-backward (Algorithm 'expectation')."""
    substitution, deletion, insertion = _operations(log_probs, group)
    forward = _forward(substitution, deletion, insertion)
    # The backward quantities are the forward ones of the reversed strings.
    backward = _forward(substitution[::-1, ::-1], deletion[::-1], insertion[::-1])[::-1, ::-1]
    total = forward[-1, -1] - np.log(group.weight)

    # Positions of operations in the flat array of counts: rows are source codes.
    rows = group.source.T[:, None] * log_probs.shape[1]
    columns = group.target.T[None]
    counts = np.zeros(log_probs.size)
    for cells, uses in (
        (rows + columns, forward[:-1, :-1] + substitution + backward[1:, 1:]),
        (rows, forward[:-1] + deletion[:, None] + backward[1:]),
        (columns, forward[:, :-1] + insertion[None] + backward[:, 1:]),
    ):
        flat_cells = np.broadcast_to(cells, uses.shape).ravel()
        counts += np.bincount(flat_cells, np.exp(uses - total).ravel(), counts.size)
    return counts.reshape(log_probs.shape)


def _forward(substitution: Floats, deletion: Floats, insertion: Floats) -> Floats:
    """Return log probabilities of all ways to write the first i and j symbols, (n+1, m+1, N)."""
    n, m, pairs = substitution.shape
    forward = np.empty((n + 1, m + 1, pairs))
    forward[0, 0] = 0.0
    forward[1:, 0] = np.cumsum(deletion, axis=0)
    forward[0, 1:] = np.cumsum(insertion, axis=0)

    for i in range(1, n + 1):
        # Without the insertion, which needs the cell to the left in the same row.
        above = np.logaddexp(
            forward[i - 1, :-1] + substitution[i - 1], forward[i - 1, 1:] + deletion[i - 1]
        )
        for j in range(1, m + 1):
            np.logaddexp(above[j - 1], forward[i, j - 1] + insertion[j - 1], out=forward[i, j])
    return forward


def _best_positions(log_probs: Floats, group: Group) -> Ints:
    """Return source positions (N, m) on the most likely path (Viterbi).

    Of equally likely operations substitution wins, then deletion.
    """
    substitution, deletion, insertion = _operations(log_probs, group)
    n, m, pairs = substitution.shape
    best = np.zeros((n + 1, m + 1, pairs))
    choice = np.zeros((n + 1, m + 1, pairs), np.int8)
    best[1:, 0] = np.cumsum(deletion, axis=0)
    choice[1:, 0] = 1
    best[0, 1:] = np.cumsum(insertion, axis=0)
    choice[0, 1:] = 2

    for i in range(1, n + 1):
        for j in range(1, m + 1):
            substituted = best[i - 1, j - 1] + substitution[i - 1, j - 1]
            deleted = best[i - 1, j] + deletion[i - 1]
            inserted = best[i, j - 1] + insertion[j - 1]
            ways = np.stack((substituted, deleted, inserted))
            choice[i, j] = ways.argmax(axis=0)
            best[i, j] = ways.max(axis=0)

    # The operations are read back from the end: 0 substitutes, 1 deletes, 2 inserts.
    aligned = np.zeros((pairs, m), np.int64)
    pair_indices = np.arange(pairs)
    row = np.full(pairs, n)
    column = np.full(pairs, m)
    for _ in range(n + m):
        step = choice[row, column, pair_indices]
        substitutes = (step == 0) & (row > 0)
        aligned[pair_indices[substitutes], column[substitutes] - 1] = row[substitutes] - 1
        row = row - ((step != 2) & (row > 0))
        column = column - ((step != 1) & (column > 0))

    # Substituted positions grow, so the running maximum hands each one on to the insertions.
    return np.maximum.accumulate(aligned, axis=1)
