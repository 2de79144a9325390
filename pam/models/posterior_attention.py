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

from pam.data.vocabulary import PAD
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.experiments.settings import Network
from pam.models.build import parts_of
from pam.models.fitting import check_fit
from pam.models.head import AttentionHead, AttentionState
from pam.models.interfaces import AttentionHistory, Memory, Sizes
from pam.models.outputs import PositionDistribution, TokenDistribution
from pam.models.readout import Readout
from pam.runtime.errors import UserError, unknown
from pam.runtime.numbers import is_whole

POSTR_JOINT: dict[str, Any] = {
    "score": "general",
    "window": "none",
    "distribution": "softmax",
    "coupling": "none",
    "marginalization": "output",
    "input_feeding": "posterior",
    "copying": "none",
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

    def copied(self, symbols: Tensor) -> Tensor:
        """Compute the probability (n,) that symbols (n,) are copied, given that they are written.

        Raises:
            NotImplementedError: without `copying="pointer"`.
        """
        origin = self.output.origin(symbols)
        if origin is None:
            raise NotImplementedError("nothing is copied")
        return (origin.log_copied - self.log_prob(symbols)).exp().clamp_max(1)

    def select(self, rows: Tensor) -> AttentionStep:
        """Keep the steps of some hypotheses, each in the place of one of the same source."""
        return AttentionStep(self.output.select(rows), self.history.select(rows))


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

    To decode, choose the symbol by `step.log_probs()` before `update`. In a search, `memory` with a
    `beam` is shared by the hypotheses of each source, which are k rows one after another. Select
    the step of each hypothesis that goes on, by its row, before `update`::

        memory = layer.memory(values, mask, beam=k)       # without gradients
        step = layer.step(memory, state, query)           # rows 0 .. k - 1 are the first source's
        rows, symbol = ...                                # parents, and what they are extended by
        state = layer.update(memory, step.select(rows), symbol)

    With `copying="pointer"` a symbol is generated, or copied from the source (See et al. 2017):
    give `memory` the source's symbols, and each step the embeddings of y_{t-1}, of E units.

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
            Soft `marginalization="input", input_feeding="prior"`. `copying="pointer"` copies.
        embedding: units E of a symbol's embedding, where symbols are copied.

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

    def __init__(
        self, query: int, values: int, symbols: int, embedding: int = 0, **components: Any
    ) -> None:
        super().__init__()
        for name, size in (("query", query), ("values", values), ("symbols", symbols)):
            if not is_whole(size) or size < 1:
                raise UserError(f"`{name}={size}`", hint="use a whole number, at least 1")
        if not is_whole(embedding) or embedding < 0:
            raise UserError(f"`embedding={embedding}`", hint="use a whole number")
        for name in components:
            if name not in POSTR_JOINT:
                raise unknown("component", name, list(POSTR_JOINT))
        chosen = parse(ModelConfig, {"label": "Layer"} | POSTR_JOINT | components)
        check_fit(chosen, Network(encoder=values, decoder=query, encoder_reads="forward"))

        if chosen.copying.copies != bool(embedding):
            raise UserError(
                f"`embedding={embedding}` with copying `{chosen.copying.kind}`",
                hint='give the units of an embedding with `copying="pointer"`, and only with that',
            )

        self.query_units = query
        self.embedding_units = embedding
        sizes = Sizes(
            query=query,
            values=values,
            embedding=embedding,
            direction=values,
            layers=1,
            rate=0.0,
            # Sources are given in symbols of the target.
            source=symbols,
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

    def memory(
        self,
        values: Tensor,
        mask: Tensor,
        source: Tensor | None = None,
        beam: int | None = None,
    ) -> Memory:
        """Prepare the encoder states of a batch, once for all of its steps.

        Args:
            values: (B, m, D) encoder states h_a; those of padding are not read, whatever they are.
            mask: (B, m) true at real positions, which precede padding; at least one in each row.
            source: (B, m) symbols of the source by their ids among the target symbols, for copying.
                Any id of V or above is a word that these lack. It is written as V + the first
                position that has it, and so has to be given as a target.
            beam: hypotheses of each source in a search, without gradients; None: steps have one row
                for each source.
        """
        self._check_source(values, mask, source)
        # Weights of 0 do not make up for states that are not finite.
        values = values.masked_fill(~mask[:, :, None], 0.0)
        memory = self.head.memory(values, mask)
        if source is not None:
            # Padding is no symbol that the source has.
            padded = source.masked_fill(~mask, PAD)
            memory = replace(memory, copied=self.head.copying.of_source(padded, values))
        if beam is None:
            return memory

        if not is_whole(beam) or beam < 1:
            raise ValueError(f"a beam of {beam}, expected a whole number, at least 1")
        return self.head.for_search(memory, beam)

    def start(self, memory: Memory) -> AttentionState:
        """Return the state before the first symbol, with an empty context."""
        return self.head.start(memory)

    def step(
        self,
        memory: Memory,
        state: AttentionState,
        query: Tensor,
        embedded: Tensor | None = None,
    ) -> AttentionStep:
        """Compute the prior, and p(y_t | y_<t, x).

        Args:
            query: (n, H) the decoder state s_t.
            embedded: (n, E) embeddings of y_{t-1}, for copying.
        """
        rows = len(memory.mask)
        if query.shape != (rows, self.query_units):
            expected = (rows, self.query_units)
            raise ValueError(f"queries {tuple(query.shape)}, expected {expected}")
        if (embedded is not None) != self.head.copying.copies:
            raise ValueError("`embedded` is needed for copying, and only for that")
        if embedded is not None and embedded.shape != (rows, self.embedding_units):
            expected = (rows, self.embedding_units)
            raise ValueError(f"embeddings {tuple(embedded.shape)}, expected {expected}")

        output = self.head.step(memory, state.history, query, embedded=embedded)
        return AttentionStep(output, state.history)

    def update(self, memory: Memory, step: AttentionStep, symbol: Tensor) -> AttentionState:
        """Return the state after the symbols y_t (n,) were written: c_t and log p(y_t)."""
        state = self.head.update(memory, step.history, step.output, symbol)
        if state.log_prob is not None:
            return state
        return replace(state, log_prob=step.log_prob(symbol))

    def _check_source(self, values: Tensor, mask: Tensor, source: Tensor | None) -> None:
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

        if (source is not None) != self.head.copying.copies:
            raise ValueError("`source` is needed for copying, and only for that")
        if source is not None and (source.shape != mask.shape or source.is_floating_point()):
            raise ValueError(
                f"symbols {tuple(source.shape)} of {source.dtype}, expected {tuple(mask.shape)} of"
                " whole numbers"
            )
