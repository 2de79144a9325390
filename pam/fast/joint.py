"""Likelihoods of many tokens at once, where nothing of them feeds back.

A token's log-likelihood depends on each position's through a weight: the posterior, if positions
are summed out; the inference network's distribution, if a bound is taken; one, if there is a
single context. These weights are known on the way forward, so that the gradient is prepared there
while the logits are at hand, and logits never pile up over time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pam.fast.output import CHUNK, OutputLayer, weighty


class _Likelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        weights: Tensor,
        weight: Tensor,
        bias: Tensor,
        gold: Tensor,
        summed: bool,
        narrow: bool,
    ) -> Tensor:
        ctx.differentiable = any(ctx.needs_input_grad)
        layer = OutputLayer(weight, bias, narrow)
        found, share, dweights = z.new_empty(len(z)), torch.empty_like(weights), weights
        dz = torch.empty_like(z) if ctx.differentiable else z
        if ctx.differentiable and not summed:
            dweights = torch.empty_like(weights)
        for piece in _pieces(z, len(weight)):
            symbols = gold[piece, None].expand(-1, z.shape[1]).flatten()
            rows = z[piece].flatten(0, 1)
            log_probs = layer.log_probs(rows)
            likelihood = log_probs.gather(1, symbols[:, None]).view(-1, z.shape[1])
            if summed:
                joint = weights[piece] + likelihood
                total = torch.logsumexp(joint, dim=1, keepdim=True)
                found[piece] = total.squeeze(1)
                share[piece] = (joint - total).exp_()
            else:
                found[piece] = (weights[piece] * likelihood).sum(1)
                share[piece] = weights[piece]
            if ctx.differentiable:
                probs, scale = log_probs.exp_(), share[piece].flatten()
                _pull(layer, dz[piece], rows, probs, symbols, scale)
                if not summed:
                    dweights[piece] = likelihood
        if ctx.differentiable:
            ctx.save_for_backward(z, weight, bias, gold, share, dz, *layer.gradients())
            ctx.dweights, ctx.narrow = share if summed else dweights, narrow
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, weight, bias, gold, share, dz, dweight, dbias = ctx.saved_tensors
        scale = grads[0]
        dweights = ctx.dweights * scale[:, None]
        # As a rule the loss is a plain sum of tokens, and what was prepared is right up to it.
        if bool((scale == scale[0]).all()):
            factor = scale[0]
            return dz * factor, dweights, dweight * factor, dbias * factor, None, None, None
        layer = OutputLayer(weight, bias, ctx.narrow)
        for piece in _pieces(z, len(weight)):
            symbols = gold[piece, None].expand(-1, z.shape[1]).flatten()
            rows = z[piece].flatten(0, 1)
            weighed = (share[piece] * scale[piece, None]).flatten()
            _pull(layer, dz[piece], rows, layer.probs(rows), symbols, weighed)
        return dz, dweights, *layer.gradients(), None, None, None


def _pieces(z: Tensor, vocabulary: int) -> list[slice]:
    """Tokens cut into pieces whose logits are at most `CHUNK` elements."""
    size = max(1, CHUNK // (z.shape[1] * vocabulary))
    return [slice(first, first + size) for first in range(0, len(z), size)]


def _pull(
    layer: OutputLayer, dz: Tensor, z: Tensor, probs: Tensor, gold: Tensor, scale: Tensor
) -> None:
    """Writes the gradient of z into `dz`, (tokens, K, R), leaving out rows of no weight."""
    rows = weighty(scale)
    if rows is None:
        dz.copy_(layer.pull(z, probs, gold, scale).view_as(dz))
        return
    pulled = layer.pull(z[rows], probs[rows], gold[rows], scale[rows])
    dz.zero_().view(len(z), -1).index_copy_(0, rows, pulled)


def log_likelihood(
    z: Tensor,
    weights: Tensor,
    weight: Tensor,
    bias: Tensor,
    gold: Tensor,
    *,
    summed: bool = True,
    narrow: bool = False,
) -> Tensor:
    """log sum_a exp(weights(a)) p(gold | z_a), or sum_a weights(a) log p(gold | z_a).

    Args:
        z: (N, K, R) the readout's hidden layer at K positions of each of N tokens.
        weights: (N, K) log probabilities if `summed`, else probabilities.
        weight: (V, R); bias: (V,): the output layer.
        gold: (N,).
        summed: whether positions are summed out; else the expectation of the logarithm is taken.
        narrow: whether products are taken in bfloat16.

    Returns:
        (N,).
    """
    found: Tensor = _Likelihood.apply(z, weights, weight, bias, gold, summed, narrow)
    return found
