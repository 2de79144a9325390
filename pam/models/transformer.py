"""The Transformer, of the attention of torch.nn: step by step in search, all at once in training.

`Model.step` and `Model.update` keep the inputs of each layer for the symbols so far (`Prefix`), so
that a step computes the newest symbol alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, SPECIALS, Vocabulary
from pam.models.dropout import Dropout
from pam.models.interfaces import AttentionHistory
from pam.models.kernels.hidden_layers import IDENTITY
from pam.models.kernels.mixture import Mixture, mixture_log_likelihood
from pam.models.kernels.search_layer import SearchLayer
from pam.models.logspace import safe_log
from pam.models.model import Model
from pam.models.outputs import TokenDistribution
from pam.models.packing import PackedTargets


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


def position_waves(positions: Tensor, units: int) -> Tensor:
    """Return sinusoidal embeddings of positions (..., n): (..., n, d).

    See Vaswani et al. (2017), section 3.5.
    """
    exponents = torch.arange(0, units, 2, device=positions.device) / units
    angles = positions[..., None] * torch.exp(-math.log(10_000.0) * exponents)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def with_positions(embedded: Tensor, first: int = 0) -> Tensor:
    """Scale embeddings (B, n, d) and add sinusoidal positions, counted from `first`."""
    units = embedded.shape[2]
    positions = torch.arange(first, first + embedded.shape[1], device=embedded.device)
    positioned: Tensor = embedded * units**0.5 + position_waves(positions, units).to(embedded)
    return positioned


class FeatureKinds(nn.Module):
    """Sources of inflection as a set of features and a string of characters.

    An embedding says whether a symbol is a feature or a character, and characters alone have
    positions, counted from the first of them (Wu, Cotterell & Hulden 2021, section 3).
    """

    is_feature: Tensor

    def __init__(self, units: int, vocabulary: int) -> None:
        super().__init__()
        self.kinds = nn.Embedding(2, units)
        nn.init.normal_(self.kinds.weight, std=units**-0.5)

        # The vocabulary belongs to a model's folder, so that its weights need not hold this.
        no_feature = torch.zeros(vocabulary, dtype=torch.bool)
        self.register_buffer("is_feature", no_feature, persistent=False)

    def match(self, source: Vocabulary, target: Vocabulary) -> None:
        """Look up which source symbols are features: those of several characters."""
        for number, symbol in enumerate(source.symbols, len(SPECIALS)):
            self.is_feature[number] = len(symbol) > 1

    def forward(self, symbols: Tensor, embedded: Tensor) -> Tensor:
        """Scale embeddings (B, m, d) of symbols (B, m), and add kinds and positions."""
        is_feature = self.is_feature[symbols]
        units = embedded.shape[2]
        scaled = (embedded + self.kinds(is_feature.long())) * units**0.5

        positions = (~is_feature).cumsum(1) - 1
        waves = position_waves(positions, units).masked_fill(is_feature[:, :, None], 0.0)
        positioned: Tensor = scaled + waves.to(embedded)
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
    for name in ("dropout", "dropout1", "dropout2"):
        setattr(layer, name, Dropout(shape.dropout))

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
            Dropout(shape.dropout),
            nn.Linear(shape.feedforward, shape.units),
        )
        parts = 3 if attends else 2
        self.norms = nn.ModuleList(nn.LayerNorm(shape.units) for _ in range(parts))
        self.dropout = Dropout(shape.dropout)

    def forward(
        self, states: Tensor, seen: Tensor | None, source: SourceStates, causal: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute one layer.

        Args:
            states: (B, n, d) of the newest symbols.
            seen: (B, t, d) of earlier symbols, as this layer returned it for them, or None.
            source: the encoded sources.
            causal: (n, n) true where a symbol must not be seen, or None for a single symbol.

        Returns: the states (B, n, d); `seen` (B, t + n, d) for later symbols; and the alignments
            of all heads (B, heads, n, m), or None without attention to the source.
        """
        # Attention to the symbols so far.
        normed = self.norms[0](states)
        seen = normed if seen is None else torch.cat([seen, normed], 1)
        from_prefix, _ = self.own(normed, seen, seen, attn_mask=causal, need_weights=False)
        states = states + self.dropout(from_prefix)

        # Attention to the source.
        alignments = None
        if self.cross is not None:
            from_source, alignments = self.cross(
                self.norms[1](states),
                source.values,
                source.values,
                key_padding_mask=~source.mask,
                average_attn_weights=False,
            )
            states = states + self.dropout(from_source)

        # Feed-forward layer.
        states = states + self.dropout(self.between(self.norms[-1](states)))
        return states, seen, alignments


