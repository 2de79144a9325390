"""Alignment distributions: scores to probabilities of source positions."""

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

# below this a difference of levels, of scores of order 1 in float64, is taken for rounding
TOLERANCE = 1e-10


class Softmax(Distribution):
    """P(a) proportional to exp(e_t(a)) (Shankar & Sarawagi 2019, equation 10)."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return masked_log_softmax(scores, mask)


class Projection(Distribution):
    """A distribution with zeros, whose gradient is a closed form of its probabilities alone."""

    @abstractmethod
    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Probabilities (..., m), outside of autograd, exactly 0 outside the support and at
        padding.

        Scores (..., m) have any value where `mask` (..., m), broadcastable, is false; each row has
        a position at least.
        """

    @abstractmethod
    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """Gradient of the scores from that of what `project` gave; all (..., m).

        The gradient by a probability that is zero is not looked at: nothing moves it.
        """

    def probabilities(self, scores: Tensor, mask: Tensor) -> Tensor:
        """`project`, differentiable."""
        result: Tensor = _Projected.apply(self, scores, mask)
        return result

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return safe_log(self.probabilities(scores, mask))


class _Projected(Function):
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
    """The point of the simplex nearest to the scores (Martins & Astudillo 2016, equation 2): max(e
    - tau, 0) with tau such that it sums to one (algorithm 1).

    With the highest score moved to 0, -1 <= tau < 0. Lower scores are therefore not in the support
    and can be raised to
    -1, as can padding, which then needs no care of its own.
    """

    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        scores = scores.masked_fill(~mask, -torch.inf)
        scores = (scores - scores.amax(-1, keepdim=True)).clamp_min(-1.0)
        falling = scores.sort(dim=-1, descending=True).values
        sums = falling.cumsum(-1)
        counts = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
        size = (1 + counts * falling > sums).sum(-1, keepdim=True)  # of the support
        tau = (sums.gather(-1, size - 1) - 1) / size
        return (scores - tau).clamp_min(0.0)

    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """The gradient less its mean over the support; 0 outside the support."""
        support = (probabilities > 0).to(upstream.dtype)
        mean = (upstream * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return (upstream - mean) * support


class Fusedmax(Sparsemax):
    """argmin over the simplex of |p - e|^2 / 2 + weight sum_a |p(a+1) - p(a)|.

    It is the sparsemax of the scores after total variation denoising (Niculae & Blondel 2017). The
    default weight is that of the example which the paper's authors published with their code.

    Denoising lowers the best score by at most 2 weight, and a score that lies 2 weight below a
    level stays below it and draws its neighbours down as far as any could. So scores that lie more
    than 1 + 4 weight below the best need no distinction.
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
        best = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
        near = (scores - best).masked_fill(~mask, -torch.inf).clamp_min(-1 - 4 * self.weight)
        # On the CPU, wherever the scores are: a chain of so many small steps, each of which is a
        # launch on CUDA.
        smooth = denoise(near.double().cpu(), mask.expand_as(scores).cpu(), self.weight)
        return super().project(smooth.to(scores), mask)

    def gradient(self, probabilities: Tensor, upstream: Tensor) -> Tensor:
        """Sparsemax's gradient, averaged over each stretch of equal probabilities."""
        starts = probabilities[..., 1:] != probabilities[..., :-1]
        return _means(super().gradient(probabilities, upstream), starts)


class Entmax(Distribution):
    """argmax over the simplex of p . e + H_alpha(p), with the Tsallis entropy H_alpha (Peters et
    al. 2019, section 3).

    A learned alpha is 1 + sigmoid of a parameter, the same at every step (Correia et al. 2019,
    section 3). Like theirs, it stays at 1.01 and more, where the package can compute it.
    """

    def __init__(self, options: options.Entmax, sizes: Sizes) -> None:
        super().__init__()
        self.alpha = options.alpha
        self.logit = (
            nn.Parameter(torch.tensor(options.alpha - 1).logit()) if options.learned else None
        )

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
    """argmin over x of |x - values|^2 / 2 + weight sum_t |x(t+1) - x(t)|, exactly.

    Where x lies above a given level is a cheapest cut of a chain, so messages along it tell:

        x(t) > level  where  forward(t) + (values(t) - level) + backward(t) > 0,
        forward(t + 1) = clip(forward(t) + values(t) - level, -weight, weight),

    and backward alike from the other end. Each pass takes the mean of a stretch for its level and
    cuts the stretch where x crosses that level. This settles which side of the edge is the higher,
    so the edge adds the weight to its lower side and takes it from its higher one from then on. A
    stretch that is cut no more is constant, at its mean. It is the divide and conquer over levels
    of Chambolle & Darbon (2009): a handful of passes, for all rows at once.

    Values (..., m) are in float64, of order 1; `mask` (..., m) is true at real positions, which
    stand before padding; the weight is more than 0. Equal neighbours are equal to the last bit.
    Padding carries no meaning.
    """
    cut = ~(mask[..., 1:] & mask[..., :-1])
    sent = torch.zeros_like(values[..., 1:])  # along cut edges, from left to right; 0 at padding
    while True:
        level = _means(_plus(values, sent), cut)
        low, high = torch.where(cut, sent, -weight), torch.where(cut, sent, weight)
        excess = _excess(values - level, low, high)
        side = (excess > TOLERANCE).to(values.dtype) - (excess < -TOLERANCE).to(values.dtype)
        drop = side[..., :-1] - side[..., 1:]
        crossed = (drop != 0) & ~cut
        if not bool(crossed.any()):
            return level
        sent = torch.where(crossed, weight * drop.sign(), sent)
        cut = cut | crossed


def _plus(values: Tensor, sent: Tensor) -> Tensor:
    """Values with what edges (..., m - 1) bring to their right end and take from their left."""
    arriving = torch.nn.functional.pad(sent, (1, 0))
    return values + arriving - torch.nn.functional.pad(sent, (0, 1))


def _excess(rest: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """forward(t) + rest(t) + backward(t), messages clipped to `low` and `high` of their edge."""
    # Both directions in one sweep; an edge seen from its other end has its bounds mirrored.
    steps = torch.stack([rest, rest.flip(-1)]).movedim(-1, 0).contiguous()
    lows = torch.stack([low, -high.flip(-1)]).movedim(-1, 0).contiguous()
    highs = torch.stack([high, -low.flip(-1)]).movedim(-1, 0).contiguous()
    message = torch.zeros_like(steps[0])
    messages = [message]
    for step, lowest, highest in zip(steps[:-1], lows, highs, strict=True):
        message = torch.clamp(message + step, lowest, highest)
        messages.append(message)
    forward, backward = torch.stack(messages, -1).unbind()
    return forward + rest + backward.flip(-1)


def _means(values: Tensor, starts: Tensor) -> Tensor:
    """Means (..., m) over stretches that end before each edge of `starts` (..., m - 1)."""
    stretch = torch.nn.functional.pad(starts.long().cumsum(-1), (1, 0))
    empty = torch.zeros_like(values)
    sums = empty.scatter_add(-1, stretch, values)
    sizes = empty.scatter_add(-1, stretch, torch.ones_like(values))
    return (sums / sizes.clamp_min(1)).gather(-1, stretch)
