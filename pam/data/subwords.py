"""Words into subwords by byte pair encoding (Sennrich et al. 2016), through subword-nmt."""

from __future__ import annotations

import importlib
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from typing import Any

from pam.io import UserError

CONTINUES = "@@"
"""Ends each subword but the last one of a word."""

VERSION = "#version: 0.2"
"""Of subword-nmt's list of merges: the end of a word belongs to its last character."""


def learn_merges(words: Mapping[str, int], merges: int) -> list[str]:
    """The most frequent merges, `left right` each, in the order in which they were learned.

    Args:
        words: how often each word occurs.
        merges: how many are wanted; fewer come where the words have no more pairs that occur
            twice.
    """
    if all(len(word) == 1 for word in words):
        return []
    counted = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    listed = io.StringIO("".join(f"{_own(word)} {count}\n" for word, count in counted))
    written = io.StringIO()
    learn = _library("learn_bpe").learn_bpe
    # It draws a bar of its progress, which only a terminal could show.
    with redirect_stderr(io.StringIO()):
        learn(listed, written, merges, is_dict=True)
    return written.getvalue().splitlines()[1:]


class Subwords:
    """Splits words as learned merges say, of which there must be one at least."""

    def __init__(self, merges: Sequence[str]) -> None:
        self._bpe = _library("apply_bpe").BPE(
            io.StringIO("\n".join([VERSION, *merges, ""])), separator=CONTINUES
        )

    def split(self, words: Iterable[str]) -> list[str]:
        """Subwords of words; all but the last of a word end in `@@`."""
        return list(self._bpe.segment_tokens([_own(word) for word in words]))


def _library(module: str) -> Any:
    """A module of subword-nmt, which only those who use subwords need."""
    try:
        return importlib.import_module(f"subword_nmt.{module}")
    except ModuleNotFoundError as error:
        raise UserError(
            "the package subword-nmt is not installed", hint="pip install subword-nmt"
        ) from error


def _own(word: str) -> str:
    """A word that cannot be taken for a subword: `@@` at its end is written with wide signs."""
    return word[:-2] + "＠＠" if word.endswith(CONTINUES) else word


def join(symbols: Sequence[str]) -> list[str]:
    """The words that subwords spell; an end that was left open is closed."""
    words: list[str] = []
    starts = True
    for symbol in symbols:
        whole = symbol.removesuffix(CONTINUES)
        if starts:
            words.append(whole)
        else:
            words[-1] += whole
        starts = whole == symbol
    return words


def word_numbers(symbols: Sequence[str]) -> list[int]:
    """For each subword the number of its word, from 0."""
    numbers, word = [], 0
    for symbol in symbols:
        numbers.append(word)
        word += not symbol.endswith(CONTINUES)
    return numbers


def count_words(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for words in sentences:
        counts.update(words)
    return counts
