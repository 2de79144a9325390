"""Outputs of a search, their ranking, also by length, and the hypotheses that they grow from."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from pam.data.dataset import Split
from pam.data.lengths import LEAST_RATIO, PairLengths
from pam.data.vocabulary import BOS, EOS, PAD, STEP
from pam.experiments.parsing import Strict, parse
from pam.experiments.settings import Decoding
from pam.models.model import Model
from pam.runtime.files import read_json, write_text

LENGTHS = "lengths.json"  # name of a `LengthPrior` in a model's folder


@dataclass(frozen=True)
class Output:
    """One output for one sentence."""

    symbols: list[int]  # ids, without the end symbol; none where the empty output was found
    log_prob: float  # log p(symbols, end | source), in nats
    complete: bool  # false where the length limit cut it short
    score: float  # what outputs of a sentence are ranked by; see `Ranking`
    # For each symbol the position of the source symbol most attended, by the alignment handed on,
    # where this was asked.
    attended: list[int] = field(default_factory=list)


# found where a model gives no symbol any probability
NOTHING = Output([], -torch.inf, False, -torch.inf)


def forbidden_symbols(actions: bool) -> list[int]:
    """Return the ids that no output contains.

    They are padding, begin, and steps, unless the model writes actions.
    """
    if actions:
        return [PAD, BOS]
    return [PAD, BOS, STEP]


def longest(lengths: Tensor, decoding: Decoding) -> Tensor:
    """Return the length of the longest output of each sentence, from its own length alone: (B,)."""
    ratio = decoding.max_ratio or LEAST_RATIO
    limits = (lengths * ratio).long() + decoding.max_extra
    return limits.clamp(decoding.min_length + 1, decoding.max_length)


def forbid(log_probs: Tensor, written: Tensor, decoding: Decoding) -> None:
    """Set the log probability of forbidden next symbols to minus infinity.

    No output ends before `decoding.min_length` symbols, or repeats `no_repeat_ngram_size` symbols.

    Args:
        log_probs: (B, k, V) log p of next symbols, where padding is forbidden already; changed.
        written: (B, k, n) symbols so far.
    """
    if written.shape[2] < decoding.min_length:
        log_probs[:, :, EOS] = -torch.inf

    size = decoding.no_repeat_ngram_size
    if size is not None and written.shape[2] >= size:
        # An n-gram is repeated by its last symbol where the symbols before it are the last written.
        seen = written.unfold(2, size, 1)  # (B, k, n - size + 1, size)
        last = written[:, :, None, written.shape[2] - size + 1 :]
        repeats = (seen[..., :-1] == last).all(3)
        log_probs.scatter_(2, seen[..., -1].masked_fill(~repeats, PAD), -torch.inf)


class Best:
    """The best outputs of one sentence so far; those that ended come before those cut short."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.outputs: list[Output] = []

    def add(self, output: Output) -> None:
        """Keep an output if it is among the best.

        Of equally good ones the first stays ahead.
        """
        bisect.insort(self.outputs, output, key=lambda kept: (not kept.complete, -kept.score))
        del self.outputs[self.n_best :]

    @property
    def threshold(self) -> float:
        """The score that an output must exceed to be kept."""
        if len(self.outputs) < self.n_best or not self.outputs[-1].complete:
            return -torch.inf

        return self.outputs[-1].score


class LengthPrior(Strict):
    """p(target length | source length), counted from training text and smoothed.

    Left alone, models favour short outputs; a prior over lengths sets that right (as in Eriguchi et
    al. 2016): y = argmax log p(|y| | |x|) + log p(y | x).

    p(n | m) = (c(m, n) + d(m) q(n | m)) / (c(m) + d(m)), where c counts training pairs, d(m) is the
    number of different n seen with m (Witten & Bell 1991), and q is a Poisson distribution whose
    mean grows with m. So every n is possible, for every m, also one that training did not contain.
    Lengths are in symbols, without end symbols.
    """

    ratio: float = Field(ge=0, description="mean target length over mean of source length + 1")
    counts: list[Annotated[list[int], Field(min_length=3, max_length=3)]] = Field(
        description="source length, target length, number of training pairs"
    )

    @classmethod
    def of(cls, split: Split) -> LengthPrior:
        """Count the pairs of lengths of a prepared split, end symbols left out."""
        return cls.fit(split.sources.lengths - split.source_eos, split.targets.lengths - 1)

    @classmethod
    def fit(cls, source: Iterable[int], target: Iterable[int]) -> LengthPrior:
        """Count pairs of lengths."""
        counted = Counter(zip(map(int, source), map(int, target), strict=True))
        total_source = sum(count * (m + 1) for (m, _), count in counted.items())
        total_target = sum(count * n for (_, n), count in counted.items())
        rows = [[m, n, count] for (m, n), count in sorted(counted.items())]

        return cls(ratio=total_target / max(1, total_source), counts=rows)

    def save(self, path: Path | str) -> None:
        """Write it as JSON, whole or not at all."""
        write_text(path, self.model_dump_json() + "\n")

    @classmethod
    def load(cls, path: Path | str) -> LengthPrior:
        """Read what `save` wrote; a UserError says that it is missing or damaged."""
        return parse(cls, read_json(path), path)

    def pairs(self, source_eos: bool, actions: bool) -> PairLengths:
        """Return the lengths of all pairs as a model reads and writes them."""
        source, target, number = np.array(self.counts).T
        return PairLengths.written(
            source=np.repeat(source + source_eos, number),
            target=np.repeat(target + 1, number),
            actions=actions,
        )

    def log_probs(self, source: int, longest: int) -> NDArray[np.float64]:
        """Return log p(n | source) of n = 0, 1, ..., `longest`: (longest + 1,)."""
        # The logarithm of n! is a sum of logarithms.
        n = np.arange(longest + 1)
        rate = max(self.ratio * (source + 1), 0.01)
        poisson = np.exp(n * np.log(rate) - rate - np.cumsum(np.log(np.maximum(n, 1))))

        seen = self._by_source.get(source, {})
        total = sum(seen.values())
        different = max(1, len(seen))
        counts = np.array([seen.get(length, 0) for length in range(longest + 1)])
        smoothed = (counts + different * poisson) / (total + different)
        log_probs: NDArray[np.float64] = np.log(smoothed + np.finfo(np.float64).tiny)
        return log_probs

    @cached_property
    def _by_source(self) -> dict[int, dict[int, int]]:
        """The counts of target lengths by source length."""
        table: dict[int, dict[int, int]] = {}
        for m, n, count in self.counts:
            table.setdefault(m, {})[n] = count
        return table


