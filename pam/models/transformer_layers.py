"""The layers of Transformers. A decoder keeps the keys and values that it has computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.models.dropout import Dropout
from pam.models.packing import optional_rows, rows_of

Seen = tuple[Tensor | None, ...]
"""For each layer the keys and values of earlier symbols (see `Attention.project`); None of none."""


def rows_of_seen(seen: Seen, rows: Tensor) -> Seen:
    """Keep the rows of the given hypotheses."""
    return tuple(optional_rows(layer, rows) for layer in seen)


@dataclass(frozen=True)
class Shape:
    """The sizes of a Transformer."""

    units: int  # units d of every state
    heads: int  # heads of each attention
    feedforward: int  # units of the feed-forward layers
    encoder_layers: int
    decoder_layers: int
    dropout: float  # dropout rate


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return a mask (n, n), false where the symbol of a column comes after that of the row."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def encoder_layers(shape: Shape) -> nn.TransformerEncoder:
    """Make an encoder's layers, with layer norm before each part and after the last layer."""
    layer = nn.TransformerEncoderLayer(
        shape.units,
        shape.heads,
        dim_feedforward=shape.feedforward,
        dropout=shape.dropout,
        batch_first=True,
        norm_first=True,
    )
    for name in ("dropout", "dropout1", "dropout2"):
        setattr(layer, name, Dropout(shape.dropout))

    return nn.TransformerEncoder(
        layer,
        shape.encoder_layers,
        norm=nn.LayerNorm(shape.units),
        enable_nested_tensor=False,
    )


@dataclass(frozen=True)
class SourceKeys:
    """Keys and values of sources, with a row for each sentence, whatever the size of its beam."""

    layers: tuple[Tensor | None, ...]  # of each layer; None where it has no attention to the source
    mask: Tensor  # (B, m) true at real positions

    def select(self, sentences: Tensor | slice) -> SourceKeys:
        """Keep the given sentences."""
        layers = tuple(optional_rows(layer, sentences) for layer in self.layers)
        return SourceKeys(layers, rows_of(self.mask, sentences))


