"""The Transformer, of the attention of torch.nn: step by step in search, all at once in training.

`Model.step` and `Model.update` keep the inputs of each layer for the symbols so far (`Prefix`), so
that a step computes the newest symbol alone.
"""

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
    """The sizes of a Transformer."""

    units: int  # units d of every state
    heads: int  # heads of each attention
    feedforward: int  # units of the feed-forward layers
    encoder_layers: int
    decoder_layers: int
    dropout: float  # dropout rate


@dataclass(frozen=True)
class SourceStates:
    """What a decoder attends to, with a row for each hypothesis."""

    values: Tensor  # (n, m, d) encoder states
    mask: Tensor  # (n, m) true at real positions


@dataclass(frozen=True)
class Source(SourceStates):
    """Encoded sources of a search."""

    layer: SearchLayer  # the output layer
    beam: int = 1  # hypotheses of each sentence

    def select(self, sentences: Tensor) -> Source:
        """Keep the given sentences, with all of their hypotheses."""
        hypotheses = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + hypotheses).flatten()
        return Source(
            values=self.values[rows], mask=self.mask[rows], layer=self.layer, beam=self.beam
        )


@dataclass(frozen=True)
class Prefix:
    """The state of hypotheses: what the symbols so far leave for later ones."""

    seen: tuple[Tensor, ...]  # for each layer (B, t, d), which later symbols attend to
    history: AttentionHistory  # the alignments so far

    @property
    def alignment(self) -> Tensor | None:
        return self.history.alignment

    def select(self, rows: Tensor) -> Prefix:
        seen = tuple(layer[rows] for layer in self.seen)
        return Prefix(seen, self.history.select(rows))


@dataclass(eq=False)
class LinearOutput(TokenDistribution):
    """p(y_t) = softmax(W z + b) of the decoder's state z."""

    layer: SearchLayer  # W and b
    state: Tensor  # (n, d) z

    def log_probs(self) -> Tensor:
        return self.layer.log_probs(self.state)

    def select(self, rows: Tensor) -> LinearOutput:
        return LinearOutput(self.layer, self.state[rows])


@dataclass(frozen=True)
class Next:
    """A step before its symbol is chosen."""

    layer: SearchLayer  # the output layer
    log_prior: Tensor  # (B, m) log of the alignment
    query: Tensor  # (B, d) the decoder's state
    seen: tuple[Tensor, ...]  # as in `Prefix`, with this step
    history: AttentionHistory  # the alignments before this step

    @property
    def output(self) -> LinearOutput:
        return LinearOutput(self.layer, self.query)

    def select(self, rows: Tensor) -> Next:
        return Next(
            layer=self.layer,
            log_prior=self.log_prior[rows],
            query=self.query[rows],
            seen=tuple(layer[rows] for layer in self.seen),
            history=self.history.select(rows),
        )


def with_positions(embedded: Tensor, first: int = 0) -> Tensor:
    """Scale embeddings (B, n, d) and add sinusoidal positions, counted from `first`.

    See Vaswani et al. (2017), section 3.5.
    """
    units = embedded.shape[2]
    positions = torch.arange(first, first + embedded.shape[1], device=embedded.device)
    exponents = torch.arange(0, units, 2, device=embedded.device) / units
    angles = positions[:, None] * torch.exp(-math.log(10_000.0) * exponents)
    waves = torch.stack([angles.sin(), angles.cos()], 2).flatten(1).to(embedded)
    positioned: Tensor = embedded * units**0.5 + waves
    return positioned


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return a mask (n, n), true where the symbol of a column comes after that of the row."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


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
    return nn.TransformerEncoder(
        layer,
        shape.encoder_layers,
        norm=nn.LayerNorm(shape.units),
        enable_nested_tensor=False,
    )


