"""LSTMs: the encoder, the decoder's layers, and their dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pam.data.vocabulary import UNK
from pam.models.interfaces import Cell, Hidden
from pam.models.kernels import LSTMCell, SearchLinear, SharedLinear, large_products

_LEVELS = 1 << 16


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """Zeros with probability `rate`, else 1 / (1 - rate); dtype and device of `like`.

    Four entries are drawn per 64-bit random number, which on a CPU takes a fifth of the time of
    `torch.nn.functional.dropout`; the rate is met to within 2^-17.
    """
    count = math.prod(shape)
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None)
    draws = words.view(torch.int16)[:count].view(shape)
    kept = draws >= round(rate * _LEVELS) - _LEVELS // 2
    return kept.to(like.dtype).mul_(1 / (1 - rate))


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Dropout of `values`; the identity outside training or at rate 0."""
    if not training or rate == 0:
        return values
    return values * dropout_mask(tuple(values.shape), rate, values)


def known(symbols: Tensor, embedding: nn.Embedding) -> Tensor:
    """Symbols of any shape as they are embedded: those of the source alone, beyond the vocabulary,
    as unknown.
    """
    return symbols.masked_fill(symbols >= embedding.num_embeddings, UNK)


class Embedding(nn.Embedding):
    """Embeddings of symbols; those of the source alone, beyond the vocabulary, are unknown."""

    def forward(self, symbols: Tensor) -> Tensor:
        return super().forward(known(symbols, self))


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
    `width` units on, of all their directions.
    """
    return nn.ModuleList(nn.LSTM(s, hidden) for s in [size] + [width] * (layers - 1))


def run_lstms(
    forwards: nn.ModuleList | None,
    backwards: nn.ModuleList | None,
    states: Tensor,
    lengths: Tensor,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Recurrent layers over a batch, of both directions or of one.

    The backward LSTM reads each sentence reversed within its own length, so that padding is at the
    end in both directions and never changes a state. Both are plain `nn.LSTM`s over dense batches,
    for which torch has fused kernels.

    Args:
        forwards, backwards: one LSTM per layer each, of H units; None: not run in that direction.
        states: (m, B, E) inputs, padded at the end; lengths: (B,) real lengths, at least 1.
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
        states_of, ends = [], []
        if forwards is not None:
            onward, _ = forwards[layer](states)
            states_of.append(onward)
            ends.append(onward[lengths - 1, columns])
        if backwards is not None:
            reverse, _ = backwards[layer](_Mirrored.apply(states, mirror, columns))
            states_of.append(_Mirrored.apply(reverse, mirror, columns))
            ends.append(reverse[lengths - 1, columns])
        final = torch.cat(ends, -1)
        states = dropout(torch.cat(states_of, -1), rate, rate > 0)
    return states.transpose(0, 1).contiguous(), final


class SearchCell:
    """What `LSTMCell` computes, for search: nothing is kept for a gradient.

    Args:
        wx: (4H, X), or None: the layer's input comes multiplied with it, (n, 4H); wh: (4H, H).
    """

    def __init__(self, wx: Tensor | None, wh: Tensor) -> None:
        self.wx, self.wh = None if wx is None else wx.detach().t(), wh.detach().t()

    @large_products
    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = before + x if self.wx is None else torch.addmm(before, x, self.wx)
        i, f, g, o = gates.addmm_(h, self.wh).chunk(4, dim=1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(c), c


class Encoder(nn.Module):
    """Source symbols, or vectors such as those of a clip's frames, to states h_a, forward and
    backward concatenated.

    Args:
        vocabulary: number of source symbols; embedding: units of an embedding; hidden: LSTM units
            of one direction.
        vectors: units of each vector, where sources are vectors: a linear layer takes the place of
            embeddings; or 0.
        layers: in the stack; rate: dropout rate, on embeddings and on each layer's output.
        reads: `both` directions, or one of them alone; `backward` is the reversed source of
            Sutskever et al. (2014),
            with positions counted as they stand in the text.
    """

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        layers: int,
        rate: float,
        reads: Literal["both", "forward", "backward"] = "both",
        vectors: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = (
            nn.Linear(vectors, embedding) if vectors else Embedding(vocabulary, embedding)
        )
        width = 2 * hidden if reads == "both" else hidden
        sizes = embedding, hidden, layers, width
        self.forwards = None if reads == "backward" else lstms(*sizes)
        self.backwards = None if reads == "forward" else lstms(*sizes)
        self.rate = rate

    def embed(self, source: Tensor) -> Tensor:
        """Embeddings, with dropout in training, of symbols of any shape (...,) or of vectors (...,
        units): (..., E).
        """
        return dropout(self.embedding(source), self.rate, self.training)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes symbols (B, m) or vectors (B, m, units), padded at the end, of `lengths` (B,);
        see `run_lstms`.
        """
        rate = self.rate if self.training else 0.0
        return run_lstms(
            self.forwards, self.backwards, self.embed(source.transpose(0, 1)), lengths, rate
        )


