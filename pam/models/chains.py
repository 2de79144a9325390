"""Marginals of linear chains by the forward-backward algorithm."""

from __future__ import annotations

import torch
from torch import Tensor


def onward(marginal: Tensor, transitions: Tensor) -> Tensor:
    """The forward message that reaches each position: (B, m) to (B, m), unnormalized.

    Args:
        marginal: of the step before, given the scores up to it.
        transitions: (m, m) weights exp(k), from the first index to the second.
    """
    return marginal @ transitions


def smoothed(filtered: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """Marginals of every step given all scores, from those given the scores so far.

    The backward pass, in the form that needs no scores: with f_t the filtered marginals,

        g_t(a) = f_t(a) sum_b exp(k(a, b)) g_{t+1}(b) / sum_a' f_t(a') exp(k(a', b)),    g_n = f_n.

    Time goes with n m^2, over the whole batch at once.

    Args:
        filtered: (B, n, m); transitions: (m, m) as above; lengths: (B,) real steps.

    Returns:
        (B, n, m); steps beyond a row's length are left as they are.
    """
    tiny = torch.finfo(filtered.dtype).tiny
    found = [filtered[:, -1]]
    for t in range(filtered.shape[1] - 2, -1, -1):
        now = filtered[:, t]
        ratio = found[-1] / onward(now, transitions).clamp_min(tiny)
        ahead = now * (ratio @ transitions.t())
        found.append(torch.where((t + 1 < lengths)[:, None], ahead, now))
    return torch.stack(found[::-1], 1)
