"""Log probabilities over masked positions, with finite values and finite gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

# numbers that a processor takes at once; torch takes a softmax of fewer one by one, at a fifth of
# the rate
VECTOR = 16
# the log of a probability that is zero: finite, yet exp(ZERO) is exactly 0 in float64 too
ZERO = -1e4


def tanh(x: Tensor) -> Tensor:
    """tanh(x) as 2 sigmoid(2x) - 1: equal to within rounding, and several times cheaper on
    processors for which the vendor's vector library was not written; on CUDA torch's own, one
    launch in place of three.
    """
    return torch.tanh(x) if x.is_cuda else torch.sigmoid(2 * x) * 2 - 1


def tanh_(x: Tensor) -> Tensor:
    """The same, written over x; on CUDA by one launch in place of four."""
    return x.tanh_() if x.is_cuda else x.mul_(2).sigmoid_().mul_(2).sub_(1)


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Log softmax of finite scores (..., m) over the last dimension where `mask` is true, `ZERO`
    elsewhere.

    The mask (..., m), broadcastable, is true at one position of each row or more. Gradients are
    finite and vanish at masked positions: -inf enters only the softmax, whose gradient there is
    exactly zero, and is
        replaced right after.
    """
    scores, length = scores.masked_fill(~mask, -torch.inf), scores.shape[-1]
    if length < VECTOR:
        scores = F.pad(scores, (0, VECTOR - length), value=-torch.inf)
    return torch.log_softmax(scores, dim=-1)[..., :length].clamp_min(ZERO)


def safe_log(probabilities: Tensor) -> Tensor:
    """Log of probabilities of which some are zero; those give `ZERO` and no gradient."""
    tiny = torch.finfo(probabilities.dtype).tiny
    positive = probabilities > tiny
    return torch.where(positive, probabilities.clamp_min(tiny).log(), ZERO)


def is_possible(log_probs: Tensor) -> Tensor:
    """Which probabilities are not zero, of any shape: `ZERO` may have been rounded. What is no
    number counts, so that whoever sums it sees it.
    """
    return ~(log_probs <= ZERO / 2)


def is_most_probable(log_probs: Tensor, top_k: int) -> Tensor:
    """Which of (n, m) are the K largest of their row."""
    best = log_probs.topk(min(top_k, log_probs.shape[1]), dim=1).indices
    return torch.zeros_like(log_probs, dtype=torch.bool).scatter(1, best, True)


def is_nucleus(probs: Tensor, mass: float) -> Tensor:
    """Which of (n, m) are in the smallest set whose sum reaches `mass`, less than 1, in their row:
    at least one (Holtzman et al. 2020, of symbols). The first of equals comes first.
    """
    falling, order = probs.sort(dim=1, descending=True, stable=True)
    before = falling.cumsum(1) - falling
    return torch.zeros_like(probs, dtype=torch.bool).scatter(1, order, ~(before >= mass))


def draw(log_probs: Tensor, gumbel: Tensor) -> Tensor:
    """A position drawn from log probabilities (..., m) by Gumbel noise (..., m), one-hot.

    The largest of log p(a) + g(a) is distributed as p is (Gumbel 1954).
    """
    best = (log_probs + gumbel).argmax(-1, keepdim=True)
    return torch.zeros_like(log_probs).scatter(-1, best, 1.0)


def relax(log_probs: Tensor, gumbel: Tensor, temperature: float) -> Tensor:
    """Gumbel-Softmax (Jang et al.

    2017): log weights (..., m) near a drawn position, differentiable.
    """
    return torch.log_softmax((log_probs + gumbel) / temperature, dim=-1)
