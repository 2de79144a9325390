"""Attention summed out at the output, and a variational bound of that sum for training."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.marginals.output import Output, checked, most_probable
from pam.models.parts import Marginal, Sizes


class Bound(Output):
    """Variational attention with an enumerated bound (Deng et al. 2018).

    Training maximises, at each step,

        E_q[log p(y_t | s_t, h_a)] - KL(q_t || prior_t) <= log p(y_t | y_<t, x),

    where q_t(a | x, y) comes from the inference network. Without the target there is no q: the
    likelihood sums the prior out, as `output` does.

    Args:
        top_k: positions of the prior that the likelihood sums over, as in `output`. None: all.
        q_top_k: positions that the bound enumerates: q restricted to its K most probable ones and
            renormalised, which is a distribution too, so that the bound stays one. None: all.
    """

    needs_inference = True

    def __init__(self, sizes: Sizes, top_k: int | None = None, q_top_k: int | None = None) -> None:
        super().__init__(sizes, top_k)
        self.q_top_k = checked("q_top_k", q_top_k)

    def objective(
        self, marginal: Marginal, log_prior: Tensor, log_q: Tensor | None, symbol: Tensor
    ) -> Tensor:
        assert marginal.positions is not None and log_q is not None
        index = symbol[:, None, None].expand(-1, log_prior.shape[1], 1)
        likelihood = marginal.positions.gather(2, index).squeeze(2)  # (B, m)
        log_q = self.restrict(log_q)
        return (log_q.exp() * (likelihood + log_prior - log_q)).sum(1)

    def restrict(self, log_q: Tensor) -> Tensor:
        """q (B, m) over its K most probable positions, renormalised: log probabilities (B, m)."""
        return torch.log_softmax(most_probable(log_q, self.q_top_k), dim=1)


COMPONENT = Bound
