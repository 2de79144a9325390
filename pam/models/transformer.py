"""The Transformer of torch.nn's attention, step by step and all at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS
from pam.models.interfaces import AttentionHistory
from pam.models.logspace import safe_log
from pam.models.model import Model
from pam.models.outputs import TokenDistribution
from pam.models.search_layer import SearchLayer


@dataclass(frozen=True)
class Shape:
    """Sizes: units d of every state, heads, units of the feed-forward layer, layers, dropout."""

    units: int
    heads: int
    feedforward: int
    encoder_layers: int
    decoder_layers: int
    dropout: float


@dataclass(frozen=True)
class SourceStates:
    """What a decoder attends to, a row for each hypothesis: values (n, m, d), and mask (n, m), true
    at real positions.
    """

    values: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Source(SourceStates):
    """Encoded sources, the output layer, and how many hypotheses a sentence has."""

    layer: SearchLayer
    beam: int = 1

    def select(self, sentences: Tensor) -> Source:
        each = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + each).flatten()
        return Source(self.values[rows], self.mask[rows], self.layer, self.beam)


@dataclass(frozen=True)
class Prefix:
    """What hypotheses carry."""

    seen: tuple[Tensor, ...]  # per layer (B, t, d), what later symbols attend to
    history: AttentionHistory  # what was attended so far

    @property
    def alignment(self) -> Tensor | None:
        return self.history.alignment

    def select(self, rows: Tensor) -> Prefix:
        return Prefix(tuple(layer[rows] for layer in self.seen), self.history.select(rows))


@dataclass(eq=False)
class LinearOutput(TokenDistribution):
    """p(y_t) = softmax(W z + b) of the decoder's last state z (n, d)."""

    layer: SearchLayer
    state: Tensor

    def log_probs(self) -> Tensor:
        return self.layer.log_probs(self.state)

    def select(self, rows: Tensor) -> LinearOutput:
        return LinearOutput(self.layer, self.state[rows])


@dataclass(frozen=True)
class Next:
    """A step: output layer, log of the alignment (B, m), last state (B, d), and the prefix."""

    layer: SearchLayer
    log_prior: Tensor
    query: Tensor
    seen: tuple[Tensor, ...]
    history: AttentionHistory

    @property
    def output(self) -> LinearOutput:
        return LinearOutput(self.layer, self.query)

    def select(self, rows: Tensor) -> Next:
        seen = tuple(layer[rows] for layer in self.seen)
        return Next(
            self.layer, self.log_prior[rows], self.query[rows], seen, self.history.select(rows)
        )


def with_positions(embedded: Tensor, first: int = 0) -> Tensor:
    """Scale embeddings (B, n, d) and add sinusoids of their positions, the first of which is
    `first` (Vaswani et al. 2017, section 3.5).
    """
    units = embedded.shape[2]
    positions = torch.arange(first, first + embedded.shape[1], device=embedded.device)
    pairs = torch.arange(0, units, 2, device=embedded.device) / units
    angles = positions[:, None] * torch.exp(-math.log(10_000.0) * pairs)
    waves = torch.stack([angles.sin(), angles.cos()], 2).flatten(1).to(embedded)
    return embedded * units**0.5 + waves


