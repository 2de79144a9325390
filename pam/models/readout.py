"""The output layer: p(y | s_t, x), and what it says of symbols that are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.models.copying import Copying, CopyMixture, Switch
from pam.models.interfaces import Sizes
from pam.models.kernels import SharedLinear
from pam.models.output_kernels import Mixture, mixture_log_likelihood
from pam.models.search_layer import SearchLayer


class Readout(nn.Module):
    """p(y | s_t, x) for a query and one view of the source (Luong et al. 2015, equations 5, 6).

    z = tanh(W_x x + W_s s + b), p = softmax(W_o z + b_o).
    """

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__()
        self.of_values = nn.Linear(sizes.values, sizes.query, bias=False)
        self.of_query = nn.Linear(sizes.query, sizes.query)
        self.output = nn.Linear(sizes.query, vocabulary)

    def project(self, bf16: bool) -> SharedLinear:
        """W_s s + b, for the steps of a batch."""
        return SharedLinear(self.of_query.weight, self.of_query.bias, bf16)

    def layer(self, beam: int, bf16: bool) -> SearchLayer:
        """The last layer for search with so many hypotheses, where nothing asks for a gradient."""
        return SearchLayer(self.output.weight, self.output.bias, beam, bf16)


@dataclass(frozen=True)
class Tokens:
    """All real tokens of a batch under teacher forcing, step after step, without padding."""

    counts: list[int]  # per step, how many rows have not ended; they never grow in number
    sentence: Tensor  # (N,) the row of each token's sentence
    symbols: Tensor  # (N,) y_t
    query: Tensor  # (N, H) s_t
    log_prior: Tensor  # (N, m)
    context: Tensor | None  # (N, D) of the prior, or None where it is not read
    shift: Tensor | None  # (N, R) what a latent vector of the sentence adds to W_s s, or None
    views: Tensor | None  # (B, m, R) W_x h_a, or None where positions have no output of their own
    bf16: bool  # whether large products are taken in bfloat16
    switch: Switch | None = None  # what decides whether y_t is generated or copied, or None: it is generated

    def padded(self, values: Tensor) -> Tensor:
        """(N, ...) to (T, B, ...), zeros where a row has ended."""
        rows, steps = self.counts[0], len(self.counts)
        if len(values) < rows * steps:
            time = torch.repeat_interleave(torch.tensor(self.counts, device=values.device))
            whole = values.new_zeros(steps * rows, *values.shape[1:])
            values = whole.index_copy(0, time * rows + self.sentence, values)
        return values.view(steps, rows, *values.shape[1:])

    def packed(self, values: Tensor) -> Tensor:
        """(T, B, ...) to (N, ...)."""
        if len(self.sentence) == self.counts[0] * len(self.counts):
            return values.flatten(0, 1)
        return torch.cat([step[:count] for step, count in zip(values, self.counts, strict=True)])


@dataclass(frozen=True)
class TokenGold:
    """`Gold` of all tokens of a batch."""

    readout: Readout  # the model's
    tokens: Tokens
    copying: Copying  # the model's

    @cached_property
    def projected(self) -> Tensor:
        """(N, R) W_s s + b, with what a latent vector adds."""
        tokens = self.tokens
        projected = self.readout.project(tokens.bf16)(tokens.query)
        return projected if tokens.shift is None else projected + tokens.shift

    def at(self, weights: Tensor) -> Tensor:
        """log p(y_t | s_t, sum_a weights(a) h_a) for weights (N, m) that sum to one: (N,)."""
        assert self.tokens.views is not None
        by_sentence = self.tokens.padded(weights).transpose(0, 1)
        views = torch.bmm(by_sentence, self.tokens.views).transpose(0, 1)
        hidden, switch = self.tokens.packed(views) + self.projected, self.tokens.switch
        return self._log_likelihood(hidden, None if switch is None else (weights * switch.of_values).sum(1))

    def of_context(self) -> Tensor:
        """log p(y_t | s_t, c_t) with the context of the prior, (N,); without one, of s_t alone."""
        hidden, context = self.projected, self.tokens.context
        if context is None:
            return self._log_likelihood(hidden)
        weight = self.readout.of_values.weight
        hidden = hidden + SharedLinear(weight, None, self.tokens.bf16)(context)
        return self._log_likelihood(hidden, None if self.tokens.switch is None else self.copying.of_context(context))

    def mixture(self, weights: Tensor, kept: Tensor, summed: bool = True, copies: CopyMixture | None = None) -> Tensor:
        """log sum_a exp(weights(a)) p(y_t | s_t, h_a), or sum_a weights(a) log p, (N,), over the positions `kept`; what
        is copied is summed by `copies`, and follows the attention in an expectation."""
        assert self.tokens.views is not None
        gate = rest = None
        if copies is not None:
            weights, rest = weights + copies.gate(self.tokens.symbols), copies.total(self.tokens.symbols)
        elif self.tokens.switch is not None:
            gate, rest = self._gated(self.tokens.switch, self.tokens.switch.by_position)
        return self._mixture(self.tokens.views, self.projected, weights, kept, summed, gate, rest)

    def _gated(self, switch: Switch, logit: Tensor) -> tuple[Tensor, Tensor]:
        """log p_gen and log (1 - p_gen) sum_a prior_t(a) [x_a = y_t], (N, k) each, from the logits (N, k)."""
        symbols = self.tokens.symbols
        attended = torch.logsumexp(switch.of_symbol(self.tokens.log_prior, symbols), 1)
        return switch.gate(logit, symbols), F.logsigmoid(-logit) + attended[:, None]

    def _log_likelihood(self, hidden: Tensor, of_context: Tensor | None = None) -> Tensor:
        """log p(y_t), (N,), from a hidden layer (N, R) and what its context adds to the switch's logit, (N,), where
        symbols are copied too."""
        weights, rest, switch = hidden.new_zeros(len(hidden), 1), None, self.tokens.switch
        if switch is not None and of_context is not None:
            weights, copied = self._gated(switch, (switch.logit + of_context)[:, None])
            rest = copied.squeeze(1)
        kept = torch.ones_like(weights, dtype=torch.bool)
        return self._mixture(None, hidden, weights, kept, True, None, rest)

    def _mixture(
        self, views: Tensor | None, query: Tensor, weights: Tensor, kept: Tensor, summed: bool, gate: Tensor | None,
        rest: Tensor | None,
    ) -> Tensor:  # fmt: skip
        tokens, output = self.tokens, self.readout.output
        symbols = tokens.symbols if tokens.switch is None else tokens.switch.known(tokens.symbols)
        given = Mixture(symbols, kept, tokens.sentence, summed, tokens.bf16)
        return mixture_log_likelihood(views, query, weights, output.weight, output.bias, given, gate, rest)
