"""Log probabilities over masked positions, with finite values and finite gradients."""

from __future__ import annotations

import torch
from torch import Tensor

ZERO = -1e4
"""The log of a probability that is zero: finite, yet exp(ZERO) is exactly 0 in float64 too."""


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Log softmax over the last dimension where `mask` is true, `ZERO` elsewhere.

    Args:
        scores: (..., m), any finite values.
        mask: (..., m), broadcastable, true at real positions, at least one in each row.

    Returns:
        (..., m). Gradients are finite and vanish at masked positions: -inf enters only the
        softmax, whose gradient there is exactly zero, and is replaced right after it.
    """
    scores = scores.masked_fill(~mask, -torch.inf)
    return torch.log_softmax(scores, dim=-1).masked_fill(~mask, ZERO)


def safe_log(probabilities: Tensor) -> Tensor:
    """Log of probabilities of which some are zero; those give `ZERO` and no gradient."""
    tiny = torch.finfo(probabilities.dtype).tiny
    positive = probabilities > tiny
    return torch.where(positive, probabilities.clamp_min(tiny).log(), ZERO)
