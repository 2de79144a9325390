"""log p(y | s_t, h_a) of all states and positions, where their logits are added.

    p(y | s, h) = exp(u_s(y)) exp(u_h(y)) / Z(s, h),    Z(s, h) = sum_y exp(u_s(y)) exp(u_h(y)),

with u_s = W s + b and u_h = W W_x h. So the normalizers of all T states and m positions of a
sentence are one product of two matrices, (T, V) and (V, m). Any other output layer takes T m
softmaxes over V symbols in place of T + m rows of exponentials.

The same holds of p(y) of every symbol y, with weights w of positions (`log_linear_mixture`):

    sum_a w(a) p(y | s, h_a) = exp(u_s(y)) sum_a (w(a) / Z(s, h_a)) exp(u_a(y)).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

PIECE = 1 << 24
"""Bytes of logits that are computed at a time."""

SMALLEST = 1e-20
"""Normalizers below it are of states and positions that allow hardly any symbol in common.

Some of the exponentials that they are summed from may be rounded to zero.
"""


def log_linear_likelihoods(
    views: Tensor, queries: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor
) -> Tensor:
    """Return log p(y_t | s_t, h_a) of all steps and positions, (B, T, m).

    Nothing with V columns is kept for the backward pass, which computes it once more.

    Args:
        views: (B, m, R) W_x h_a.
        queries: (B, T, R) s_t.
        weight: (V, R); bias: (V,): the output layer.
        symbols: (B, T) y_t.
    """
    log_likelihoods: Tensor = _LogLinear.apply(views, queries, weight, bias, symbols)
    return log_likelihoods


class _Scaled(NamedTuple):
    """Logits (B, n, V), and their exponentials over the largest of each row."""

    logits: Tensor
    top: Tensor  # (B, n, 1)

    @classmethod
    def of(cls, rows: Tensor, weight: Tensor, bias: Tensor | None) -> _Scaled:
        logits = torch.nn.functional.linear(rows, weight, bias)
        return cls(logits, logits.amax(2, keepdim=True))

    def exponentials(self) -> Tensor:
        """Return exp(u - max u), (B, n, V), written over the logits."""
        return self.logits.sub_(self.top).exp_()


class PositionLogits(NamedTuple):
    """What each position adds to the logits: exp(u_a - max u_a), and max u_a."""

    exponentials: Tensor  # (B, m, V)
    top: Tensor  # (B, m)

    @classmethod
    def of(cls, views: Tensor, weight: Tensor) -> PositionLogits:
        """Compute them of views W_x h_a (B, m, R), with W (V, R)."""
        logits = torch.nn.functional.linear(views, weight)
        top = logits.detach().amax(2)
        return cls((logits - top[:, :, None]).exp(), top)

    def select(self, sentences: Tensor) -> PositionLogits:
        """Keep some sentences."""
        return PositionLogits(*(part.index_select(0, sentences) for part in self))


class LogLinearMixture(NamedTuple):
    """sum_a w(a) p(y | s_t, h_a) of every symbol, as the product of two factors.

    One is that of the state, the other what positions add, on average.
    """

    log_of_states: Tensor  # (B, T, V)
    of_positions: Tensor  # (B, T, V)
    log_normalizers: Tensor  # (B, T, m) log Z(s_t, h_a)

    def probs(self) -> Tensor:
        """Return p(y), (B, T, V)."""
        return self.log_of_states.exp() * self.of_positions

    def log_probs(self) -> Tensor:
        """Return log p(y), (B, T, V)."""
        tiny = torch.finfo(self.of_positions.dtype).tiny
        return self.log_of_states + self.of_positions.clamp_min(tiny).log()


def log_linear_mixture(
    added: PositionLogits, queries: Tensor, weights: Tensor, weight: Tensor, bias: Tensor
) -> LogLinearMixture | None:
    """Sum the distributions of positions by two products of matrices.

    None stands for a state and a position with weight whose normalizer is too small to be precise.

    Args:
        added: what positions add to the logits.
        queries: (B, T, R) s_t.
        weights: (B, T, m) w(a), zeros at positions that are left out.
        weight: (V, R); bias: (V,): the output layer.
    """
    logits = torch.nn.functional.linear(queries, weight, bias)
    top = logits.detach().amax(2, keepdim=True)
    log_of_states = logits - top

    normalizers = log_of_states.exp() @ added.exponentials.transpose(1, 2)
    if bool(((weights > 0) & (normalizers < SMALLEST)).any()):
        return None
    normalizers = normalizers.clamp_min(SMALLEST)

    return LogLinearMixture(
        log_of_states=log_of_states,
        of_positions=(weights / normalizers) @ added.exponentials,
        log_normalizers=normalizers.log() + top + added.top[:, None],
    )


class _LogLinear(Function):
    """`log_linear_likelihoods`, a few sentences at a time."""

    @staticmethod
    def forward(
        ctx: Any, views: Tensor, queries: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor
    ) -> Tensor:
        rows, positions = views.shape[:2]
        normalizers = views.new_empty(rows, queries.shape[1], positions)
        log_likelihoods = torch.empty_like(normalizers)

        for piece in _pieces(views, queries, weight):
            of_states = _Scaled.of(queries[piece], weight, bias)
            of_positions = _Scaled.of(views[piece], weight, None)

            gold_states = of_states.logits.gather(2, symbols[piece][:, :, None])
            index = _gold_index(symbols[piece], positions)
            gold_positions = of_positions.logits.transpose(1, 2).gather(1, index)

            products = of_states.exponentials() @ of_positions.exponentials().transpose(1, 2)
            # Zero if state and position allow no symbol in common.
            products.clamp_min_(torch.finfo(products.dtype).tiny)
            normalizers[piece] = products

            log_normalizers = products.log() + of_states.top + of_positions.top.transpose(1, 2)
            log_likelihoods[piece] = gold_states + gold_positions - log_normalizers

        ctx.save_for_backward(views, queries, weight, bias, symbols, normalizers)
        return log_likelihoods

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        views, queries, weight, bias, symbols, normalizers = ctx.saved_tensors
        gradient = grads[0]
        dviews = torch.empty_like(views)
        dqueries = torch.empty_like(queries)
        dweight = torch.zeros_like(weight)
        dbias = torch.zeros_like(bias)

        for piece in _pieces(views, queries, weight):
            of_states = _Scaled.of(queries[piece], weight, bias).exponentials()
            of_positions = _Scaled.of(views[piece], weight, None).exponentials()

            # The gradient of the logits is that of the symbols less what all symbols expect.
            share = gradient[piece] / normalizers[piece]
            dstates = (share @ of_positions).mul_(of_states).neg_()
            dpositions = (share.transpose(1, 2) @ of_states).mul_(of_positions).neg_()

            dstates.scatter_add_(
                2, symbols[piece][:, :, None], gradient[piece].sum(2, keepdim=True)
            )
            index = _gold_index(symbols[piece], views.shape[1])
            dpositions.transpose(1, 2).scatter_add_(1, index, gradient[piece])

            dqueries[piece] = dstates @ weight
            dviews[piece] = dpositions @ weight
            dstates = dstates.flatten(0, 1)
            dweight.addmm_(dstates.t(), queries[piece].flatten(0, 1))
            dweight.addmm_(dpositions.flatten(0, 1).t(), views[piece].flatten(0, 1))
            dbias += dstates.sum(0)

        return dviews, dqueries, dweight, dbias, None


def _pieces(views: Tensor, queries: Tensor, weight: Tensor) -> Iterator[slice]:
    """Divide the sentences into pieces whose logits fit into `PIECE`, a sentence at least."""
    rows = len(views)
    sentence_bytes = (views.shape[1] + queries.shape[1]) * len(weight) * weight.element_size()
    size = max(1, PIECE // max(1, sentence_bytes))
    for first in range(0, rows, size):
        yield slice(first, first + size)


def _gold_index(symbols: Tensor, positions: int) -> Tensor:
    """Return y_t at every position, (B, T, m), of symbols (B, T)."""
    return symbols[:, :, None].expand(-1, -1, positions)
