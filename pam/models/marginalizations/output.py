"""Attention summed out at the output: joint attention."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.logspace import ZERO
from pam.models.memory import Memory
from pam.models.parts import Attention, Marginal, Marginalization
from pam.models.readout import Readout
from pam.models.sizes import Sizes, check_size


class Output(Marginalization):
    """p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a) (equations 3 and 11).

    Args:
        top_k: only the K most probable positions are summed (equation 7). The sum is not
            renormalized, so that the likelihood is a lower bound of the exact one. None: all.
    """

    gives_positions = True

    def __init__(self, sizes: Sizes, top_k: int | None = None) -> None:
        super().__init__()
        self.top_k = checked("top_k", top_k)

    def forward(self, attention: Attention, memory: Memory, readout: Readout) -> Marginal:
        positions = readout(attention.viewed, memory.readout)  # (B, m, V)
        weights = most_probable(attention.log_prior, self.top_k)
        log_probs = torch.logsumexp(weights[:, :, None] + positions, dim=1)
        lengths = memory.mask.sum(1)
        truncated = lengths > (lengths if self.top_k is None else self.top_k)
        return Marginal(log_probs, positions, weights, truncated)


def checked(name: str, top_k: int | None) -> int | None:
    """`top_k`, given as the marginal's option `name`.

    Raises:
        UserError: neither a whole number, at least 1, nor None.
    """
    check_size(f"marginal option `{name}`", top_k, null="the exact sum")
    return top_k


def most_probable(log_weights: Tensor, top_k: int | None) -> Tensor:
    """Log weights (B, m) with `ZERO` outside the K largest of each row; all of them for None."""
    if top_k is None or top_k >= log_weights.shape[1]:
        return log_weights
    best = log_weights.topk(top_k, dim=1).indices
    kept = torch.zeros_like(log_weights, dtype=torch.bool).scatter(1, best, True)
    return log_weights.masked_fill(~kept, ZERO)


COMPONENT = Output
