"""Alignment distributions: from scores to probabilities of source positions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models import options
from pam.models.interfaces import Distribution, Sizes
from pam.models.logspace import masked_log_softmax, safe_log

TOLERANCE = 1e-10
"""Smaller differences, of scores of order 1 in float64, count as rounding errors in `denoise`."""


class Softmax(Distribution):
    """P(a) proportional to exp(e_t(a)) (Shankar & Sarawagi 2019, equation 10)."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return masked_log_softmax(scores, mask)


class Projection(Distribution):
    """A distribution with zeros, whose gradient is a closed form of its probabilities alone."""

    @abstractmethod
    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Compute probabilities (..., m), outside of autograd.

        They are exactly 0 outside the support and at padding. `mask` (..., m), broadcastable, is
        false at padding, where scores (..., m) may have any value. Each row has at least one real
        position.
        """

    @abstractmethod
    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """Compute the gradient of the scores from that of the probabilities; all (..., m).

        The upstream gradient of a probability that is zero is ignored: scores do not move it.
        """

    def probabilities(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Compute the probabilities of `project`, with their gradient."""
        result: Tensor = _Projected.apply(self, scores, mask)
        return result

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return safe_log(self.probabilities(scores, mask))


class _Projected(Function):
    """A projection's probabilities, with its own gradient."""

    @staticmethod
    def forward(ctx: Any, projection: Projection, scores: Tensor, mask: Tensor) -> Tensor:
        probabilities = projection.project(scores, mask)
        ctx.projection = projection
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor, None]:
        (probabilities,) = ctx.saved_tensors
        return None, ctx.projection.gradient(probabilities, upstream), None


