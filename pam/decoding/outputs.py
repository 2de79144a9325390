"""What a search finds, and what it keeps of it."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.vocabulary import BOS, PAD, STEP


@dataclass(frozen=True)
class Output:
    """One output for one sentence.

    Attributes:
        symbols: ids, without the end symbol; none where the empty output was found.
        log_prob: log p(symbols, end | source), in nats.
        complete: false where the length limit cut it short.
        score: what outputs of a sentence are ranked by; see `pam.decoding.ranking`.
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

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.outputs: list[Output] = []

    def add(self, output: Output) -> None:
        """Keeps an output if it is among the best; of equally good ones the first stays ahead."""
        bisect.insort(self.outputs, output, key=lambda kept: (not kept.complete, -kept.score))
        del self.outputs[self.wanted :]

    @property
    def threshold(self) -> float:
        """The score that an output must exceed to be kept."""
        if len(self.outputs) < self.wanted or not self.outputs[-1].complete:
            return -torch.inf
        return self.outputs[-1].score
