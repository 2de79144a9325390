"""LSTMs: the encoder and the decoder's layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pam.data.vocabulary import UNK
from pam.models.dropout import dropout, dropout_mask
from pam.models.interfaces import Cell, Hidden
from pam.models.kernels.compute import Part
from pam.models.kernels.linear import SearchLinear, SharedLinear
from pam.models.kernels.lstm import LSTMCell
from pam.models.kernels.products import large_products


def replace_unknown(symbols: Tensor, embedding: nn.Embedding) -> Tensor:
    """Replace symbols of any shape that are beyond the vocabulary by `UNK`.

    These are copied from the source, and have no embedding.
    """
    return symbols.masked_fill(symbols >= embedding.num_embeddings, UNK)


class Embedding(nn.Embedding):
    """Embeddings of symbols; those beyond the vocabulary, copied from the source, are unknown."""

    def forward(self, symbols: Tensor) -> Tensor:
        return super().forward(replace_unknown(symbols, self))


class _Mirrored(torch.autograd.Function):
    """The rows of (m, B, .) in an order that is its own inverse, hence its own gradient.

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
    """Make the LSTMs of one direction, a layer each.

    The first reads inputs of `size` units; the others read the `width` units that the layer below
    has in all of its directions.
    """
    inputs = [size] + [width] * (layers - 1)
    return nn.ModuleList(nn.LSTM(input_size, hidden) for input_size in inputs)


