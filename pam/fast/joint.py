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
        likelihood = PositionLikelihood(views, weight, bias, targets, positions)
        steps = [
            likelihood.step(t, queries[t], None if kept is None else kept[t])
            for t in range(len(targets))
        ]
        ctx.likelihood = likelihood
        return torch.stack(steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (dlikelihood,) = grads
        likelihood = ctx.likelihood
        del ctx.likelihood
        likelihood.begin_backward()
        width = likelihood.pulled.shape[3]
        dqueries = torch.bmm(
            dlikelihood.flatten(0, 1)[:, None], likelihood.pulled.flatten(0, 1)
        ).view(*dlikelihood.shape[:2], width)
        return None, None, dqueries, *likelihood.finish(dlikelihood)


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
