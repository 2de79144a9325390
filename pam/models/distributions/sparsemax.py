"""Sparsemax over source positions."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.projection import Projection
from pam.models.sizes import Sizes


class Sparsemax(Projection):
    """The point of the simplex nearest to the scores (Martins & Astudillo 2016, equation 2)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        return project(scores, mask)

    def pull_back(self, probabilities: Tensor, gradient: Tensor) -> Tensor:
        return pull_back(probabilities, gradient)


def project(scores: Tensor, mask: Tensor) -> Tensor:
    """max(e - tau, 0) with tau such that it sums to one (algorithm 1); see `Projection.project`.

    With the highest score moved to 0, -1 <= tau < 0. Lower scores are therefore not in the support
    and can be raised to -1, as can padding, which then needs no care of its own.
    """
    scores = scores.masked_fill(~mask, -torch.inf)
    scores = (scores - scores.amax(-1, keepdim=True)).clamp_min(-1.0)
    falling = scores.sort(dim=-1, descending=True).values
    sums = falling.cumsum(-1)
    counts = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    size = (1 + counts * falling > sums).sum(-1, keepdim=True)  # of the support
    tau = (sums.gather(-1, size - 1) - 1) / size
    return (scores - tau).clamp_min(0.0)


def pull_back(probabilities: Tensor, gradient: Tensor) -> Tensor:
    """The gradient less its mean over the support; 0 outside the support."""
    support = (probabilities > 0).to(gradient.dtype)
    mean = (gradient * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    return (gradient - mean) * support


COMPONENT = Sparsemax
