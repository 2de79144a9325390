"""Posterior attention by itself, for a decoder and a training loop of your own.

`PosteriorAttention` is the part of a model between decoder states and symbols: prior, output layer,
posterior and the next context. It has the components of `seq2seq.Seq2Seq`, and gives the same
numbers. Encoder, decoder, embeddings and the loop are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pam.experiments.config import ModelConfig, Network
from pam.experiments.parsing import parse
from pam.models.build import parts_of
from pam.models.fitting import check_fit
from pam.models.head import AttentionHead, AttentionState
from pam.models.interfaces import AttentionHistory, Memory, Sizes
from pam.models.outputs import PositionDistribution, TokenDistribution
from pam.models.readout import Readout
from pam.runtime.errors import UserError, unknown

POSTR_JOINT: dict[str, Any] = {
    "score": "general",
    "window": "none",
    "distribution": "softmax",
    "coupling": "none",
    "marginalization": "output",
    "input_feeding": "posterior",
}
"""The components of the layer, with the kinds that are Postr-Joint."""


@dataclass(frozen=True, eq=False)
class AttentionStep:
    """A step before its symbol is chosen; n rows.

    Attributes:
        output: p(y_t | y_<t, x), computed when it is asked for.
        history: the alignments before this step.
    """

    output: TokenDistribution
    history: AttentionHistory

    @property
    def prior(self) -> Tensor:
        """The attention (n, m) before the symbol is seen."""
        return self.output.attention.prior

    def log_prob(self, symbols: Tensor) -> Tensor:
        """Compute log p(y_t | y_<t, x) of symbols (n,): (n,)."""
        return self.output.log_prob(symbols)

    def log_probs(self) -> Tensor:
        """Compute log p of every symbol, (n, V), without a gradient: for search."""
        return self.output.log_probs().clone()

    def posterior(self, symbols: Tensor) -> Tensor:
        """Compute the attention (n, m) given that symbols (n,) were written (equation 12).

        Raises:
            NotImplementedError: with `marginalization="input"`, where positions have no likelihood.
        """
        if not isinstance(self.output, PositionDistribution):
            raise NotImplementedError("positions have no likelihood of their own")
        return self.output.observe(symbols).alignment


class PosteriorAttention(nn.Module):
    r"""Attention and output layer of Postr-Joint, to be called step by step.

    One step is equations 9 to 13 of Shankar and Sarawagi (2019): the prior from the decoder state
    s_t, p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a), the posterior once y_t is known, and from it
    the context c_t for the next decoder state::

        memory = layer.memory(values, mask)              # once for each batch
        state = layer.start(memory)                      # c_0 = 0
        for symbol in targets.t():
            query = ...                                  # s_t, of y_{t-1} and state.context
            step = layer.step(memory, state, query)
            state = layer.update(memory, step, symbol)
            loss = loss - state.log_prob.sum()

    To decode, choose the symbol by `step.log_probs()` before `update`. For a beam, repeat the rows
    of `values` and `mask`, and reorder states with `AttentionState.select`.

    Make a new memory after each step of the optimizer. Leave the `log_prob` of padded symbols out
    of the loss; nothing else has to be done about padding. A gradient of a gradient is not
    supported.

    Args:
        query: units H of a decoder state.
        values: units D of an encoder state.
        symbols: target symbols V.
        components: other kinds of components than those of Postr-Joint, by the names and options of
            a model's YAML: `score`, `window`, `distribution`, `coupling`, `marginalization`,
            `input_feeding`. Prox-Postr-Joint is `coupling="proximity"`, the six best positions
            `marginalization={"kind": "output", "top_k": 6}`, Prior-Joint `input_feeding="prior"`,
            Soft `marginalization="input", input_feeding="prior"`.

    Raises:
        UserError: there is no such kind, kinds do not fit together, or a size is no whole number.

    Example:
        >>> import torch
        >>> layer = PosteriorAttention(query=8, values=6, symbols=30)
        >>> memory = layer.memory(torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool))
        >>> step = layer.step(memory, layer.start(memory), query=torch.randn(2, 8))
        >>> state = layer.update(memory, step, symbol=torch.tensor([3, 4]))
        >>> state.log_prob.shape, state.context.shape, step.prior.shape
        (torch.Size([2]), torch.Size([2, 6]), torch.Size([2, 5]))
    """

    def __init__(self, query: int, values: int, symbols: int, **components: Any) -> None:
        super().__init__()
        for name, size in (("query", query), ("values", values), ("symbols", symbols)):
            if not isinstance(size, int) or size < 1:
                raise UserError(f"`{name}={size}`", hint="use a whole number, at least 1")
        for name in components:
            if name not in POSTR_JOINT:
                raise unknown("component", name, list(POSTR_JOINT))
        chosen = parse(ModelConfig, {"label": "Layer"} | POSTR_JOINT | components)
        check_fit(chosen, Network(encoder=values, decoder=query, encoder_reads="forward"))

        self.query_units = query
        sizes = Sizes(
            query=query,
            values=values,
            embedding=0,
            direction=values,
            layers=1,
            rate=0.0,
            target=symbols,
        )
        parts = parts_of(chosen, sizes)
        self.head = AttentionHead(readout=Readout(sizes, symbols), **parts)
        for name, part in self.head.parts.items():
            self.add_module(name, part)

        if self.head.score.costs:
            raise UserError(
                f"score `{chosen.score.kind}` adds a loss to the objective, which this layer does"
                " not compute",
                hint="use `general`, `dot` or `mlp`",
            )
        if self.head.input_feeding.draws:
            raise UserError(
                f"input feeding `{chosen.input_feeding.kind}` samples positions, which this layer"
                " does not",
                hint="use `posterior`, `prior` or `none`",
            )

    def memory(self, values: Tensor, mask: Tensor) -> Memory:
        """Prepare the encoder states of a batch, once for all of its steps.

        Args:
            values: (n, m, D) encoder states h_a; those of padding are not read, whatever they are.
            mask: (n, m) true at real positions, which precede padding; at least one in each row.
        """
        self._check_source(values, mask)
        # Weights of 0 do not make up for states that are not finite.
        return self.head.memory(values.masked_fill(~mask[:, :, None], 0.0), mask)

    def start(self, memory: Memory) -> AttentionState:
        """Return the state before the first symbol, with an empty context."""
        return self.head.start(memory)

    def step(self, memory: Memory, state: AttentionState, query: Tensor) -> AttentionStep:
        """Compute the prior, and p(y_t | y_<t, x), from the decoder state s_t, `query` (n, H)."""
        expected = (len(memory.mask), self.query_units)
        if query.shape != expected:
            raise ValueError(f"queries {tuple(query.shape)}, expected {expected}")

        output = self.head.step(memory, state.history, query)
        return AttentionStep(output, state.history)

    def update(self, memory: Memory, step: AttentionStep, symbol: Tensor) -> AttentionState:
        """Return the state after the symbols y_t (n,) were written: c_t and log p(y_t)."""
        state = self.head.update(memory, step.history, step.output, symbol)
        if state.log_prob is not None:
            return state
        return replace(state, log_prob=step.log_prob(symbol))

    def _check_source(self, values: Tensor, mask: Tensor) -> None:
        """Check shapes, that no source is empty, and that no padding precedes a real position."""
        units = self.head.readout.of_values.in_features
        if values.dim() != 3 or values.shape[2] != units:
            raise ValueError(f"encoder states {tuple(values.shape)}, expected (n, m, {units})")
        if mask.shape != values.shape[:2] or mask.dtype != torch.bool:
            raise ValueError(
                f"a mask {tuple(mask.shape)} of {mask.dtype}, expected {tuple(values.shape[:2])} of"
                " torch.bool"
            )

        empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"row {empty[0]} of the mask has no real position")
        is_reordered = (mask[:, 1:] & ~mask[:, :-1]).any(dim=1)
        reordered = is_reordered.nonzero().flatten().tolist()
        if reordered:
            raise ValueError(f"row {reordered[0]} of the mask has padding before a real position")