class Sparsemax(Projection):
    """The point of the simplex nearest to the scores (Martins & Astudillo 2016, equation 2).

    It is max(e - tau, 0), with tau such that it sums to one (algorithm 1).
    """

    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        # With the highest score moved to 0, -1 <= tau < 0. Scores below -1 are not in the support,
        # so they can be raised to -1, and padding with them.
        scores = scores.masked_fill(~mask, -torch.inf)
        scores = (scores - scores.amax(-1, keepdim=True)).clamp_min(-1.0)

        falling = scores.sort(dim=-1, descending=True).values
        sums = falling.cumsum(-1)
        counts = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
        support_size = (1 + counts * falling > sums).sum(-1, keepdim=True)
        tau = (sums.gather(-1, support_size - 1) - 1) / support_size

        return (scores - tau).clamp_min(0.0)

    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """Return the upstream gradient less its mean over the support; 0 outside the support."""
        support = (probabilities > 0).to(upstream.dtype)
        mean = (upstream * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return (upstream - mean) * support


class Fusedmax(Sparsemax):
    """argmin over the simplex of |p - e|^2 / 2 + weight sum_a |p(a+1) - p(a)|.

    It is the sparsemax of the scores after total variation denoising (Niculae & Blondel 2017). The
    default weight comes from the example in the code of the paper's authors.
    """

    def __init__(self, options: options.Fusedmax, sizes: Sizes) -> None:
        super().__init__()

        self.weight = options.weight
        if self.weight:
            self.waits = (
                "fusedmax asks after each round of its denoising whether a level has changed"
            )

    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        if self.weight == 0:
            return super().project(scores, mask)

        # Denoising lowers the best score by at most 2 weight. A score that lies 2 weight below a
        # level stays below it, and draws its neighbours down as far as any score could. So scores
        # that lie more than 1 + 4 weight below the best score need no distinction.
        best = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
        near = (scores - best).masked_fill(~mask, -torch.inf).clamp_min(-1 - 4 * self.weight)

        # On the CPU, wherever the scores are: on CUDA each of the many small steps is a launch.
        smooth = denoise(near.double().cpu(), mask.expand_as(scores).cpu(), self.weight)
        return super().project(smooth.to(scores), mask)

    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """Average sparsemax's gradient over each stretch of equal probabilities."""
        ends = probabilities[..., 1:] != probabilities[..., :-1]
        return _means(super().gradient(probabilities, upstream), ends)


class Entmax(Distribution):
    """argmax over the simplex of p . e + H_alpha(p) (Peters et al. 2019, section 3).

    H_alpha is the Tsallis entropy. A learned alpha is 1 + sigmoid of a parameter, the same at every
    step (Correia et al. 2019, section 3). As in their code, it stays at 1.01 or more, where the
    package `entmax` can compute it.
    """

    def __init__(self, options: options.Entmax, sizes: Sizes) -> None:
        super().__init__()

        self.alpha = options.alpha
        self.logit: nn.Parameter | None = None
        if options.learned:
            self.logit = nn.Parameter(torch.tensor(options.alpha - 1).logit())

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        from entmax import entmax15, entmax_bisect

        scores = scores.masked_fill(~mask, -torch.inf)
        if self.logit is not None:
            alpha = (1 + self.logit.sigmoid()).clamp_min(1.01)
            return safe_log(entmax_bisect(scores, alpha))
        if self.alpha == 1.5:
            return safe_log(entmax15(scores))
        return safe_log(entmax_bisect(scores, self.alpha))


def denoise(values: Tensor, mask: Tensor, weight: float) -> Tensor:
    """Compute argmin over x of |x - values|^2 / 2 + weight sum_t |x(t+1) - x(t)|, exactly.

    The positions where x lies above a given level are a cheapest cut of a chain. Messages along the
    chain find them:

        x(t) > level  where  forward(t) + (values(t) - level) + backward(t) > 0,
        forward(t + 1) = clip(forward(t) + values(t) - level, -weight, weight),

    and backward likewise from the other end. Each pass takes the mean of a stretch as its level and
    cuts the stretch where x crosses that level. This settles which side of the edge is the higher
    one. From then on the edge adds the weight to its lower side and subtracts it from its higher
    side. A stretch that is cut no more is constant, at its mean. This is the divide and conquer
    over levels of Chambolle & Darbon (2009): a handful of passes, for all rows at once.

    Args:
        values: (..., m) in float64, of order 1.
        mask: (..., m) true at real positions, which precede padding.
        weight: more than 0.

    Returns: x, (..., m), in which equal neighbours are equal to the last bit; without meaning at
        padding.
    """
    cut = ~(mask[..., 1:] & mask[..., :-1])
    # What each cut edge moves from its left side to its right side; 0 at padding.
    sent = torch.zeros_like(values[..., 1:])

    while True:
        level = _means(_moved(values, sent), cut)
        low = torch.where(cut, sent, -weight)
        high = torch.where(cut, sent, weight)
        excess = _excess(values - level, low, high)

        # 1 above the level, -1 below it, 0 at it
        side = (excess > TOLERANCE).to(values.dtype) - (excess < -TOLERANCE).to(values.dtype)
        drop = side[..., :-1] - side[..., 1:]
        crossed = (drop != 0) & ~cut
        if not bool(crossed.any()):
            return level

        sent = torch.where(crossed, weight * drop.sign(), sent)
        cut = cut | crossed


def _moved(values: Tensor, sent: Tensor) -> Tensor:
    """Move `sent` (..., m - 1) along each edge, from its left end to its right end."""
    arriving = torch.nn.functional.pad(sent, (1, 0))
    leaving = torch.nn.functional.pad(sent, (0, 1))
    return values + arriving - leaving


def _excess(heights: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Compute forward(t) + heights(t) + backward(t) for heights over the level, (..., m).

    Messages are clipped to `low` and `high` (..., m - 1) of their edges.
    """
    # Both directions go in one sweep. Seen from its other end, an edge has mirrored bounds.
    steps = torch.stack([heights, heights.flip(-1)]).movedim(-1, 0).contiguous()
    lows = torch.stack([low, -high.flip(-1)]).movedim(-1, 0).contiguous()
    highs = torch.stack([high, -low.flip(-1)]).movedim(-1, 0).contiguous()

    message = torch.zeros_like(steps[0])
    messages = [message]
    for step, lowest, highest in zip(steps[:-1], lows, highs, strict=True):
        message = torch.clamp(message + step, lowest, highest)
        messages.append(message)

    forward, backward = torch.stack(messages, -1).unbind()
    return forward + heights + backward.flip(-1)


def _means(values: Tensor, ends: Tensor) -> Tensor:
    """Average values (..., m) over stretches, which end at the edges `ends` (..., m - 1)."""
    stretch = torch.nn.functional.pad(ends.long().cumsum(-1), (1, 0))
    zeros = torch.zeros_like(values)
    sums = zeros.scatter_add(-1, stretch, values)
    sizes = zeros.scatter_add(-1, stretch, torch.ones_like(values))
    return (sums / sizes.clamp_min(1)).gather(-1, stretch)
