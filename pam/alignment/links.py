"""Links of words from the alignment of symbols.

The alignment of a model is a distribution over source symbols for each target symbol. A source word
has the sum of its symbols' probabilities, and a target word the mean of its symbols' distributions.
So P(i | j) is a distribution over source words for each target word j. What it lacks to one is the
probability that j is linked to no word: the share of the source's end symbol.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pam.evaluation.metrics import Floats

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""


class WordLink(NamedTuple):
    """A link with its probability."""

    source: int
    target: int
    probability: float


def word_probabilities(
    alignment: Floats,
    source_words: list[int],
    target_words: list[int],
    shape: tuple[int, int],
) -> Floats:
    """Compute P(i | j) of source words i and target words j, (source words, target words).

    Args:
        alignment: (n, m) a distribution over source symbols for each target symbol. It may have
            more rows and columns than there are symbols, for end symbols, which are left out.
        source_words: for each source symbol the index of its word.
        target_words: for each target symbol the index of its word.
        shape: numbers of source words and target words; a word without symbols has zeros.
    """
    source_count, target_count = shape
    of_symbols = alignment[: len(target_words), : len(source_words)]

    of_source_words = np.zeros((len(target_words), source_count))
    np.add.at(of_source_words.T, source_words, of_symbols.T)

    sums = np.zeros((target_count, source_count))
    np.add.at(sums, target_words, of_source_words)
    symbols_of_words = np.bincount(target_words, minlength=target_count)
    return np.asarray((sums / np.maximum(symbols_of_words, 1)[:, None]).T)


def linked(probabilities: Floats, threshold: float | None = None) -> set[Link]:
    """Choose the links of one direction.

    Without a threshold each target word is linked to its most probable source word, unless no word
    is more probable than that: then it has no link. With a threshold all links are chosen that are
    at least as probable, so that a word may have none or several.

    Args:
        probabilities: P(i | j), (source words, target words).
        threshold: the least probability of a link, or None.
    """
    if threshold is not None:
        chosen = np.argwhere(probabilities >= threshold)
        return {(int(source), int(target)) for source, target in chosen}

    if probabilities.shape[0] == 0:
        return set()
    best = probabilities.argmax(axis=0)
    highest = probabilities.max(axis=0)
    of_no_word = 1.0 - probabilities.sum(axis=0)
    is_linked = (highest > 0) & (highest >= of_no_word)
    return {(int(best[target]), int(target)) for target in np.flatnonzero(is_linked)}
