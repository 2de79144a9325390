"""The readout over all tokens of a batch at once, where nothing of it feeds back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import PAD
from pam.fast.joint import log_likelihood
from pam.models.memory import Memory
from pam.models.seq2seq import Seq2Seq


class SigmoidReadout(NamedTuple):
    """The readout with its tanh written as a sigmoid; see `pam.fast.likelihood`.

    Attributes:
        views: (B, m, R) doubled views of the encoder states, bias included.
        of_query: (R, H) doubled; weight: (V, R) doubled; bias: (V,).
    """

    views: Tensor
    of_query: Tensor
    weight: Tensor
    bias: Tensor


def sigmoid_readout(model: Seq2Seq, memory: Memory) -> SigmoidReadout:
    """The model's readout of an encoded batch."""
    readout = model.readout
    views = 2 * (memory.readout + readout.of_query.bias)
    weight = readout.output.weight
    bias = readout.output.bias - weight.sum(1)
    return SigmoidReadout(views, 2 * readout.of_query.weight, 2 * weight, bias)


@dataclass(frozen=True)
class Tokens:
    """The real target tokens of a batch, one after another, step by step.

    Attributes:
        shape: (n, B) of the steps.
        places: (N,) in the flattened (n, B); rows: (N,) the sentence of each.
        symbols: (N,) gold symbols.
    """

    shape: torch.Size
    places: Tensor
    rows: Tensor
    symbols: Tensor

    @classmethod
    def of(cls, target: Tensor) -> Tokens:
        """Tokens of targets (B, n), padded at the end."""
        steps = target.t()
        places = (steps.reshape(-1) != PAD).nonzero().squeeze(1)
        return cls(steps.shape, places, places % len(target), steps.reshape(-1)[places])

    def pick(self, values: Tensor) -> Tensor:
        """(n, B, ...) to (N, ...)."""
        flat = values.flatten(0, 1)
        return flat if len(flat) == len(self.places) else flat.index_select(0, self.places)

    def spread(self, values: Tensor) -> Tensor:
        """(N,) to (B, n), zeros at padding."""
        whole = values.new_zeros(self.shape.numel())
        return whole.index_copy(0, self.places, values).view(self.shape).t()

    def hidden(self, readout: SigmoidReadout, queries: Tensor, kept: Tensor | None) -> Tensor:
        """The readout's hidden layer: (N, K, R).

        Args:
            queries: (n, B, H).
            kept: (n, B, K) positions, or None for all.
        """
        length = readout.views.shape[1]
        if kept is None:
            at = torch.arange(length, device=queries.device).expand(len(self.places), -1)
        else:
            at = self.pick(kept)
        # As an embedding, whose gradient is many times faster than that of indexing.
        views = F.embedding(at + (self.rows * length)[:, None], readout.views.flatten(0, 1))
        return torch.sigmoid(views + F.linear(self.pick(queries), readout.of_query)[:, None])

    def softly(
        self, readout: SigmoidReadout, queries: Tensor, contexts: Tensor, narrow: bool
    ) -> Tensor:
        """(B, n) log p from queries (n, B, H) and one context's view each (n, B, R)."""
        viewed = F.linear(self.pick(queries), readout.of_query)
        z = torch.sigmoid(viewed + self.pick(contexts))[:, None]
        weights = torch.zeros_like(z[:, :, 0])
        return self.spread(
            log_likelihood(z, weights, readout.weight, readout.bias, self.symbols, narrow=narrow)
        )
