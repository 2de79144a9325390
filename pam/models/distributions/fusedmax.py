"""Fusedmax: sparse, and equal over stretches of neighbouring source positions."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.io import UserError
from pam.models.distributions import sparsemax
from pam.models.projection import Projection
from pam.models.sizes import Sizes

TOLERANCE = 1e-10
"""Below this a difference of levels, of scores of order 1 in float64, is taken for rounding."""


class Fusedmax(Projection):
    """argmin over the simplex of |p - e|^2 / 2 + weight sum_a |p(a+1) - p(a)|.

    It is the sparsemax of the scores after total variation denoising (Niculae & Blondel 2017).

    Args:
        weight: of the total variation; 0 gives sparsemax. The default is that of the example which
            the paper's authors published with their code.
    """

    def __init__(self, sizes: Sizes, weight: float = 0.1) -> None:
        super().__init__()
        if not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise UserError(
                f"distribution option `weight` is {weight!r}", hint="use a number, at least 0"
            )
        self.weight = float(weight)

    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        return project(scores, mask, self.weight)

    def pull_back(self, probabilities: Tensor, gradient: Tensor) -> Tensor:
        return pull_back(probabilities, gradient)


def project(scores: Tensor, mask: Tensor, weight: float) -> Tensor:
    """sparsemax(denoise(e)); see `Projection.project`.

    Denoising lowers the best score by at most 2 weight, and a score that lies 2 weight below a
    level stays below it and draws its neighbours down as far as any could. So scores that lie more
    than 1 + 4 weight below the best need not be told apart.
    """
    if weight == 0:
        return sparsemax.project(scores, mask)
    best = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    near = (scores - best).masked_fill(~mask, -torch.inf).clamp_min(-1 - 4 * weight)
    smooth = denoise(near.double(), mask.expand_as(scores), weight)
    return sparsemax.project(smooth.to(scores.dtype), mask)


def pull_back(probabilities: Tensor, gradient: Tensor) -> Tensor:
    """Sparsemax's gradient, averaged over each stretch of equal probabilities."""
    starts = probabilities[..., 1:] != probabilities[..., :-1]
    return _means(sparsemax.pull_back(probabilities, gradient), starts)


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

    Args:
        values: (..., m) in float64, of order 1.
        mask: (..., m) true at real positions, which stand before padding.
        weight: more than 0.

    Returns:
        (..., m); equal neighbours are equal to the last bit. Padding carries no meaning.
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


COMPONENT = Fusedmax
