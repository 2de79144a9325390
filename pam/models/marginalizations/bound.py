"""Attention summed out at the output, and a variational bound of that sum for training."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.marginalizations.output import Output, checked, most_probable
from pam.models.parts import Estimator
from pam.models.readout import Gold
from pam.models.sizes import Sizes, check_number


class Bound(Output):
    """Attention trained by a bound (Deng et al. 2018).

    Training maximizes, at each step,

        E_q[log p(y_t | s_t, h_a)] - weight KL(q_t || prior_t) <= log p(y_t | y_<t, x),

    where q_t(a | x, y) comes from the inference network, or is the prior: then the divergence is
    zero, and the bound is Jensen's, that of hard attention (Xu et al. 2015). The expectation is the
    estimator's affair, the divergence is always enumerated. Without the target there is no q: the
    likelihood sums the prior out, as `output` does.

    Args:
        top_k: positions of the prior that the likelihood sums over, as in `output`. None: all.
        q_top_k: positions that the bound enumerates: q restricted to its K most probable ones and
            renormalized, which is a distribution too, so that the bound stays one. Cheaper, but
            the others get no gradient: it is for a q that knows where to look. None: all.
        weight: of the divergence. Below 1 the objective is no bound; the whole divergence can hold
            q to a prior that has not found anything yet.
    """

    needs_inference = True

    def __init__(
        self,
        sizes: Sizes,
        top_k: int | None = None,
        q_top_k: int | None = None,
        weight: float = 1.0,
    ) -> None:
        super().__init__(sizes, top_k)
        self.q_top_k = checked("q_top_k", q_top_k)
        self.weight = check_number("marginal option `weight`", weight)

    def objective(
        self,
        gold: Gold,
        log_prior: Tensor,
        log_q: Tensor | None,
        estimator: Estimator,
        gumbel: Tensor | None,
    ) -> Tensor:
        """The bound, (B,).

        Args:
            gold: what the readout says of y_t.
            log_prior, log_q: (B, m); None: q is the prior.
            gumbel: (B, m) noise, for an estimator that draws.
        """
        expected: Tensor
        if log_q is None:
            expected = estimator(gold, log_prior, log_prior, gumbel)
            return expected
        log_q = self.restrict(log_q)
        divergence = (log_q.exp() * (log_q - log_prior)).sum(1)
        expected = estimator(gold, log_q, log_prior, gumbel)
        return expected - self.weight * divergence

    def restrict(self, log_q: Tensor) -> Tensor:
        """q (B, m) over its K most probable positions, renormalized: log probabilities (B, m)."""
        return torch.log_softmax(most_probable(log_q, self.q_top_k), dim=1)


COMPONENT = Bound
