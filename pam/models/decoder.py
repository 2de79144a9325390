"""The decoder's recurrence: a stack of LSTM cells fed with symbol and context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models.dropout import dropout_mask
from pam.models.parts import Hidden


class Recurrence(nn.Module):
    """s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}]) (Shankar & Sarawagi 2019, equations 9, 12).

    Args:
        vocabulary: number of target symbols.
        embedding: units of an embedding.
        context: units D of the context c_{t-1}.
        hidden: LSTM units H.
        layers: cells in the stack.
        final: units of the encoder's final states, from which the first state is made.
        rate: dropout rate, on embeddings and on each layer's output.
    """

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        context: int,
        hidden: int,
        layers: int,
        final: int,
        rate: float,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        inputs = [embedding + context] + [hidden] * (layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(size, hidden) for size in inputs)
        self.bridge = nn.Linear(final, 2 * layers * hidden)
        self.hidden = hidden
        self.rate = rate

    @property
    def stack(self) -> list[nn.LSTMCell]:
        """The cells, from the lowest layer up."""
        return [cell for cell in self.cells if isinstance(cell, nn.LSTMCell)]

    def start(self, final: Tensor) -> Hidden:
        """The first state from the encoder's final states (B, final): h by tanh, c linear."""
        parts = self.bridge(final).chunk(2 * len(self.cells), dim=1)
        return tuple((torch.tanh(h), c) for h, c in zip(parts[::2], parts[1::2], strict=True))

    def embed(self, symbols: Tensor) -> Tensor:
        """Embeddings of symbols of any shape (...,), to (..., E), with dropout in training."""
        embedded: Tensor = self.embedding(symbols)
        if self.training and self.rate > 0:
            embedded = embedded * dropout_mask(tuple(embedded.shape), self.rate, embedded)
        return embedded

    def draw_masks(self, steps: int, batch: int) -> Tensor | None:
        """Dropout masks of every layer's output, (layers, steps, B, H); None if there is none.

        They are drawn before the recurrence, so that the reference and the fast path see the
        same ones.
        """
        if not self.training or self.rate == 0:
            return None
        shape = (len(self.cells), steps, batch, self.hidden)
        return dropout_mask(shape, self.rate, self.embedding.weight)

    def forward(
        self, embedded: Tensor, context: Tensor, state: Hidden, masks: Tensor | None
    ) -> tuple[Tensor, Hidden]:
        """One step.

        Args:
            embedded: (B, E) of y_{t-1}.
            context: (B, D) c_{t-1}.
            state: the state before.
            masks: (layers, B, H) dropout masks of this step, or None.

        Returns:
            The query (B, H), the top layer's output after dropout, and the new state.
        """
        below = torch.cat([embedded, context], dim=1)
        new = []
        for layer, (cell, hidden) in enumerate(zip(self.cells, state, strict=True)):
            hidden = cell(below, hidden)
            new.append(hidden)
            below = hidden[0] if masks is None else hidden[0] * masks[layer]
        return below, tuple(new)
