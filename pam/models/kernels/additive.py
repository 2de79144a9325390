"""The additive score."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.logspace import tanh_


def additive_plain(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    features: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Return v . tanh(k_a + q + W f_a), the definition of `additive`."""
    hidden = keys + query[:, None]
    if features is not None and weight is not None:
        hidden = hidden + features @ weight

    return torch.tanh(hidden) @ vector


def additive(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    features: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Return the scores v . tanh(k_a + q + W f_a), (n, m).

    The hidden layer, which is m times as large as all else of a step, is computed once more in the
    backward pass: of many steps over long sources it would fill gigabytes.

    Args:
        keys: (n, m, U) k; query: (n, U) q; vector: (U,) v.
        features: (n, m, F) f of a position, such as what was attended before; None: there are none.
        weight: (F, U) W, with them.
    """
    scores: Tensor = _Additive.apply(keys, query, vector, features, weight)
    return scores


class _Additive(Function):
    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        query: Tensor,
        vector: Tensor,
        features: Tensor | None,
        weight: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(keys, query, vector, features, weight)
        return _hidden(keys, query, features, weight) @ vector

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        keys, query, vector, features, weight = ctx.saved_tensors
        hidden = _hidden(keys, query, features, weight)

        dvector = grads[0].flatten() @ hidden.flatten(0, 1)
        # The slope of tanh is 1 - hidden^2.
        dkeys = hidden.mul_(hidden).neg_().add_(1).mul_(vector).mul_(grads[0][:, :, None])
        dfeatures = dweight = None
        if features is not None and weight is not None:
            dfeatures = dkeys @ weight.t()
            dweight = features.flatten(0, 1).t() @ dkeys.flatten(0, 1)

        return dkeys, dkeys.sum(1), dvector, dfeatures, dweight


def _hidden(keys: Tensor, query: Tensor, features: Tensor | None, weight: Tensor | None) -> Tensor:
    """Return the hidden layer of the additive score, (n, m, U)."""
    hidden = keys + query[:, None]
    if features is not None and weight is not None:
        hidden.flatten(0, 1).addmm_(features.flatten(0, 1), weight)

    return tanh_(hidden)
