"""Marginals of linear chains by the forward-backward algorithm, in log space."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.logspace import ZERO


def forward_messages(scores: Tensor, transitions: Tensor) -> Tensor:
    """log of sum over a_1 .. a_{t-1} of exp(sum of scores to t and of transitions): (B, n, m).

    Args:
        scores: (B, n, m), `ZERO` where a position is none of the sentence.
        transitions: (m, m), from the first index to the second.

    Time goes with n m^2, over the whole batch at once.
    """
    messages = [scores[:, 0]]
    for score in scores.unbind(1)[1:]:
        reached = torch.logsumexp(messages[-1][:, :, None] + transitions, dim=1)
        messages.append(score + reached)
    return torch.stack(messages, 1)


def marginals(scores: Tensor, transitions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Log marginals of each step given the scores up to it, and given all scores.

    Args:
        scores: (B, n, m); transitions: (m, m); mask: (B, m) true at real positions.

    Returns:
        Filtered and smoothed log marginals, (B, n, m) each.
    """
    scores = scores.masked_fill(~mask[:, None], ZERO)
    ahead = forward_messages(scores, transitions)
    # The chain read from its end: a message with its own score, which stands in both, less it.
    back = forward_messages(scores.flip(1), transitions.t()).flip(1)
    return torch.log_softmax(ahead, 2), torch.log_softmax(ahead + back - scores, 2)
