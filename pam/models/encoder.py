"""The encoder: embeddings and a bidirectional LSTM whose states ignore padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pam.models.dropout import dropout


class _Mirrored(torch.autograd.Function):
    """Rows of (m, B, .) put into a new order that is its own inverse, hence its own gradient.

    Plain indexing would add up the gradient entry by entry, which is many times slower.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, mirror: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(mirror, columns)
        return states[mirror, columns]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        mirror, columns = ctx.saved_tensors
        return grads[0][mirror, columns], None, None


def lstms(size: int, hidden: int, layers: int) -> nn.ModuleList:
    """The LSTMs of one direction of `layers` bidirectional layers, over inputs of `size` units."""
    return nn.ModuleList(nn.LSTM(s, hidden) for s in [size] + [2 * hidden] * (layers - 1))


def read(
    forwards: nn.ModuleList,
    backwards: nn.ModuleList,
    states: Tensor,
    lengths: Tensor,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Bidirectional layers over a batch.

    The backward LSTM reads each sentence reversed within its own length, so that padding stands
    at the end in both directions and never changes a state. Both are plain `nn.LSTM`s over dense
    batches, for which torch has fused kernels on CPU and on CUDA.

    Args:
        forwards, backwards: one LSTM per layer each, of H units.
        states: (m, B, E) inputs, padded at the end.
        lengths: (B,) real lengths, at least 1.
        rate: dropout rate on each layer's output.

    Returns:
        States (B, m, 2H), meaningless at padding, and the last layer's final states (B, 2H): the
        forward LSTM's at the last symbol, the backward LSTM's at the first.
    """
    positions = torch.arange(len(states), device=states.device)[:, None]
    # Reverses each sentence in place and leaves padding where it is; its own inverse.
    mirror = torch.where(positions < lengths, lengths - 1 - positions, positions)
    columns = torch.arange(states.shape[1], device=states.device)
    final = states
    for ahead, back in zip(forwards, backwards, strict=True):
        onward, _ = ahead(states)
        reverse, _ = back(_Mirrored.apply(states, mirror, columns))
        final = torch.cat([onward[lengths - 1, columns], reverse[lengths - 1, columns]], -1)
        states = torch.cat([onward, _Mirrored.apply(reverse, mirror, columns)], -1)
        states = dropout(states, rate, rate > 0)
    return states.transpose(0, 1).contiguous(), final


class Encoder(nn.Module):
    """Source symbols to states h_a, forward and backward concatenated.

    Args:
        vocabulary: number of source symbols.
        embedding: units of an embedding.
        hidden: LSTM units of one direction.
        layers: bidirectional layers.
        rate: dropout rate, on embeddings and on each layer's output.
    """

    def __init__(
        self, vocabulary: int, embedding: int, hidden: int, layers: int, rate: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.forwards = lstms(embedding, hidden, layers)
        self.backwards = lstms(embedding, hidden, layers)
        self.rate = rate

    def embed(self, symbols: Tensor) -> Tensor:
        """Embeddings of symbols of any shape (...,), to (..., E), with dropout in training."""
        return dropout(self.embedding(symbols), self.rate, self.training)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes symbols (B, m), padded at the end, of real `lengths` (B,); see `read`."""
        rate = self.rate if self.training else 0.0
        return read(self.forwards, self.backwards, self.embed(source.t()), lengths, rate)