class Attention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` in two parts, so that keys and values are projected only once.

    Its parameters have the same names.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.units, shape.heads, dropout=shape.dropout, batch_first=True)

    def project(self, states: Tensor) -> Tensor:
        """Compute keys and values of states (B, m, d): (B, heads, 2, m, d / heads)."""
        weight = self.in_proj_weight[self.embed_dim :]
        bias = self.in_proj_bias[self.embed_dim :]
        by_head = F.linear(states, weight, bias).unflatten(2, (2, self.num_heads, -1))
        keys_values: Tensor = by_head.permute(0, 3, 2, 1, 4).contiguous()
        return keys_values

    def read(self, states: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
        """Read the values at the positions that states attend to; arguments as of `attend`."""
        keys, values = keys_values.unbind(2)
        rate = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(
            self._queries(states, len(keys)), keys, values, attn_mask=mask, dropout_p=rate
        )
        return self._joined(heads, states)

    def attend(self, states: Tensor, keys_values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read values, and return also the weights.

        Args:
            states: (k B, n, d). The k rows of a sentence stand one after another.
            keys_values: (B, heads, 2, m, d / heads), as `project` returns them.
            mask: false where a position must not be attended to, (B, 1, 1, m) or (n, m).

        Returns: what is read, (k B, n, d); and the weights (B, heads, k n, m).
        """
        keys, values = keys_values.unbind(2)
        queries = self._queries(states, len(keys)) * self.head_dim**-0.5
        scores = queries @ keys.transpose(2, 3)
        weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), 3)

        heads = F.dropout(weights, self.dropout, self.training) @ values
        return self._joined(heads, states), weights

    def _queries(self, states: Tensor, sentences: int) -> Tensor:
        """Compute the queries (B, heads, k n, d / heads) of states (k B, n, d)."""
        weight = self.in_proj_weight[: self.embed_dim]
        bias = self.in_proj_bias[: self.embed_dim]
        queries = F.linear(states, weight, bias)
        return queries.view(sentences, -1, self.num_heads, self.head_dim).transpose(1, 2)

    def _joined(self, heads: Tensor, states: Tensor) -> Tensor:
        """Project what all heads read, (B, heads, k n, d / heads), for states (k B, n, d)."""
        read: Tensor = self.out_proj(heads.transpose(1, 2).reshape(states.shape))
        return read


class DecoderLayer(nn.Module):
    """Attention to the symbols so far, attention to the source, and a feed-forward layer.

    Without `attends` there is no attention to the source.

    It computes the same as `nn.TransformerDecoderLayer` with `norm_first`. But that class does not
    return its attention weights, which are the alignment here, and computes keys and values of the
    source and of a whole prefix anew at each step.
    """

    def __init__(self, shape: Shape, attends: bool = True) -> None:
        super().__init__()

        self.own = Attention(shape)
        self.cross = Attention(shape) if attends else None
        self.between = nn.Sequential(
            nn.Linear(shape.units, shape.feedforward),
            nn.ReLU(),
            Dropout(shape.dropout),
            nn.Linear(shape.feedforward, shape.units),
        )
        parts = 3 if attends else 2
        self.norms = nn.ModuleList(nn.LayerNorm(shape.units) for _ in range(parts))
        self.dropout = Dropout(shape.dropout)

    def source_keys(self, values: Tensor) -> Tensor | None:
        """Compute keys and values of encoder states (B, m, d); None without attention to them."""
        if self.cross is None:
            return None
        return self.cross.project(values)

    def forward(
        self,
        states: Tensor,
        seen: Tensor | None,
        source: Tensor | None,
        mask: Tensor,
        causal: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute one layer.

        Args:
            states: (k B, n, d) of the newest symbols of k hypotheses of each sentence.
            seen: keys and values of earlier symbols, as this layer returned them, or None.
            source: keys and values of the sources, as `source_keys` returns them.
            mask: (B, m) true at real positions of the sources.
            causal: (n, n) true where a symbol may be seen, or None for a single symbol.

        Returns: the states (k B, n, d); `seen` for later symbols; and the alignments of all heads
            (B, heads, k n, m), or None without attention to the source.
        """
        # Attention to the symbols so far.
        normed = self.norms[0](states)
        newest = self.own.project(normed)
        seen = newest if seen is None else torch.cat([seen, newest], 3)
        states = states + self.dropout(self.own.read(normed, seen, causal))

        # Attention to the source.
        alignments = None
        if self.cross is not None:
            assert source is not None
            normed = self.norms[1](states)
            from_source, alignments = self.cross.attend(normed, source, mask[:, None, None])
            states = states + self.dropout(from_source)

        # Feed-forward layer.
        states = states + self.dropout(self.between(self.norms[-1](states)))
        return states, seen, alignments


class DecoderLayers(nn.ModuleList):
    """The layers of a decoder; arguments as of `DecoderLayer`."""

    def __init__(self, shape: Shape, attends: bool = True) -> None:
        super().__init__(DecoderLayer(shape, attends) for _ in range(shape.decoder_layers))

    def __iter__(self) -> Iterator[DecoderLayer]:
        """Return the layers, typed as such."""
        return cast(Iterator[DecoderLayer], super().__iter__())

    @property
    def nothing_seen(self) -> Seen:
        """What is kept of no symbols."""
        return (None,) * len(self)

    def source_keys(self, values: Tensor, mask: Tensor) -> SourceKeys:
        """Compute keys and values of encoder states (B, m, d), real where `mask` (B, m) is true."""
        layers = tuple(layer.source_keys(values) for layer in self)
        return SourceKeys(layers, mask)

    def forward(
        self, states: Tensor, seen: Seen, source: SourceKeys, causal: Tensor | None = None
    ) -> tuple[Tensor, Seen, list[Tensor | None]]:
        """Run all layers; arguments and results as of a layer, with one of `seen` for each."""
        now_seen = []
        alignments = []
        for layer, before, keys in zip(self, seen, source.layers, strict=True):
            states, of_layer, alignment = layer(states, before, keys, source.mask, causal)
            now_seen.append(of_layer)
            alignments.append(alignment)

        return states, tuple(now_seen), alignments
