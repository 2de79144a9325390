"""log p(y | s_t, h_a) of all states and positions, where their logits are added.

    p(y | s, h) = exp(u_s(y)) exp(u_h(y)) / Z(s, h),    Z(s, h) = sum_y exp(u_s(y)) exp(u_h(y)),

with u_s = W s + b and u_h = W W_x h. So the normalizers of all T states and m positions of a
sentence are one product of two matrices, (T, V) and (V, m). Any other output layer takes T m
softmaxes over V symbols in place of T + m rows of exponentials.
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
