"""A Transformer with an alignment head: posterior attention without a recurrent network.

The decoder of a Transformer gives a query s_t of the symbols before y_t. It depends on y_{<t} and x
alone, not on where the model looked, so that training computes all queries and scores of a target
at once:

    s_1, ..., s_T = Decoder(y_0, ..., y_{T-1}; x),        e_t(a) = score(s_t, h_a).

One more attention to the source, of a single head, is the alignment. What runs over time is a scan
of m numbers a step, the coupling and Bayes' rule (Shankar & Sarawagi 2019, equations 11 to 13):

    prior_t(a) = coupling(e_t, postr_{t-1})(a),
    p(y_t | y_<t, x) = sum_a prior_t(a) p(y_t | s_t, h_a),
    postr_t(a) = prior_t(a) p(y_t | s_t, h_a) / p(y_t | y_<t, x).

What a position adds joins the residual state before a layer norm, as everywhere in a Transformer:

    p(y | s_t, h_a) = softmax(W_o norm(s_t + W_x h_a) + b_o).

With input feeding, W c_{t-1} is added to the embedding of y_{t-1}. Then queries wait for the
alignment, and the decoder takes one step after another in training too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from pam.models.attention_model import AttentionModel, Query, State, Unrolled
from pam.models.dropout import Dropout
from pam.models.interfaces import AttentionHistory, Memory
from pam.models.lstm import Embedding, replace_unknown
from pam.models.packing import PackedTargets
from pam.models.transformer import FeatureKinds, with_positions
from pam.models.transformer_layers import (
    DecoderLayers,
    Seen,
    Shape,
    SourceKeys,
    causal_mask,
    encoder_layers,
)


class PositionedSymbols(nn.Module):
    """Embeddings of symbols with sinusoidal positions, and dropout."""

    def __init__(self, shape: Shape, vocabulary: int, feature_kinds: bool = False) -> None:
        super().__init__()
        self.symbols = Embedding(vocabulary, shape.units)
        nn.init.normal_(self.symbols.weight, std=shape.units**-0.5)
        self.dropout = Dropout(shape.dropout)
        self.feature_kinds = None
        if feature_kinds:
            self.feature_kinds = FeatureKinds(shape.units, vocabulary)

    def forward(self, symbols: Tensor, first: int = 0, added: Tensor | None = None) -> Tensor:
        """Embed symbols (B, n) at positions from `first` on, (B, n, d).

        `added` (B, n, d), if given, is added to the embeddings.
        """
        embedded = self.symbols(symbols)
        if self.feature_kinds is None:
            embedded = with_positions(embedded, first)
        else:
            embedded = self.feature_kinds(replace_unknown(symbols, self.symbols), embedded)
        if added is not None:
            embedded = embedded + added
        states: Tensor = self.dropout(embedded)
        return states


class AlignedEncoder(nn.Module):
    """A Transformer's encoder."""

    def __init__(self, shape: Shape, vocabulary: int, feature_kinds: bool = False) -> None:
        super().__init__()
        self.embed = PositionedSymbols(shape, vocabulary, feature_kinds)
        self.layers = encoder_layers(shape)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_a (B, m, d) of sources (B, m), and the mask (B, m) of real positions."""
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        values = self.layers(self.embed(source), src_key_padding_mask=~mask)
        return values, mask


class AlignedDecoder(nn.Module):
    """A Transformer's decoder up to its last state, the query s_t of the alignment head.

    Args:
        feeds: whether a context is fed to it.
        attends: whether its layers attend to the source; else s_t depends on y_{<t} alone, and the
            head is the only way from the source to the output.
    """

    def __init__(self, shape: Shape, vocabulary: int, feeds: bool, attends: bool) -> None:
        super().__init__()
        self.embed = PositionedSymbols(shape, vocabulary)
        self.layers = DecoderLayers(shape, attends)
        self.norm = nn.LayerNorm(shape.units)
        self.of_context = nn.Linear(shape.units, shape.units, bias=False) if feeds else None

    def forward(
        self, embedded: Tensor, seen: Seen, source: SourceKeys, causal: Tensor | None = None
    ) -> tuple[Tensor, Seen]:
        """Return queries (k B, n, d), and what later symbols attend to.

        Args:
            embedded: (k B, n, d) the newest symbols, with their positions.
            seen, source, causal: as of `DecoderLayers`.
        """
        states, seen, _ = self.layers(embedded, seen, source, causal)
        return self.norm(states), seen


class AlignedTransformer(AttentionModel):
    """A Transformer (Vaswani et al. 2017) whose last attention is made of components.

    They are those of a recurrent model: score, window, distribution, coupling, marginalization,
    input feeding and copying.
    """

    encoder: AlignedEncoder
    decoder: AlignedDecoder

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        dtype = self.head.readout.output.weight.dtype
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            values, mask = self.encoder(source, lengths)
            values = values.to(dtype)
            source_keys = self.decoder.layers.source_keys(values, mask)

        return replace(
            self.head.memory(values, mask),
            copied=self.head.copying.of_source(source, values),
            source_keys=source_keys,
        )

    # Step by step, as in a search.

    def start_hidden(self, memory: Memory) -> Seen:
        return self.decoder.layers.nothing_seen

    def ask(self, memory: Memory, state: State, symbol: Tensor) -> Query:
        embedded = self.decoder.embed(
            symbol[:, None],
            first=state.attention.history.steps,
            added=self._fed_back(state.attention.context),
        )
        with torch.autocast(symbol.device.type, torch.bfloat16, enabled=self.compute.bf16):
            queries, seen = self.decoder(embedded, state.hidden, self._source_keys(memory))

        query = queries[:, 0].to(memory.values.dtype)
        return Query(query, seen, embedded=self._embedded(symbol))

    # Given targets.

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        """Run all steps of given targets; arguments as of `log_likelihood`. Nothing is drawn."""
        packed = PackedTargets.of(target, drop_ended=not self.compute.static)
        encoded = self.encoded(source[packed.order], lengths[packed.order])
        embedded = self._embedded(packed.previous)

        # With input feeding each query waits for the alignment before it, as in a search.
        if self.head.input_feeding.feeds:
            return self.unroll(encoded, packed, self._one_by_one(packed), embedded)

        queries = self._queries(encoded, packed)
        log_likelihood = encoded.readout.log_likelihoods(queries, packed)
        query = self._all_at_once(encoded, packed, queries, embedded, log_likelihood)
        return self.unroll(encoded, packed, query, embedded, log_likelihood)

    def _one_by_one(self, packed: PackedTargets) -> Callable[[Memory, State, int], Query]:
        """Return the function that computes the query of a step when the step is taken."""
        previous = packed.split(packed.previous)
        return lambda memory, state, t: self.ask(memory, state, previous[t])

    def _all_at_once(
        self,
        memory: Memory,
        packed: PackedTargets,
        all_queries: Tensor,
        embedded: Tensor | None,
        log_likelihood: Tensor | None,
    ) -> Callable[[Memory, State, int], Query]:
        """Compute the scores of all queries (B, T, d); return the function that looks up a step."""
        scores = packed.split(self._scores(memory, packed, all_queries))
        queries = packed.split(packed.pack(all_queries.transpose(0, 1)))
        embeddings = packed.split_optional(embedded)
        log_likelihoods = packed.split_optional(log_likelihood)

        return lambda _memory, _state, t: Query(
            query=queries[t],
            scores=scores[t],
            embedded=embeddings[t],
            log_likelihood=log_likelihoods[t],
        )

    def _queries(self, memory: Memory, packed: PackedTargets) -> Tensor:
        """Compute s_t of all steps, (B, T, d)."""
        dtype = memory.values.dtype
        previous = packed.before[:, : packed.steps]
        causal = causal_mask(packed.steps, previous.device)
        nothing_seen = self.decoder.layers.nothing_seen
        with torch.autocast(previous.device.type, torch.bfloat16, enabled=self.compute.bf16):
            embedded = self.decoder.embed(previous)
            states, _ = self.decoder(embedded, nothing_seen, self._source_keys(memory), causal)

        queries: Tensor = states.to(dtype)
        return queries

    def _scores(self, memory: Memory, packed: PackedTargets, queries: Tensor) -> Tensor:
        """Compute e_t(a) of all tokens, (N, m).

        The steps of a sentence are scored as a search scores the hypotheses of one.
        """
        rows, steps = queries.shape[:2]
        scores: Tensor = self.head.score(
            queries.flatten(0, 1), memory.for_beam(steps), AttentionHistory()
        )
        return packed.pack(scores.view(rows, steps, -1).transpose(0, 1))

    # Both.

    def _embedded(self, symbols: Tensor) -> Tensor | None:
        """Embed y_{t-1} (n,) for the switch between generating and copying: (n, d), or None."""
        if not self.head.copying.copies:
            return None
        embedded: Tensor = self.decoder.embed.symbols(symbols)
        return embedded

    def _source_keys(self, memory: Memory) -> SourceKeys:
        """Return what the decoder's layers attend to, for the sentences that have not ended."""
        assert memory.source_keys is not None
        sentences = len(memory.mask) // memory.beam
        return memory.source_keys.select(slice(sentences))

    def _fed_back(self, context: Tensor) -> Tensor | None:
        """Compute W c_{t-1}, (n, 1, d), where there is input feeding."""
        of_context = self.decoder.of_context
        if of_context is None:
            return None
        fed_back: Tensor = of_context(context)[:, None]
        return fed_back