class Transformer(Model):
    """'Attention is all you need' (Vaswani et al. 2017).

    It is the baseline of 'Amortized Context Vector Inference': layer norm before each part,
    sinusoidal positions. The alignment is the mean of the heads' weights in the last layer.
    """

    def __init__(
        self,
        shape: Shape,
        source: int,
        target: int,
        feature_kinds: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()

        self.shape = shape
        self.label_smoothing = label_smoothing
        self.source = nn.Embedding(source, shape.units)
        self.target = nn.Embedding(target, shape.units)
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=shape.units**-0.5)
        self.dropout = Dropout(shape.dropout)

        self.encoder = encoder_layers(shape)
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.decoder_layers))
        self.norm = nn.LayerNorm(shape.units)
        self.output = nn.Linear(shape.units, target)
        self.feature_kinds = None
        if feature_kinds:
            self.feature_kinds = FeatureKinds(shape.units, source)

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1) -> Source:
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        states = self.encoder(self.embedded_source(source), src_key_padding_mask=~mask)

        return Source(
            values=states.repeat_interleave(beam, 0),
            mask=mask.repeat_interleave(beam, 0),
            layer=SearchLayer(self.output.weight, self.output.bias, beam, self.compute.search_bf16),
            beam=beam,
        )

    def embedded_source(self, source: Tensor) -> Tensor:
        """Embed sources (B, m) with positions, (B, m, d)."""
        embedded = self.source(source)
        if self.feature_kinds is None:
            return self._embed(embedded, first=0)

        states: Tensor = self.dropout(self.feature_kinds(source, embedded))
        return states

    def start(self, memory: Source) -> Prefix:
        empty = memory.values[:, :0]
        return Prefix(tuple(empty for _ in self.layers), AttentionHistory())

    def step(self, memory: Source, state: Prefix, symbol: Tensor) -> Next:
        states = self._embed(self.target(symbol[:, None]), first=state.history.steps)

        seen: list[Tensor] = []
        for layer, seen_before in zip(self.layers, state.seen, strict=True):
            states, seen_now, alignments = layer(states, seen_before, memory, causal=None)
            seen.append(seen_now)

        # The loop leaves the alignments of the last layer.
        return Next(
            layer=memory.layer,
            log_prior=safe_log(alignments[:, :, 0].mean(1)),
            query=self.norm(states)[:, 0],
            seen=tuple(seen),
            history=state.history,
        )

    def update(self, memory: Source, step: Next, symbol: Tensor) -> Prefix:
        return Prefix(step.seen, step.history.then(step.log_prior.exp()))

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        # Only the logits of tokens are computed, and not those of padding.
        packed = PackedTargets.of(target, drop_ended=not self.compute.static)
        real_steps = packed.target[:, : packed.steps]
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            states, _ = self._run(source[packed.order], lengths[packed.order], real_steps)
        query = packed.pack(states.transpose(0, 1)).to(self.output.weight.dtype)

        # The mixture has one component, and its hidden layer is the state itself.
        log_weights = query.new_zeros(len(query), 1)
        mixture = Mixture(
            symbols=packed.symbols,
            kept=torch.ones_like(log_weights, dtype=torch.bool),
            sentences=packed.sentences,
            compute=self.compute,
            hidden_layer=IDENTITY,
        )
        log_likelihood = mixture_log_likelihood(
            views=None,
            query=query,
            weights=log_weights,
            weight=self.output.weight,
            bias=self.output.bias,
            mixture=mixture,
        )
        return packed.unpack(log_likelihood)

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return log p(y_t | y_<t, x), (B, T), smoothed (Szegedy et al. 2016, section 7).

        A share of it is the mean of log p over all symbols.
        """
        share = self.label_smoothing
        if share == 0:
            return self.log_likelihood(source, lengths, target)

        log_probs = self._log_probs(source, lengths, target)
        log_likelihood = log_probs.gather(2, target[:, :, None]).squeeze(2)
        return (1 - share) * log_likelihood + share * log_probs.mean(2)

    @torch.no_grad()
    def align(
        self, source: Tensor, lengths: Tensor, target: Tensor, smooth: bool = False
    ) -> Tensor:
        _, alignments = self._run(source, lengths, target)
        return alignments[-1].mean(1)

    @torch.no_grad()
    def head_alignments(self, source: Tensor, lengths: Tensor, target: Tensor) -> dict[str, Tensor]:
        _, alignments = self._run(source, lengths, target)
        return {
            f"layer {layer}, head {head}": of_head
            for layer, of_layer in enumerate(alignments, 1)
            for head, of_head in enumerate(of_layer.unbind(1), 1)
        }

    def _log_probs(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return log p(y | y_<t, x) of all symbols, (B, T, V)."""
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            states, _ = self._run(source, lengths, target)
            logits = self.output(states).to(self.output.weight.dtype)

        return torch.log_softmax(logits, 2)

    def _run(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Run all steps of given targets at once.

        Returns: the decoder's states (B, T, d), and for each layer the alignments of its heads,
            (B, heads, T, m).
        """
        # Each symbol is predicted from those before it.
        previous = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        causal = causal_mask(target.shape[1], target.device)

        memory = self.encode(source, lengths)
        states = self._embed(self.target(previous), first=0)
        alignments = []
        for layer in self.layers:
            states, _, of_layer = layer(states, None, memory, causal)
            alignments.append(of_layer)

        return self.norm(states), alignments

    def _embed(self, embedded: Tensor, first: int) -> Tensor:
        """Add sinusoidal positions, counted from `first`, to scaled embeddings (B, n, d)."""
        states: Tensor = self.dropout(with_positions(embedded, first))
        return states