class Decoder(nn.Module):
    """s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}]) (Shankar & Sarawagi 2019, equations 9, 12).

    A stack of LSTM layers, fed with symbol and context. What embeddings give the gates of the first
    layer depends on no other step, so it is computed for many symbols at once (`gates`).

    Args:
        vocabulary: number of target symbols; embedding: units of an embedding.
        context: units D of the context c_{t-1}; hidden: LSTM units H; layers: in the stack.
        final: units of the encoder's final states, from which the first state is made; 0: it is
            zeros.
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
        self.bridge = nn.Linear(final, 2 * layers * hidden) if final else None
        self.hidden = hidden
        self.rate = rate

    @property
    def stack(self) -> list[nn.LSTMCell]:
        """The layers, from the lowest up."""
        return [cell for cell in self.cells if isinstance(cell, nn.LSTMCell)]

    def start(self, final: Tensor) -> Hidden:
        """The first state from the encoder's final states (B, final), h by tanh, c linear, or
        zeros.
        """
        if self.bridge is None:
            zeros = final.new_zeros(len(final), self.hidden)
            return tuple((zeros, zeros) for _ in self.cells)
        parts = self.bridge(final).chunk(2 * len(self.cells), dim=1)
        return tuple((torch.tanh(h), c) for h, c in zip(parts[::2], parts[1::2], strict=True))

    @property
    def of_context(self) -> Tensor:
        """W_c (4H, D), of the context in the first layer's gates."""
        return self.stack[0].weight_ih[:, self.embedding.embedding_dim :]

    def kernels(self, bf16: bool) -> tuple[Cell, ...]:
        """The layers for a batch; the first one's input is the context alone."""
        inputs = [self.of_context, *(cell.weight_ih for cell in self.stack[1:])]
        pairs = zip(inputs, self.stack, strict=True)
        return tuple(LSTMCell(weight, cell.weight_hh, bf16) for weight, cell in pairs)

    def search_cells(self) -> tuple[Cell, ...]:
        """The layers for search; the first one's input is W_c c."""
        inputs = [None, *(cell.weight_ih for cell in self.stack[1:])]
        return tuple(
            SearchCell(wx, cell.weight_hh) for wx, cell in zip(inputs, self.stack, strict=True)
        )

    def search_gates(self, rows: int) -> Callable[[Tensor], Tensor]:
        """`gates` for search in steps of so many rows, which have few different symbols, or all
        that there are.
        """
        cell, bias = self.stack[0], self.stack[0].bias_ih + self.stack[0].bias_hh
        linear = SearchLinear(cell.weight_ih[:, : self.embedding.embedding_dim], bias)

        def of_different(symbols: Tensor) -> Tensor:
            different, places = known(symbols, self.embedding).unique(return_inverse=True)
            return linear(self.embedding(different)).index_select(0, places)

        if rows < self.embedding.num_embeddings:
            return of_different
        every = linear(self.embedding.weight.detach())
        return lambda symbols: every.index_select(0, known(symbols, self.embedding))

    def embed(self, symbols: Tensor) -> Tensor:
        """Embeddings of symbols of any shape (...,), to (..., E), with dropout in training."""
        return dropout(self.embedding(known(symbols, self.embedding)), self.rate, self.training)

    def gates(self, symbols: Tensor, bf16: bool = False) -> Tensor:
        """What embeddings and biases give the first layer's gates: (N,) to (N, 4H)."""
        embedded, cell = self.embed(symbols), self.stack[0]
        weight = cell.weight_ih[:, : embedded.shape[1]]
        return SharedLinear(weight, cell.bias_ih + cell.bias_hh, bf16)(embedded)

    def draw_masks(self, steps: int, batch: int) -> Tensor | None:
        """Dropout masks of every layer's output, (layers, steps, B, H); None if there is none."""
        if not self.training or self.rate == 0:
            return None
        shape = (len(self.cells), steps, batch, self.hidden)
        return dropout_mask(shape, self.rate, self.embedding.weight)

    def forward(
        self,
        gates: Tensor,
        context: Tensor,
        state: Hidden,
        cells: tuple[Cell, ...],
        masks: Tensor | None,
    ) -> tuple[Tensor, Hidden]:
        """One step.

        Args:
            gates: (n, 4H) of y_{t-1}, made by `gates`; state: the state before.
            context: c_{t-1}, (n, D), for cells of `kernels`; W_c c_{t-1}, (n, 4H), for those of
                `search_cells`.
            masks: (layers, n, H) dropout masks of this step, or None.

        Returns: The query (n, H), the top layer's output after dropout, and the new state.
        """
        below, new = context, []
        for layer, (cell, (h, c)) in enumerate(zip(cells, state, strict=True)):
            before = gates
            if layer:
                before = self.stack[layer].bias_ih + self.stack[layer].bias_hh
            h, c = cell(before, below, h, c)
            new.append((h, c))
            below = h if masks is None else h * masks[layer]
        return below, tuple(new)
