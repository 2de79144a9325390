"""Joint readout batched over time, where nothing of it feeds back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pam.fast.likelihood import PositionLikelihood


class _PositionLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        counts: list[int],
        targets: Tensor,
        kept: Tensor | None,
        queries: Tensor,
        views: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        positions = views.shape[1] if kept is None else kept.shape[2]
        likelihood = PositionLikelihood(
            views, weight, bias, targets, positions, counts, any(ctx.needs_input_grad)
        )
        ctx.likelihood, ctx.counts = likelihood, counts
        found = views.new_zeros(*targets.shape, positions)
        for t, count in enumerate(counts):
            chosen = None if kept is None else kept[t, :count]
            found[t, :count] = likelihood.step(t, queries[t, :count], chosen)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        likelihood = ctx.likelihood
        del ctx.likelihood  # its memory is free as soon as this function ends
        width = likelihood.views.shape[2]
        dqueries = grads[0].new_zeros(*grads[0].shape[:2], width)
        for t, count in enumerate(ctx.counts):
            dqueries[t, :count] = likelihood.back(t, grads[0][t, :count])
        return None, None, None, dqueries, *likelihood.finish()


def position_likelihoods(
    counts: list[int],
    targets: Tensor,
    kept: Tensor | None,
    queries: Tensor,
    views: Tensor,
    weight: Tensor,
    bias: Tensor,
) -> Tensor:
    """log p(y_t | s_t, h_a) of given targets.

    Args:
        counts: per step, how many rows from the first on take part; the others give zeros.
        targets: (T, B); kept: (T, B, K) positions to sum over, or None for all.
        queries: (T, B, R); views: (B, m, R); weight: (V, R); bias: (V,): see
            `PositionLikelihood`.

    Returns:
        (T, B, m), or (T, B, K).
    """
    result: Tensor = _PositionLikelihood.apply(counts, targets, kept, queries, views, weight, bias)
    return result