def run_lstms(
    forwards: nn.ModuleList | None,
    backwards: nn.ModuleList | None,
    states: Tensor,
    lengths: Tensor,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Run recurrent layers over a batch, in both directions or in one.

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
    # Reverses each sentence in place and leaves padding where it is; its own inverse.
    positions = torch.arange(len(states), device=states.device)[:, None]
    mirror = torch.where(positions < lengths, lengths - 1 - positions, positions)
    columns = torch.arange(states.shape[1], device=states.device)

    final = states
    for layer in range(len(forwards or backwards or ())):
        outputs = []
        ends = []  # (B, H) of each direction
        if forwards is not None:
            ahead, _ = forwards[layer](states)
            outputs.append(ahead)
            ends.append(ahead[lengths - 1, columns])
        if backwards is not None:
            reverse, _ = backwards[layer](_Mirrored.apply(states, mirror, columns))
            outputs.append(_Mirrored.apply(reverse, mirror, columns))
            ends.append(reverse[lengths - 1, columns])

        final = torch.cat(ends, -1)
        states = dropout(torch.cat(outputs, -1), rate, training=rate > 0)

    return states.transpose(0, 1).contiguous(), final


class SearchCell:
    """An `LSTMCell` for search: nothing is kept for a gradient.

    Args:
        wx: (4H, X), or None: the layer's input comes multiplied with it, (n, 4H).
        wh: (4H, H).
    """

    def __init__(self, wx: Tensor | None, wh: Tensor) -> None:
        self.wx: Tensor | None = None
        if wx is not None:
            self.wx = wx.detach().t()
        self.wh = wh.detach().t()

    @large_products
    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return new h and c, (n, H) each; arguments as of `LSTMCell`."""
        gates = before + x if self.wx is None else torch.addmm(before, x, self.wx)

        i, f, g, o = gates.addmm_(h, self.wh).chunk(4, dim=1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(c), c


class Encoder(nn.Module):
    """The encoder of source symbols, or of vectors such as those of a clip's frames.

    Its states h_a are those of the forward and of the backward LSTM, concatenated.

    Args:
        vocabulary: number of source symbols.
        embedding: units of an embedding.
        hidden: LSTM units of one direction.
        layers: number of layers in the stack.
        rate: dropout rate, on embeddings and on each layer's output.
        reads: `both` directions, or one of them alone; `backward` is the reversed source of
            Sutskever et al. (2014), with positions counted as they stand in the text.
        vectors: units of each vector, where sources are vectors: a linear layer takes the place of
            embeddings; or 0.
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
        self.embedding: nn.Module
        if vectors:
            self.embedding = nn.Linear(vectors, embedding)
        else:
            self.embedding = Embedding(vocabulary, embedding)

        width = hidden
        if reads == "both":
            width = 2 * hidden
        self.forwards = None
        if reads != "backward":
            self.forwards = lstms(embedding, hidden, layers, width)
        self.backwards = None
        if reads != "forward":
            self.backwards = lstms(embedding, hidden, layers, width)

        self.rate = rate

    def embed(self, source: Tensor) -> Tensor:
        """Embed symbols (...,) or vectors (..., units) as (..., E), with dropout in training."""
        return dropout(self.embedding(source), self.rate, self.training)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode symbols (B, m) or vectors (B, m, units), padded at the end, of `lengths` (B,).

        Returns: The states (B, m, D) and the final states (B, D); see `run_lstms`.
        """
        rate = 0.0
        if self.training:
            rate = self.rate

        return run_lstms(
            forwards=self.forwards,
            backwards=self.backwards,
            states=self.embed(source.transpose(0, 1)),
            lengths=lengths,
            rate=rate,
        )


class Decoder(Part):
    """s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}]) (Shankar & Sarawagi 2019, equations 9, 12).

    It is a stack of LSTM layers, fed with symbol and context. The share of embeddings in the gates
    of the first layer depends on no other step, so it is computed for many symbols at once
    (`gates`).

    Args:
        vocabulary: number of target symbols.
        embedding: units of an embedding.
        context: units D of the context c_{t-1}.
        hidden: LSTM units H.
        layers: number of layers in the stack.
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
        self.bridge = None
        if final:
            self.bridge = nn.Linear(final, 2 * layers * hidden)

        self.hidden = hidden
        self.rate = rate

    @property
    def stack(self) -> list[nn.LSTMCell]:
        """The layers, from the lowest up."""
        return [cell for cell in self.cells if isinstance(cell, nn.LSTMCell)]

    def start(self, final: Tensor) -> Hidden:
        """Make the first state from the encoder's final states (B, final).

        h is tanh of a linear layer and c is linear; without that layer both are zeros.
        """
        if self.bridge is None:
            zeros = final.new_zeros(len(final), self.hidden)
            return tuple((zeros, zeros) for _ in self.cells)

        parts = self.bridge(final).chunk(2 * len(self.cells), dim=1)
        return tuple((torch.tanh(h), c) for h, c in zip(parts[::2], parts[1::2], strict=True))

    @property
    def of_context(self) -> Tensor:
        """W_c, (4H, D), the weight of the context in the first layer's gates."""
        return self.stack[0].weight_ih[:, self.embedding.embedding_dim :]

    def kernels(self) -> tuple[Cell, ...]:
        """Make the layers for given targets; the first one's input is the context c (n, D)."""
        inputs = [self.of_context, *(cell.weight_ih for cell in self.stack[1:])]
        pairs = zip(inputs, self.stack, strict=True)
        bf16 = self.compute.bf16
        return tuple(LSTMCell(weight, cell.weight_hh, bf16) for weight, cell in pairs)

    def search_cells(self) -> tuple[Cell, ...]:
        """Make the layers for search; the first one's input is W_c c (n, 4H)."""
        inputs = [None, *(cell.weight_ih for cell in self.stack[1:])]
        pairs = zip(inputs, self.stack, strict=True)
        return tuple(SearchCell(weight, cell.weight_hh) for weight, cell in pairs)

    def search_gates(self, rows: int) -> Callable[[Tensor], Tensor]:
        """Make `gates` for the steps of a search, which have `rows` rows each.

        Steps of few rows compute the gates of the different symbols that they have. Steps of many
        rows look them up among those of the whole vocabulary.
        """
        cell = self.stack[0]
        weight = cell.weight_ih[:, : self.embedding.embedding_dim]
        linear = SearchLinear(weight, cell.bias_ih + cell.bias_hh)

        def of_different(symbols: Tensor) -> Tensor:
            symbols = replace_unknown(symbols, self.embedding)
            different, index = symbols.unique(return_inverse=True)
            return linear(self.embedding(different)).index_select(0, index)

        # The whole vocabulary pays where steps have more rows than it has symbols.
        if rows < self.embedding.num_embeddings:
            return of_different

        of_vocabulary = linear(self.embedding.weight.detach())

        def looked_up(symbols: Tensor) -> Tensor:
            return of_vocabulary.index_select(0, replace_unknown(symbols, self.embedding))

        return looked_up

    def embed(self, symbols: Tensor) -> Tensor:
        """Embed symbols of any shape (...,) as (..., E), with dropout in training."""
        embedded = self.embedding(replace_unknown(symbols, self.embedding))
        return dropout(embedded, self.rate, self.training)

    def gates(self, symbols: Tensor) -> Tensor:
        """Compute the share of symbols and biases in the first layer's gates: (N,) to (N, 4H)."""
        cell = self.stack[0]
        embedded = self.embed(symbols)
        weight = cell.weight_ih[:, : embedded.shape[1]]

        gates = SharedLinear(weight, cell.bias_ih + cell.bias_hh, self.compute.bf16)
        return gates(embedded)

    def draw_masks(self, steps: int, batch: int) -> Tensor | None:
        """Draw dropout masks of every layer's output, (layers, steps, B, H), or None without."""
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
        """Take one step.

        Args:
            gates: (n, 4H) the share of y_{t-1}, made by `gates`.
            context: c_{t-1}, (n, D), for cells of `kernels`; W_c c_{t-1}, (n, 4H), for cells of
                `search_cells`.
            state: the state before.
            cells: the layers, made by `kernels` or `search_cells`.
            masks: (layers, n, H) dropout masks of this step, or None.

        Returns: The query (n, H), the top layer's output after dropout, and the new state.
        """
        layer_input = context
        new_state = []
        for layer, (cell, (h, c)) in enumerate(zip(cells, state, strict=True)):
            # The biases of the lowest layer are in `gates` already.
            before = gates
            if layer:
                before = self.stack[layer].bias_ih + self.stack[layer].bias_hh
            h, c = cell(before, layer_input, h, c)
            new_state.append((h, c))

            layer_input = h
            if masks is not None:
                layer_input = h * masks[layer]

        return layer_input, tuple(new_state)
