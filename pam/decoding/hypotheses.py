"""Outputs of a search: how they are ranked, and the hypotheses that they grow from."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.vocabulary import BOS, PAD, STEP
from pam.decoding.length_prior import LengthPrior
from pam.models.model import Model


@dataclass(frozen=True)
class Output:
    """One output for one sentence.

    Attributes:
        symbols: ids, without the end symbol; none where the empty output was found.
        log_prob: log p(symbols, end | source), in nats.
        complete: false where the length limit cut it short.
        score: what outputs of a sentence are ranked by; see `Ranking`.
        attended: for each symbol the position of the source symbol most attended, by the
            alignment handed on; empty where nobody asked for it.
    """

    symbols: list[int]
    log_prob: float
    complete: bool
    score: float
    attended: list[int] = field(default_factory=list)


NOTHING = Output([], -torch.inf, False, -torch.inf)
"""Found where a model gives no symbol any probability."""


def forbidden_symbols(actions: bool) -> list[int]:
    """Ids that no output contains: padding, begin, and steps unless the model writes actions."""
    return [PAD, BOS] if actions else [PAD, BOS, STEP]


def limits_of(lengths: Tensor, decoding: Decoding) -> Tensor:
    """The longest output of each sentence, from its own length alone: (B,)."""
    return (lengths * decoding.max_ratio).long() + decoding.max_extra


class Best:
    """The best outputs of one sentence so far; those that ended come before those cut short."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.outputs: list[Output] = []

    def add(self, output: Output) -> None:
        """Keeps an output if it is among the best; of equally good ones the first stays ahead."""
        bisect.insort(self.outputs, output, key=lambda kept: (not kept.complete, -kept.score))
        del self.outputs[self.n_best :]

    @property
    def threshold(self) -> float:
        """The score that an output must exceed to be kept."""
        if len(self.outputs) < self.n_best or not self.outputs[-1].complete:
            return -torch.inf
        return self.outputs[-1].score


class Ranking:
    """score(y) = log p(y | x) / l^a + w log p(n | m).

    l is the number of symbols written, end symbol included, n without it; a is
    `decoding.length_penalty`, w is `decoding.length_prior`. With a = w = 0 the score is log p.

    Args:
        decoding: a and w.
        lengths: (B,) source lengths m + 1, end symbol included.
        limits: (B,) the largest l of each sentence.
        prior: p(n | m); None: w counts as 0.
    """

    def __init__(self, decoding: Decoding, lengths: Tensor, limits: Tensor, prior: LengthPrior | None) -> None:
        self.power = decoding.length_penalty
        self.bonus: list[Tensor] | None = None
        # log p is negative, so that dividing it by the largest length raises it most.
        self.scale = limits.double() ** -self.power
        if prior is None or decoding.length_prior == 0:
            return
        tables = [
            decoding.length_prior * prior.log_probs(length - 1, limit)
            for length, limit in zip(lengths.tolist(), limits.tolist(), strict=True)
        ]
        self.bonus = [torch.from_numpy(table) for table in tables]
        self.ahead = torch.full((len(tables), int(limits.max()) + 1), -torch.inf).double()
        for row, table in enumerate(tables):
            highest = np.maximum.accumulate(table[::-1])[::-1]
            self.ahead[row, : len(table)] = torch.from_numpy(highest.copy())
        self.ahead = self.ahead.to(limits.device)

    def score(self, row: int, log_prob: float, written: int, complete: bool) -> float:
        """The score of an output of sentence `row` with `written` symbols."""
        score = log_prob / float(written**self.power)
        if self.bonus is not None:
            score += float(self.bonus[row][written - 1 if complete else written])
        return score

    def bound(self, rows: Tensor, total: Tensor, written: int) -> Tensor:
        """What no continuation of an open output can exceed.

        Args:
            rows: (B',) which sentences.
            total: (B', k) log p of what was written so far, `written` symbols.

        Returns:
            (B', k)
        """
        bound = total * self.scale[rows, None] if self.power else total
        return bound if self.bonus is None else bound + self.ahead[rows, written, None]


class Hypotheses:
    """k hypotheses for each of B sentences, which a model extends by one symbol at a time."""

    def __init__(self, model: Model, source: Tensor, lengths: Tensor, beam: int) -> None:
        self.model, self.beam = model, beam
        self.memory = model.encode(source, lengths, beam)
        self.state = model.start(self.memory)
        self.found: Any = None

    def step(self, symbol: Tensor) -> Tensor:
        """log p of every next symbol, (B, k, V), after `symbol` (B, k) was written last.

        Whoever asked may overwrite it.
        """
        self.found = self.model.step(self.memory, self.state, symbol.flatten())
        log_probs: Tensor = self.found.log_probs
        return log_probs.view(*symbol.shape, -1)

    def update(self, parents: Tensor | None, symbol: Tensor) -> None:
        """Goes on from hypothesis `parents` (B, k) of the same sentence with `symbol` (B, k); None:
        each from itself."""
        step = self.found
        if parents is not None and self.beam > 1:
            first = self.beam * torch.arange(len(parents), device=parents.device)[:, None]
            # Hypotheses of a sentence share its memory, so only the step follows the parents.
            step = step.select((first + parents).flatten())
        self.state = self.model.update(self.memory, step, symbol.flatten())

    def keep(self, sentences: Tensor) -> None:
        """Keeps the given sentences only."""
        every = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + every).flatten()
        self.memory, self.state = self.memory.select(sentences), self.state.select(rows)

    def most_attended(self, lengths: Tensor) -> Tensor:
        """For each hypothesis the source position that the last step attended most, end symbols left out: (B, k).

        Args:
            lengths: (B,) source lengths, end symbol included.

        Returns:
            0 where a source has nothing but its end symbol.
        """
        alignment = self.state.alignment.unflatten(0, (-1, self.beam))
        positions = torch.arange(alignment.shape[2], device=lengths.device)
        beyond = positions >= lengths[:, None] - 1  # (B, m)
        attended: Tensor = alignment.masked_fill(beyond[:, None], -1.0).argmax(2)
        return attended
