"""Attention summed out at the output: joint attention."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.errors import UserError
from pam.models.logspace import ZERO
from pam.models.parts import Marginal, Marginalisation, Memory, Readout, Sizes


class Output(Marginalisation):
    """p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a) (equations 3 and 11).

    Args:
        top_k: only the K most probable positions are summed (equation 7). The sum is not
            renormalised, so that the likelihood is a lower bound of the exact one. None: all.
    """

    def __init__(self, sizes: Sizes, top_k: int | None = None) -> None:
        super().__init__()
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise UserError(
                f"marginal option `top_k` is {top_k!r}",
                remedy="use a whole number, at least 1, or null for the exact sum",
            )
        self.top_k = top_k

    def forward(
        self, query: Tensor, log_prior: Tensor, memory: Memory, readout: Readout
    ) -> Marginal:
        positions = readout(query, memory.readout)  # (B, m, V)
        weights = self.keep(log_prior)
        log_probs = torch.logsumexp(weights[:, :, None] + positions, dim=1)
        lengths = memory.mask.sum(1)
        truncated = lengths > (lengths if self.top_k is None else self.top_k)
        return Marginal(log_probs, positions, weights, truncated)

    def keep(self, log_prior: Tensor) -> Tensor:
        """Log weights (B, m) of the positions in the sum; `ZERO` outside the top K."""
        if self.top_k is None or self.top_k >= log_prior.shape[1]:
            return log_prior
        best = log_prior.topk(self.top_k, dim=1).indices
        kept = torch.zeros_like(log_prior, dtype=torch.bool).scatter(1, best, True)
        return log_prior.masked_fill(~kept, ZERO)


COMPONENT = Output