class DecoderLayer(nn.Module):
    """Attention to the symbols so far, attention to the source, and a feed-forward layer.

    Without `attends` there is no attention to the source.

    It computes the same as `nn.TransformerDecoderLayer` with `norm_first`. But that class does not
    return its attention weights, which are the alignment here, and computes a whole prefix anew at
    each step.
    """

    def __init__(self, shape: Shape, attends: bool = True) -> None:
        super().__init__()

        self.own = nn.MultiheadAttention(
            shape.units, shape.heads, dropout=shape.dropout, batch_first=True
        )
        self.cross = None
        if attends:
            self.cross = nn.MultiheadAttention(
                shape.units, shape.heads, dropout=shape.dropout, batch_first=True
            )
        self.between = nn.Sequential(
            nn.Linear(shape.units, shape.feedforward),
            nn.ReLU(),
            nn.Dropout(shape.dropout),
            nn.Linear(shape.feedforward, shape.units),
        )
        parts = 3 if attends else 2
        self.norms = nn.ModuleList(nn.LayerNorm(shape.units) for _ in range(parts))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, states: Tensor, seen: Tensor | None, source: SourceStates, causal: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute one layer.

        Args:
            states: (B, n, d) of the newest symbols.
            seen: (B, t, d) of earlier symbols, as this layer returned it for them, or None.
            source: the encoded sources.
            causal: (n, n) true where a symbol must not be seen, or None for a single symbol.

        Returns: the states (B, n, d); `seen` (B, t + n, d) for later symbols; and the alignment
            (B, n, m), the mean of the heads' weights, or None without attention to the source.
        """
        # Attention to the symbols so far.
        normed = self.norms[0](states)
        seen = normed if seen is None else torch.cat([seen, normed], 1)
        from_prefix, _ = self.own(normed, seen, seen, attn_mask=causal, need_weights=False)
        states = states + self.dropout(from_prefix)

        # Attention to the source.
        alignment = None
        if self.cross is not None:
            from_source, alignment = self.cross(
                self.norms[1](states), source.values, source.values, key_padding_mask=~source.mask
            )
            states = states + self.dropout(from_source)

        # Feed-forward layer.
        states = states + self.dropout(self.between(self.norms[-1](states)))
        return states, seen, alignment


class Transformer(Model):
    """'Attention is all you need' (Vaswani et al. 2017).

    It is the baseline of 'Amortized Context Vector Inference': layer norm before each part,
    sinusoidal positions. The alignment is the mean of the heads' weights in the last layer.
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
        embedded = self._embed(self.source(source), first=0)
        states = self.encoder(embedded, src_key_padding_mask=~mask)

        return Source(
            values=states.repeat_interleave(beam, 0),
            mask=mask.repeat_interleave(beam, 0),
            layer=SearchLayer(self.output.weight, self.output.bias, beam, bf16),
            beam=beam,
        )

    def start(self, memory: Source) -> Prefix:
        empty = memory.values[:, :0]
        return Prefix(tuple(empty for _ in self.layers), AttentionHistory())

    def step(self, memory: Source, state: Prefix, symbol: Tensor) -> Next:
        states = self._embed(self.target(symbol[:, None]), first=state.history.steps)

        seen: list[Tensor] = []
        for layer, seen_before in zip(self.layers, state.seen, strict=True):
            states, seen_now, alignment = layer(states, seen_before, memory, causal=None)
            seen.append(seen_now)

        # The loop leaves the alignment of the last layer.
        return Next(
            layer=memory.layer,
            log_prior=safe_log(alignment[:, 0]),
            query=self.norm(states)[:, 0],
            seen=tuple(seen),
            history=state.history,
        )

    def update(self, memory: Source, step: Next, symbol: Tensor) -> Prefix:
        return Prefix(step.seen, step.history.then(step.log_prior.exp()))

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        # Each symbol is predicted from those before it.
        previous = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        causal = causal_mask(target.shape[1], target.device)

        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            memory = self.encode(source, lengths)
            states = self._embed(self.target(previous), first=0)
            for layer in self.layers:
                states, _, _ = layer(states, None, memory, causal)
            logits = self.output(self.norm(states)).to(self.output.weight.dtype)

        log_probs = torch.log_softmax(logits, 2)
        return log_probs.gather(2, target[:, :, None]).squeeze(2)

    def _embed(self, embedded: Tensor, first: int) -> Tensor:
        """Add sinusoidal positions, counted from `first`, to scaled embeddings (B, n, d)."""
        states: Tensor = self.dropout(with_positions(embedded, first))
        return states
