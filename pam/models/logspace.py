"""Log probabilities over masked positions, with finite values and finite gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

# Numbers that a processor takes at once. Torch takes a softmax of fewer one by one, at a fifth of
# the rate.
VECTOR = 16
# The log of a probability that is zero: finite, yet exp(ZERO) is exactly 0 in float64 too.
ZERO = -1e4


def tanh(x: Tensor) -> Tensor:
    """Compute tanh(x) as 2 sigmoid(2x) - 1, equal to within rounding.

    It is several times cheaper on processors for which the vendor's vector library was not written.
    On CUDA it is torch's own, one launch in place of three.
    """
    if x.is_cuda:
        return torch.tanh(x)
    return torch.sigmoid(2 * x) * 2 - 1


def tanh_(x: Tensor) -> Tensor:
    """Compute `tanh` and write it over x; on CUDA by one launch in place of four."""
    if x.is_cuda:
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the log softmax of finite scores (..., m) where `mask` is true, `ZERO` elsewhere.

    The mask (..., m), broadcastable, is true at one position of each row or more. Gradients are
    finite and vanish at masked positions: -inf enters only the softmax, whose gradient there is
    exactly zero, and is replaced right after.
    """
    # Short rows are padded to `VECTOR`: the result is the same, and faster.
    length = scores.shape[-1]
    scores = scores.masked_fill(~mask, -torch.inf)
    if length < VECTOR:
        scores = F.pad(scores, (0, VECTOR - length), value=-torch.inf)

    return torch.log_softmax(scores, dim=-1)[..., :length].clamp_min(ZERO)


def safe_log(probabilities: Tensor) -> Tensor:
    """Return the log of probabilities; zeros give `ZERO` and no gradient."""
    tiny = torch.finfo(probabilities.dtype).tiny
    positive = probabilities > tiny

    return torch.where(positive, probabilities.clamp_min(tiny).log(), ZERO)


def is_possible(log_probs: Tensor) -> Tensor:
    """Return a Boolean mask, of the shape of `log_probs`, of probabilities that are not zero.

    `ZERO` may have been rounded. NaN counts as possible, so that it shows in a sum.
    """
    return ~(log_probs <= ZERO / 2)


def is_most_probable(log_probs: Tensor, top_k: int) -> Tensor:
    """Return a Boolean mask (n, m) of the K largest entries in each row."""
    count = min(top_k, log_probs.shape[1])
    best = log_probs.topk(count, dim=1).indices

    return torch.zeros_like(log_probs, dtype=torch.bool).scatter(1, best, True)


def is_nucleus(probs: Tensor, mass: float) -> Tensor:
    """Return a Boolean mask (n, m) of the smallest set in each row whose sum reaches `mass`.

    `mass` is less than 1. The set has at least one entry, and the first of equals comes first
    (Holtzman et al. 2020, of symbols).
    """
    falling, order = probs.sort(dim=1, descending=True, stable=True)
    mass_before = falling.cumsum(1) - falling
    is_needed = ~(mass_before >= mass)  # in falling order

    return torch.zeros_like(probs, dtype=torch.bool).scatter(1, order, is_needed)


def draw(log_probs: Tensor, gumbel: Tensor) -> Tensor:
    """Draw a position from log probabilities (..., m) by Gumbel noise (..., m), one-hot.

    The largest of log p(a) + g(a) is distributed as p is (Gumbel 1954).
    """
    best = (log_probs + gumbel).argmax(-1, keepdim=True)

    return torch.zeros_like(log_probs).scatter(-1, best, 1.0)


def relax(log_probs: Tensor, gumbel: Tensor, temperature: float) -> Tensor:
    """Return log weights (..., m) near a drawn position, differentiable.

    This is Gumbel-Softmax (Jang et al. 2017).
    """
    return torch.log_softmax((log_probs + gumbel) / temperature, dim=-1)
