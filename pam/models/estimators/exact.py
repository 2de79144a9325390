"""The expectation, enumerated."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Estimator
from pam.models.readout import Gold
from pam.models.sizes import Sizes


class Exact(Estimator):
    """sum_a q(a) log p(y_t | s_t, h_a) (Deng et al. 2018; Orlova et al., exact ELBO)."""

    draws = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, gold: Gold, log_q: Tensor, log_prior: Tensor, gumbel: Tensor | None
    ) -> Tensor:
        return (log_q.exp() * gold.each()).sum(1)


COMPONENT = Exact
