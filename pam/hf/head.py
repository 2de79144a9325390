"""The alignment head over the states of somebody else's encoder and decoder.

The encoder's last states are h_a, the decoder's last states are the queries s_t. A position adds
W_x h_a to what the model's output layer reads:

    p(y | s_t, h_a) = softmax(W_o (f s_t + W_x h_a) + b_o),

where W_o, b_o and the factor f are those of the model. At first W_x is zero, and p(y_t) that of the
model without a head. All else is `pam.models.head`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pam.data.vocabulary import PAD
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.models.attention_model import AttentionModel, Query, State, Unrolled
from pam.models.build import parts_of
from pam.models.head import AttentionHead
from pam.models.interfaces import AttentionHistory, Memory, Sizes
from pam.models.kernels.compute import Part
from pam.models.packing import PackedTargets
from pam.models.readout import LogLinearReadout, Projection

IGNORED = -100
"""The label of a position whose symbol is not known, in `transformers`."""


class OutputLayer(NamedTuple):
    """W_o (V, R) and b_o (V,)."""

    weight: Tensor
    bias: Tensor


class ScaledReadout(LogLinearReadout):
    """p(y | s_t, h_a) = softmax(W_o (f s_t + W_x h_a) + b_o).

    Args:
        of_values: W_x.
        output: W_o and b_o.
        factor: f.
    """

    def __init__(self, of_values: nn.Linear, output: OutputLayer, factor: float) -> None:
        # Its weights are given.
        Part.__init__(self)
        self.of_values = of_values
        self.output = output  # type: ignore[assignment]
        self.factor = factor

    def projection(self) -> Projection:
        return lambda query: query * self.factor

    def search_projection(self) -> Projection:
        return self.projection()


class Head(nn.Module):
    """The weights of a head: those of its components, W_x, and W_o and b_o if they are its own.

    They stay in float32 or float64 where the model is converted to half precision: a product of
    probabilities over many steps needs the precision, and they are few.

    Args:
        components: kind and options of each component, by name.
        values: units of an encoder state.
        queries: units of a decoder state.
        symbols: target symbols.
        factor: f.
        has_output: whether the head has an output layer of its own.
    """

    def __init__(
        self,
        components: dict[str, Any],
        values: int,
        queries: int,
        symbols: int,
        factor: float,
        has_output: bool,
    ) -> None:
        super().__init__()
        sizes = Sizes(
            query=queries,
            values=values,
            embedding=queries,
            direction=values,
            layers=1,
            rate=0.0,
            source=symbols,
            target=symbols,
        )
        self.parts = parts_of(parse(ModelConfig, {"label": "Head", **components}), sizes)
        for name, part in self.parts.items():
            self.add_module(name, part)

        self.factor = factor
        self.of_values = nn.Linear(values, queries, bias=False)
        nn.init.zeros_(self.of_values.weight)
        self.output: nn.Linear | None = None
        if has_output:
            self.output = nn.Linear(queries, symbols)

    @torch.no_grad()
    def start_from(self, output: OutputLayer) -> None:
        """Copy an output layer into the head's own."""
        assert self.output is not None
        self.output.weight.copy_(output.weight)
        self.output.bias.copy_(output.bias)

    def bound(self, output: OutputLayer) -> AttentionHead:
        """Return the head with the output layer `output`."""
        parts = {name: getattr(self, name) for name in self.parts}
        return AttentionHead(readout=ScaledReadout(self.of_values, output, self.factor), **parts)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Head:
        def apply(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed.to(precise(changed.dtype))

        super()._apply(apply, recurse)
        return self


def precise(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which a head computes for a model of this type: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


class States(NamedTuple):
    """The last states of encoder and decoder, for B sentences."""

    values: Tensor  # (B, m, D) h_a
    mask: Tensor  # (B, m) true at real positions, which precede padding
    queries: Tensor  # (B, T, H) s_t


class Aligned(AttentionModel):
    """A model of `transformers` with its head, as the models of this package are.

    Targets (B, T) are ids of the model's vocabulary plus 1, as 0 is padding for this package. The
    symbols of a step are ids as they are.

    Args:
        model: a model that `with_posterior_attention` returned.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model.get_encoder(), model.get_decoder(), model.alignment_head())
        self.model = model

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        values = self.model.encoder_states(input_ids=source, attention_mask=mask.long())[0]
        return self.head.memory(values.to(self.dtype), mask)

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the head computes."""
        return self.head.readout.output.weight.dtype

    # Step by step: all earlier symbols are read again, as the model's own cache is its own affair.

    def start_hidden(self, memory: Memory) -> tuple[Tensor, ...]:
        start = self.model.config.decoder_start_token_id
        return (torch.full((len(memory.mask), 0), start, device=memory.mask.device),)

    def ask(self, memory: Memory, state: State, symbol: Tensor) -> Query:
        (prefix,) = state.hidden
        if not prefix.shape[1]:
            symbol = torch.full_like(symbol, self.model.config.decoder_start_token_id)
        prefix = torch.cat([prefix, symbol[:, None]], 1)

        values = memory.values.repeat_interleave(memory.beam, 0)[: len(prefix)]
        states = self.model.decoder_states(values, memory.mask.long(), input_ids=prefix)
        return Query(states[0][:, -1].to(self.dtype), (prefix,))

    # Given targets.

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        labels = torch.where(target == PAD, IGNORED, target - 1)
        values = self.model.encoder_states(input_ids=source, attention_mask=mask.long())[0]
        previous = self.model.prepare_decoder_input_ids_from_labels(labels)
        queries = self.model.decoder_states(values, mask.long(), input_ids=previous)[0]
        states = States(values.to(self.dtype), mask, queries.to(self.dtype))
        return self.given(states, labels)

    def given(self, states: States, labels: Tensor) -> Unrolled:
        """Run all steps of given labels (B, T), which precede `IGNORED` ones in each row."""
        # Of padding only places are asked for from here on, so that symbols can be ids as they are.
        packed = PackedTargets.of(torch.where(labels == IGNORED, PAD, labels + 1))
        ids = replace(packed, symbols=packed.symbols - 1, target=(packed.target - 1).clamp_min(0))
        packed = replace(packed, symbols=ids.symbols)
        memory = self.head.memory(states.values[packed.order], states.mask[packed.order])

        all_queries = states.queries[packed.order][:, : packed.steps]
        projected = memory.readout.project(all_queries)
        log_likelihood = memory.readout.log_likelihoods(projected, ids)
        queries = packed.split(packed.pack(all_queries.transpose(0, 1)))
        scores = packed.split(self._scores(memory, packed, all_queries))
        log_likelihoods = packed.split_optional(log_likelihood)

        def query(memory: Memory, state: State, t: int) -> Query:
            return Query(queries[t], scores=scores[t], log_likelihood=log_likelihoods[t])

        return self.unroll(memory, packed, query, log_likelihood=log_likelihood)

    def _scores(self, memory: Memory, packed: PackedTargets, queries: Tensor) -> Tensor:
        """Compute e_t(a) of all tokens, (N, m), of queries (B, T, H)."""
        rows, steps = queries.shape[:2]
        scores: Tensor = self.head.score(
            queries.flatten(0, 1), memory.for_beam(steps), AttentionHistory()
        )
        return packed.pack(scores.view(rows, steps, -1).transpose(0, 1))

    def posterior(self, unrolled: Unrolled) -> Tensor:
        """Return the posteriors (N, m) of all tokens."""
        return self._posterior(unrolled)