class Ranking:
    """score(y) = log p(y | x) / c(l)^a + w log p(n | m).

    l is the number of symbols written, end symbol included, n without it; a is
    `decoding.length_penalty`, w is `decoding.length_prior`; c(l) is l, or (5 + l) / 6 (Wu et al.
    2016, equation 14), by `length_penalty_form`. With a = w = 0 the score is log p.

    Args:
        lengths: (B,) source lengths m, without end symbols.
        limits: (B,) the largest l of each sentence.
        prior: p(n | m); None: w counts as 0.
    """

    def __init__(
        self, decoding: Decoding, lengths: Tensor, limits: Tensor, prior: LengthPrior | None
    ) -> None:
        self.power = decoding.length_penalty
        self.wu = decoding.length_penalty_form == "wu"
        # log p is negative, so that dividing it by the largest length raises it most.
        longest = limits.double()
        self.scale = ((5 + longest) / 6 if self.wu else longest) ** -self.power

        self.bonus: list[Tensor] | None = None
        if prior is None or decoding.length_prior == 0:
            return

        tables = [
            decoding.length_prior * prior.log_probs(length, limit)
            for length, limit in zip(lengths.tolist(), limits.tolist(), strict=True)
        ]
        self.bonus = [torch.from_numpy(table) for table in tables]
        # (B, longest + 1) the highest bonus of so many symbols or more
        self.ahead = torch.full((len(tables), int(limits.max()) + 1), -torch.inf).double()
        for row, table in enumerate(tables):
            highest = np.maximum.accumulate(table[::-1])[::-1]
            self.ahead[row, : len(table)] = torch.from_numpy(highest.copy())
        self.ahead = self.ahead.to(limits.device)

    def score(self, row: int, log_prob: float, written: int, complete: bool) -> float:
        """Return the score of an output of sentence `row` with `written` symbols."""
        length = (5 + written) / 6 if self.wu else written
        score = log_prob / float(length**self.power)

        if self.bonus is not None:
            symbols = written - 1 if complete else written
            score += float(self.bonus[row][symbols])
        return score

    def bound(self, rows: Tensor, total: Tensor, written: int) -> Tensor:
        """Return the score that no continuation of an open output can exceed, (B', k).

        The outputs belong to sentences `rows` (B',). `total` (B', k) is log p of what was `written`
        so far.
        """
        bound = total
        if self.power:
            bound = total * self.scale[rows, None]

        if self.bonus is not None:
            bound = bound + self.ahead[rows, written, None]
        return bound


class Hypotheses:
    """k hypotheses for each of B sentences, which a model extends by one symbol at a time."""

    def __init__(
        self, model: Model, source: Tensor, lengths: Tensor, beam: int, bf16: bool = False
    ) -> None:
        self.model = model
        self.beam = beam

        with model.computing(search_bf16=bf16):
            self.memory = model.encode(source, lengths, beam)
        self.state = model.start(self.memory)
        self.last_step: Any = None  # what the model returned for it

    def step(self, symbol: Tensor) -> Tensor:
        """Return log p of every next symbol, (B, k, V), after `symbol` (B, k) was written last.

        The caller may overwrite it.
        """
        self.last_step = self.model.step(self.memory, self.state, symbol.flatten())
        log_probs: Tensor = self.last_step.output.log_probs()
        return log_probs.view(*symbol.shape, -1)

    def update(self, parents: Tensor | None, symbol: Tensor) -> None:
        """Go on from hypotheses `parents` of the same sentence with `symbol`, both (B, k).

        None: each goes on from itself.
        """
        step = self.last_step

        if parents is not None and self.beam > 1:
            first = self.beam * torch.arange(len(parents), device=parents.device)[:, None]
            # Hypotheses of a sentence share its memory, so only the step follows the parents.
            step = step.select((first + parents).flatten())

        self.state = self.model.update(self.memory, step, symbol.flatten())

    def keep(self, sentences: Tensor) -> None:
        """Keep the given sentences only."""
        in_beam = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + in_beam).flatten()
        self.memory = self.memory.select(sentences)
        self.state = self.state.select(rows)

    def most_attended(self, lengths: Tensor) -> Tensor:
        """Return the source position that each hypothesis' last step attended most: (B, k).

        Source `lengths` (B,) are those of `without_end`, so that no end symbol counts. The position
        is 0 where a source has nothing but its end symbol.
        """
        alignment = self.state.alignment.unflatten(0, (-1, self.beam))
        positions = torch.arange(alignment.shape[2], device=lengths.device)
        is_beyond = positions >= lengths[:, None]  # (B, m)
        attended: Tensor = alignment.masked_fill(is_beyond[:, None], -1.0).argmax(2)
        return attended
