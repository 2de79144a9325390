"""What outputs have to begin with, and which words they must or must not contain.

A prefix and words that are forbidden are exact in any search: symbols that would break them have no
probability. Words that are required are found as in grid beam search (Hokamp and Liu 2017) and
dynamic beam allocation (Post and Vilar 2018): the beam is shared out over hypotheses that have come
equally far with these words, so that some are always on their way to all of them, and no output
ends before it has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pam.data.vocabulary import BOS, EOS, PAD
from pam.runtime.errors import UserError


@dataclass(frozen=True)
class Constraint:
    """What the outputs of one source must be like; all in ids of symbols.

    Attributes:
        prefix: the first symbols of the output.
        include: words that the output has to contain; each is symbols in a row.
        exclude: words that it must not contain.
    """

    prefix: Sequence[int] = ()
    include: Sequence[Sequence[int]] = ()
    exclude: Sequence[Sequence[int]] = ()

    @property
    def required(self) -> int:
        """The number of symbols of all words that the output has to contain."""
        return sum(len(word) for word in self.include)

    def check(self, limit: int, beam: int | None) -> None:
        """Check that an output of at most `limit` symbols can be found.

        Args:
            limit: symbols of the longest output, its end symbol included.
            beam: hypotheses that are followed; None: outputs are drawn.

        Raises:
            UserError: the words exclude each other, are too long, or too many for the search.
        """
        texts = [self.prefix, *self.include]
        if any(_contains(text, word) for text in texts for word in self.exclude):
            hint = "leave it out of one of them"
            raise UserError("a word must be there and must not", hint=hint)

        # Words may share symbols, so that what is surely too long is one of them by itself.
        needed = max(len(text) for text in texts)
        if needed >= limit:
            message = f"{needed} symbols must be there, and outputs have at most {limit - 1}"
            raise UserError(message, hint="raise `max_length` or `max_extra`, or ask for less")

        if self.include and beam is None:
            hint = "search with `sample=False`, or leave the words out"
            raise UserError("outputs that are drawn cannot be told what to contain", hint=hint)
        if beam is not None and self.required >= beam:
            message = f"a beam of {beam} is too narrow for {self.required} symbols of words"
            raise UserError(message, hint=f"use `beam={self.required + 1}` or more")


def _contains(text: Sequence[int], word: Sequence[int]) -> bool:
    """Return whether the symbols of a word are in a row in a text."""
    starts = range(len(text) - len(word) + 1)
    return any(list(text[start : start + len(word)]) == list(word) for start in starts)


@dataclass(frozen=True)
class _Words:
    """P words for each of B sentences; those of a sentence that has fewer are empty."""

    symbols: Tensor  # (P, B, L) padded at the end
    lengths: Tensor  # (P, B)

    @classmethod
    def of(cls, words: Sequence[Sequence[Sequence[int]]], device: torch.device) -> _Words:
        """Collect the words of each sentence, each of them once."""
        distinct = [list(dict.fromkeys(map(tuple, of_sentence))) for of_sentence in words]
        most = max((len(of_sentence) for of_sentence in distinct), default=0)
        longest = max((len(word) for of_sentence in distinct for word in of_sentence), default=0)

        symbols = torch.full((most, len(words), longest), PAD)
        lengths = torch.zeros((most, len(words)), dtype=torch.long)
        for row, of_sentence in enumerate(distinct):
            for number, word in enumerate(of_sentence):
                symbols[number, row, : len(word)] = torch.tensor(word)
                lengths[number, row] = len(word)
        return cls(symbols.to(device), lengths.to(device))

    def select(self, sentences: Tensor) -> _Words:
        """Keep the words of the given sentences."""
        return _Words(self.symbols[:, sentences], self.lengths[:, sentences])


@dataclass(frozen=True)
class Constraints:
    """What the outputs of a batch must be like.

    Attributes:
        prefix: (B, n) padded at the end.
        include, exclude: the words of each sentence.
        continues: (V,) whether a symbol goes on with the word before it in the next symbol, as
            subwords do: a word that is asked for does not begin behind such a symbol. None: words
            begin anywhere.
    """

    prefix: Tensor
    include: _Words
    exclude: _Words
    continues: Tensor | None = None

    @classmethod
    def of(
        cls, constraints: Sequence[Constraint], continues: Tensor | None, device: torch.device
    ) -> Constraints:
        """Put the constraints of B sentences side by side."""
        longest = max(len(constraint.prefix) for constraint in constraints)
        prefix = torch.full((len(constraints), longest), PAD)
        for row, constraint in enumerate(constraints):
            prefix[row, : len(constraint.prefix)] = torch.tensor(constraint.prefix)

        return cls(
            prefix=prefix.to(device),
            include=_Words.of([constraint.include for constraint in constraints], device),
            exclude=_Words.of([constraint.exclude for constraint in constraints], device),
            continues=None if continues is None else continues.to(device),
        )

    @property
    def has_include(self) -> bool:
        """Whether any sentence has words that its output must contain."""
        return len(self.include.lengths) > 0

    def select(self, sentences: Tensor) -> Constraints:
        """Keep the given sentences."""
        return replace(
            self,
            prefix=self.prefix[sentences],
            include=self.include.select(sentences),
            exclude=self.exclude.select(sentences),
        )

    def forbid(self, log_probs: Tensor, written: Tensor) -> None:
        """Set log p of symbols that break a constraint to minus infinity.

        Args:
            log_probs: (B, k, V) of next symbols; changed.
            written: (B, k, n) symbols so far.
        """
        self._forbid_ends_of_words(log_probs, written)
        if self.has_include:
            log_probs[:, :, EOS].masked_fill_(~self.has_all(written), -torch.inf)

        position = written.shape[2]
        if position < self.prefix.shape[1]:
            symbol = self.prefix[:, None, position : position + 1].expand(-1, log_probs.shape[1], 1)
            kept = log_probs.gather(2, symbol)
            is_open = self.prefix[:, position] == PAD
            log_probs.masked_fill_(~is_open[:, None, None], -torch.inf)
            log_probs.scatter_(2, symbol, kept)

    def _forbid_ends_of_words(self, log_probs: Tensor, written: Tensor) -> None:
        """Forbid the last symbol of an excluded word whose other symbols are written."""
        for symbols, lengths in zip(self.exclude.symbols, self.exclude.lengths, strict=True):
            for count in range(symbols.shape[1]):
                is_complete = self._ends_in(symbols, count, written)
                is_complete &= (lengths == count + 1)[:, None]
                _change(log_probs, symbols[:, count], is_complete, -torch.inf)

    def has_all(self, written: Tensor) -> Tensor:
        """Return whether hypotheses have all words that they must contain, (B, k)."""
        has_all = torch.ones(written.shape[:2], dtype=torch.bool, device=written.device)
        for symbols, lengths in zip(self.include.symbols, self.include.lengths, strict=True):
            has_all &= self._has(symbols, lengths, written)
        return has_all

    def required(self) -> Tensor:
        """Return the number of symbols of all words that each sentence must contain, (B,)."""
        return self.include.lengths.sum(0)

    def progress(self, written: Tensor, vocabulary: int) -> Tensor:
        """Return how far each continuation has come with the words that it must contain.

        This is the number of symbols of the words that it has, and of the longest part of another
        word that it ends in. As long as a word is missing, some continuation of each hypothesis has
        come further than the hypothesis.

        Args:
            written: (B, k, n) symbols so far.
            vocabulary: number V of symbols that may follow.

        Returns: (B, k, V), at most `required`.
        """
        shape = (*written.shape[:2], vocabulary)
        of_words = torch.zeros(shape, dtype=torch.long, device=written.device)
        of_part = torch.zeros_like(of_words)

        for symbols, lengths in zip(self.include.symbols, self.include.lengths, strict=True):
            part = torch.zeros_like(of_words)
            for count in range(symbols.shape[1]):
                is_next = self._ends_in(symbols, count, written) & (lengths > count)[:, None]
                _change(part, symbols[:, count], is_next, count + 1)

            length = lengths[:, None, None]
            is_there = self._has(symbols, lengths, written)[:, :, None] | (part == length)
            of_words += torch.where(is_there, length, 0)
            of_part = torch.maximum(of_part, part.masked_fill(is_there, 0))

        return of_words + of_part

    def _ends_in(self, symbols: Tensor, count: int, written: Tensor) -> Tensor:
        """Return whether hypotheses end in the first `count` symbols of a word (B, L): (B, k)."""
        n = written.shape[2]
        if count > n:
            return torch.zeros(written.shape[:2], dtype=torch.bool, device=written.device)

        is_same = (written[:, :, n - count :] == symbols[:, None, :count]).all(2)
        if count == n:
            return is_same
        return is_same & self._ends_word(written[:, :, n - count - 1])

    def _has(self, symbols: Tensor, lengths: Tensor, written: Tensor) -> Tensor:
        """Return whether a word (B, L) of some lengths (B,) is written, (B, k)."""
        has_word = (lengths == 0)[:, None].expand(written.shape[:2]).clone()
        before = torch.cat([torch.full_like(written[:, :, :1], BOS), written], 2)
        if not written.shape[2]:
            return has_word

        for size in range(1, min(symbols.shape[1], written.shape[2]) + 1):
            places = written.unfold(2, size, 1)  # (B, k, n - size + 1, size)
            is_same = (places == symbols[:, None, None, :size]).all(3)
            is_same &= self._ends_word(before[:, :, : places.shape[2]])
            has_word |= is_same.any(2) & (lengths == size)[:, None]
        return has_word

    def _ends_word(self, symbols: Tensor) -> Tensor:
        """Return whether another word may begin behind symbols."""
        if self.continues is None:
            return torch.ones_like(symbols, dtype=torch.bool)
        # Symbols that the source alone has are words.
        is_known = symbols < len(self.continues)
        return ~(self.continues[symbols.masked_fill(~is_known, PAD)] & is_known)


def _change(values: Tensor, symbol: Tensor, where: Tensor, value: float) -> None:
    """Set values (B, k, V) at one symbol (B,) of each sentence, `where` (B, k) says so."""
    index = symbol[:, None, None].expand(-1, values.shape[1], 1)
    before = values.gather(2, index)
    values.scatter_(2, index, before.masked_fill(where[:, :, None], value))


def spread(scores: Tensor, progress: Tensor, required: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    """Choose the continuations of a beam that is shared out by progress.

    Those that have come equally far have the same number of places at least, if there are as many
    of them; the places that are left go to the best of all others.

    Args:
        scores: (B, n) of all continuations; -inf where there is none.
        progress: (B, n) how far each has come, from 0 to `required`.
        required: (B,).
        beam: number k of places.

    Returns: scores (B, k) and indices (B, k) of those that are chosen.
    """
    share = beam // (required + 1)
    kept = min(beam, scores.shape[1])
    ranks = torch.arange(kept, device=scores.device)

    best = []
    indices = []
    has_place = []
    for level in range(int(required.max()) + 1):
        of_level, index = scores.masked_fill(progress != level, -torch.inf).topk(kept, 1)
        best.append(of_level)
        indices.append(index)
        has_place.append((ranks < share[:, None]) & (of_level > -torch.inf))

    candidates = torch.cat(best, 1)
    # First by score, then, in this order, those that have a place come first.
    order = candidates.argsort(dim=1, descending=True, stable=True)
    is_first = torch.cat(has_place, 1).gather(1, order)
    order = order.gather(1, is_first.byte().argsort(dim=1, descending=True, stable=True))
    order = order[:, :beam]
    return candidates.gather(1, order), torch.cat(indices, 1).gather(1, order)
