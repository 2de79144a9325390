"""The Transformer: step by step in search, all at once in training.

`Model.step` and `Model.update` keep the keys and values of the symbols so far (`Prefix`), so that a
step computes the newest symbol alone. Those of the source are computed once (`Source`).
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
from pam.models.outputs import TokenDistribution, smoothed_log_prob
from pam.models.packing import PackedTargets
from pam.models.transformer_layers import (
    DecoderLayers,
    Seen,
    Shape,
    SourceKeys,
    causal_mask,
    encoder_layers,
    rows_of_seen,
)


@dataclass(frozen=True)
class Source:
    """Encoded sources of a search."""

    keys: SourceKeys  # what the decoder's layers attend to
    layer: SearchLayer  # the output layer

    def select(self, sentences: Tensor) -> Source:
        """Keep the given sentences, with all of their hypotheses."""
        return Source(self.keys.select(sentences), self.layer)


@dataclass(frozen=True)
class Prefix:
    """The state of hypotheses: what the symbols so far leave for later ones."""

    seen: Seen  # what later symbols attend to
    history: AttentionHistory  # the alignments so far

    @property
    def alignment(self) -> Tensor | None:
        return self.history.alignment

    def select(self, rows: Tensor) -> Prefix:
        return Prefix(rows_of_seen(self.seen, rows), self.history.select(rows))


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
    seen: Seen  # as in `Prefix`, with this step
    history: AttentionHistory  # the alignments before this step

    @property
    def output(self) -> LinearOutput:
        return LinearOutput(self.layer, self.query)

    def select(self, rows: Tensor) -> Next:
        return Next(
            layer=self.layer,
            log_prior=self.log_prior[rows],
            query=self.query[rows],
            seen=rows_of_seen(self.seen, rows),
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
        self.layers = DecoderLayers(shape)
        self.norm = nn.LayerNorm(shape.units)
        self.output = nn.Linear(shape.units, target)
        self.feature_kinds = None
        if feature_kinds:
            self.feature_kinds = FeatureKinds(shape.units, source)

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1) -> Source:
        return Source(
            keys=self._source_keys(source, lengths),
            layer=SearchLayer(self.output.weight, self.output.bias, beam, self.compute.search_bf16),
        )

    def embedded_source(self, source: Tensor) -> Tensor:
        """Embed sources (B, m) with positions, (B, m, d)."""
        embedded = self.source(source)
        if self.feature_kinds is None:
            return self._embed(embedded, first=0)

        states: Tensor = self.dropout(self.feature_kinds(source, embedded))
        return states

    def start(self, memory: Source) -> Prefix:
        return Prefix(self.layers.nothing_seen, AttentionHistory())

    def step(self, memory: Source, state: Prefix, symbol: Tensor) -> Next:
        embedded = self._embed(self.target(symbol[:, None]), first=state.history.steps)
        states, seen, alignments = self.layers(embedded, state.seen, memory.keys)

        # The hypotheses of a sentence stand one after another.
        alignment = alignments[-1].mean(1).flatten(0, 1)
        return Next(
            layer=memory.layer,
            log_prior=safe_log(alignment),
            query=self.norm(states)[:, 0],
            seen=seen,
            history=state.history,
        )

    def update(self, memory: Source, step: Next, symbol: Tensor) -> Prefix:
        return Prefix(step.seen, step.history.then(step.log_prior.exp()))

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        packed, states = self._states_of_tokens(source, lengths, target)
        return packed.unpack(self._log_prob(packed, states))

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return log p(y_t | y_<t, x), (B, T), smoothed; see `smoothed_log_prob`."""
        packed, states = self._states_of_tokens(source, lengths, target)
        log_prob = self._log_prob(packed, states)
        if self.label_smoothing:
            log_prob = smoothed_log_prob(
                share=self.label_smoothing,
                log_prob=log_prob,
                symbols=packed.symbols,
                z=states,
                weight=self.output.weight,
                bias=self.output.bias,
            )
        return packed.unpack(log_prob)

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

    def _states_of_tokens(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[PackedTargets, Tensor]:
        """Pack the targets, and return the decoder's state (N, d) of each of their tokens.

        Logits are computed of tokens alone, and not of padding.
        """
        packed = PackedTargets.of(target, drop_ended=not self.compute.static)
        real_steps = packed.target[:, : packed.steps]
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            states, _ = self._run(source[packed.order], lengths[packed.order], real_steps)
        return packed, packed.pack(states.transpose(0, 1)).to(self.output.weight.dtype)

    def _log_prob(self, packed: PackedTargets, states: Tensor) -> Tensor:
        """Return log p of the packed tokens, (N,), given their states (N, d)."""
        # The mixture has one component, and its hidden layer is the state itself.
        log_weights = states.new_zeros(len(states), 1)
        mixture = Mixture(
            symbols=packed.symbols,
            kept=torch.ones_like(log_weights, dtype=torch.bool),
            sentences=packed.sentences,
            compute=self.compute,
            hidden_layer=IDENTITY,
        )
        return mixture_log_likelihood(
            views=None,
            query=states,
            weights=log_weights,
            weight=self.output.weight,
            bias=self.output.bias,
            mixture=mixture,
        )

    def _run(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Run all steps of given targets at once.

        Returns: the decoder's states (B, T, d), and for each layer the alignments of its heads,
            (B, heads, T, m).
        """
        # Each symbol is predicted from those before it.
        previous = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        causal = causal_mask(target.shape[1], target.device)

        source_keys = self._source_keys(source, lengths)
        embedded = self._embed(self.target(previous), first=0)
        states, _, alignments = self.layers(embedded, self.layers.nothing_seen, source_keys, causal)
        return self.norm(states), alignments

    def _source_keys(self, source: Tensor, lengths: Tensor) -> SourceKeys:
        """Encode sources (B, m) of `lengths` (B,), as the decoder's layers attend to them."""
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        states = self.encoder(self.embedded_source(source), src_key_padding_mask=~mask)
        keys: SourceKeys = self.layers.source_keys(states, mask)
        return keys

    def _embed(self, embedded: Tensor, first: int) -> Tensor:
        """Add sinusoidal positions, counted from `first`, to scaled embeddings (B, n, d)."""
        states: Tensor = self.dropout(with_positions(embedded, first))
        return states
