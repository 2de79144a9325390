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
        targets: Tensor,
        kept: Tensor | None,
        queries: Tensor,
        views: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        positions = views.shape[1] if kept is None else kept.shape[2]
        likelihood = PositionLikelihood(
            views, weight, bias, targets, positions, any(ctx.needs_input_grad)
        )
        ctx.likelihood = likelihood
        return torch.stack(
            [
                likelihood.step(t, query, None if kept is None else kept[t])
                for t, query in enumerate(queries)
            ]
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        likelihood = ctx.likelihood
        del ctx.likelihood  # its memory is free as soon as this function ends
        dqueries = [likelihood.back(t, dlikelihood) for t, dlikelihood in enumerate(grads[0])]
        return None, None, torch.stack(dqueries), *likelihood.finish()


def position_likelihoods(
    targets: Tensor,
    kept: Tensor | None,
    queries: Tensor,
    views: Tensor,
    weight: Tensor,
    bias: Tensor,
) -> Tensor:
    """log p(y_t | s_t, h_a) of given targets.

    Args:
        targets: (T, B); kept: (T, B, K) positions to sum over, or None for all.
        queries: (T, B, R); views: (B, m, R); weight: (V, R); bias: (V,): see
            `PositionLikelihood`.

    Returns:
        (T, B, m), or (T, B, K).
    """
    result: Tensor = _PositionLikelihood.apply(targets, kept, queries, views, weight, bias)
    return result
