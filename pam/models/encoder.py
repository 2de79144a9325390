"""The encoder: embeddings and a bidirectional LSTM whose states ignore padding."""

from __future__ import annotations

from typing import Any, Literal

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


def lstms(size: int, hidden: int, layers: int, width: int) -> nn.ModuleList:
    """The LSTMs of one direction of `layers` layers, over inputs of `size` units; layers give
    `width` units on, of all their directions."""
    return nn.ModuleList(nn.LSTM(s, hidden) for s in [size] + [width] * (layers - 1))


def read(
    forwards: nn.ModuleList | None,
    backwards: nn.ModuleList | None,
    states: Tensor,
    lengths: Tensor,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Recurrent layers over a batch, of both directions or of one.

    The backward LSTM reads each sentence reversed within its own length, so that padding stands
    at the end in both directions and never changes a state. Both are plain `nn.LSTM`s over dense
    batches, for which torch has fused kernels on CPU and on CUDA.

    Args:
        forwards, backwards: one LSTM per layer each, of H units; None: not read in that direction.
        states: (m, B, E) inputs, padded at the end.
        lengths: (B,) real lengths, at least 1.
        rate: dropout rate on each layer's output.

    Returns:
        States (B, m, D) with D = 2H, or H of one direction, meaningless at padding, and the last
        layer's final states (B, D): the forward LSTM's at the last symbol, the backward LSTM's at
        the first.
    """
    positions = torch.arange(len(states), device=states.device)[:, None]
    # Reverses each sentence in place and leaves padding where it is; its own inverse.
    mirror = torch.where(positions < lengths, lengths - 1 - positions, positions)
    columns = torch.arange(states.shape[1], device=states.device)
    final = states
    for layer in range(len(forwards or backwards or ())):
        read_states, ends = [], []
        if forwards is not None:
            onward, _ = forwards[layer](states)
            read_states.append(onward)
            ends.append(onward[lengths - 1, columns])
        if backwards is not None:
            reverse, _ = backwards[layer](_Mirrored.apply(states, mirror, columns))
            read_states.append(_Mirrored.apply(reverse, mirror, columns))
            ends.append(reverse[lengths - 1, columns])
        final = torch.cat(ends, -1)
        states = dropout(torch.cat(read_states, -1), rate, rate > 0)
    return states.transpose(0, 1).contiguous(), final


class Encoder(nn.Module):
    """Source symbols to states h_a, forward and backward concatenated.

    Args:
        vocabulary: number of source symbols.
        embedding: units of an embedding.
        hidden: LSTM units of one direction.
        layers: in the stack.
        rate: dropout rate, on embeddings and on each layer's output.
        reads: `both` directions, or one of them alone; `backward` is the reversed source of
            Sutskever et al. (2014), with positions counted as they stand in the text.
    """

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        layers: int,
        rate: float,
        reads: Literal["both", "forward", "backward"] = "both",
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        width = 2 * hidden if reads == "both" else hidden
        sizes = embedding, hidden, layers, width
        self.forwards = None if reads == "backward" else lstms(*sizes)
        self.backwards = None if reads == "forward" else lstms(*sizes)
        self.rate = rate

    def embed(self, symbols: Tensor) -> Tensor:
        """Embeddings of symbols of any shape (...,), to (..., E), with dropout in training."""
        return dropout(self.embedding(symbols), self.rate, self.training)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes symbols (B, m), padded at the end, of real `lengths` (B,); see `read`."""
        rate = self.rate if self.training else 0.0
        return read(self.forwards, self.backwards, self.embed(source.t()), lengths, rate)
