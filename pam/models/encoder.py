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


class Encoder(nn.Module):
    """Source symbols to states h_a, forward and backward concatenated.

    The backward LSTM reads each sentence reversed within its own length, so that padding stands
    at the end in both directions and never changes a state. Both are plain `nn.LSTM`s over dense
    batches, for which torch has fused kernels on CPU and on CUDA.

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
        inputs = [embedding] + [2 * hidden] * (layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(size, hidden) for size in inputs)
        self.backwards = nn.ModuleList(nn.LSTM(size, hidden) for size in inputs)
        self.rate = rate

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes a batch.

        Args:
            source: (B, m) symbols, padded at the end.
            lengths: (B,) real lengths, at least 1.

        Returns:
            States (B, m, 2H), meaningless at padding, and the last layer's final states
            (B, 2H): the forward LSTM's at the last symbol, the backward LSTM's at the first.
        """
        positions = torch.arange(source.shape[1], device=source.device)[:, None]
        # Reverses each sentence in place and leaves padding where it is; its own inverse.
        mirror = torch.where(positions < lengths, lengths - 1 - positions, positions)
        columns = torch.arange(source.shape[0], device=source.device)
        states = dropout(self.embedding(source.t()), self.rate, self.training)  # (m, B, E)
        final = states
        for ahead, back in zip(self.forwards, self.backwards, strict=True):
            onward, _ = ahead(states)
            reverse, _ = back(_Mirrored.apply(states, mirror, columns))
            final = torch.cat([onward[lengths - 1, columns], reverse[lengths - 1, columns]], -1)
            states = torch.cat([onward, _Mirrored.apply(reverse, mirror, columns)], -1)
            states = dropout(states, self.rate, self.training)
        return states.transpose(0, 1).contiguous(), final