def causal_mask(length: int, device: torch.device) -> Tensor:
    """(n, n) true where the symbol of a row must not see that of a column, which comes later."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


def encoder_layers(shape: Shape) -> nn.TransformerEncoder:
    """The layers of an encoder, with layer norm before each part and after the last one."""
    layer = nn.TransformerEncoderLayer(
        shape.units,
        shape.heads,
        shape.feedforward,
        shape.dropout,
        batch_first=True,
        norm_first=True,
    )
    return nn.TransformerEncoder(
        layer, shape.encoder_layers, nn.LayerNorm(shape.units), enable_nested_tensor=False
    )


class DecoderLayer(nn.Module):
    """Attention to the symbols so far, to the source, and a feed-forward layer.

    As `nn.TransformerDecoderLayer` with `norm_first`, whose parts it is made of; that one keeps its
    weights to itself, which are the alignment here, and computes all of a prefix anew.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        attention = shape.units, shape.heads, shape.dropout
        self.own = nn.MultiheadAttention(*attention, batch_first=True)
        self.cross = nn.MultiheadAttention(*attention, batch_first=True)
        self.between = nn.Sequential(
            nn.Linear(shape.units, shape.feedforward),
            nn.ReLU(),
            nn.Dropout(shape.dropout),
            nn.Linear(shape.feedforward, shape.units),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(shape.units) for _ in range(3))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, states: Tensor, seen: Tensor | None, source: SourceStates, causal: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One layer.

        Args:
            states: (B, n, d) of the newest symbols; seen: (B, t, d) what this layer gave before, or
                None.
            causal: (n, n) true where a symbol must not be seen, or None for a single one.

        Returns: The states, what later symbols attend to, and the alignment (B, n, m), the mean of
            the heads'.
        """
        inner = self.norms[0](states)
        seen = inner if seen is None else torch.cat([seen, inner], 1)
        own, _ = self.own(inner, seen, seen, attn_mask=causal, need_weights=False)
        states = states + self.dropout(own)
        found, weights = self.cross(
            self.norms[1](states), source.values, source.values, key_padding_mask=~source.mask
        )
        states = states + self.dropout(found)
        return states + self.dropout(self.between(self.norms[2](states))), seen, weights


class Transformer(Model):
    """'Attention is all you need' (Vaswani et al. 2017), as 'Amortized Context Vector Inference'
    compares with it: layer norm before each part, sinusoidal positions. The alignment is the mean
    of the heads' weights in the last layer.
    """

    def __init__(self, shape: Shape, source: int, target: int) -> None:
        super().__init__()
        self.shape = shape
        self.source = nn.Embedding(source, shape.units)
        self.target = nn.Embedding(target, shape.units)
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=shape.units**-0.5)
        self.dropout = nn.Dropout(shape.dropout)
        self.encoder = encoder_layers(shape)
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.decoder_layers))
        self.norm = nn.LayerNorm(shape.units)
        self.output = nn.Linear(shape.units, target)

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Source:
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        states = self.encoder(self._embed(self.source(source), 0), src_key_padding_mask=~mask)
        layer = SearchLayer(self.output.weight, self.output.bias, beam, bf16)
        return Source(
            states.repeat_interleave(beam, 0), mask.repeat_interleave(beam, 0), layer, beam
        )

    def start(self, memory: Source) -> Prefix:
        empty = memory.values[:, :0]
        return Prefix(tuple(empty for _ in self.layers), AttentionHistory())

    def step(self, memory: Source, state: Prefix, symbol: Tensor) -> Next:
        states = self._embed(self.target(symbol[:, None]), state.history.steps)
        seen, weights = [], states
        for layer, before in zip(self.layers, state.seen, strict=True):
            states, known, weights = layer(states, before, memory, None)
            seen.append(known)
        query = self.norm(states)[:, 0]
        return Next(memory.layer, safe_log(weights[:, 0]), query, tuple(seen), state.history)

    def update(self, memory: Source, step: Next, symbol: Tensor) -> Prefix:
        return Prefix(step.seen, step.history.then(step.log_prior.exp()))

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        before = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        causal = causal_mask(target.shape[1], target.device)
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            memory, states = self.encode(source, lengths), self._embed(self.target(before), 0)
            for layer in self.layers:
                states, _, _ = layer(states, None, memory, causal)
            logits = self.output(self.norm(states)).to(self.output.weight.dtype)
        return torch.log_softmax(logits, 2).gather(2, target[:, :, None]).squeeze(2)

    def _embed(self, embedded: Tensor, first: int) -> Tensor:
        """Embeddings (B, n, d) of symbols from position `first` on, with their positions."""
        states: Tensor = self.dropout(with_positions(embedded, first))
        return states
