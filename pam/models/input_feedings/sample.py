"""One position is fed back, drawn from the prior."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.memory import drawn
from pam.models.parts import Attention, Feedback, Marginal
from pam.models.sizes import Sizes


class Sample(Feedback):
    """c_t = h_a with a drawn from prior_t: hard attention (Xu et al. 2015).

    The draw is the estimator's own, which reads the same noise. At test time, where nothing is
    drawn, it is the most probable position. No gradient flows through the choice.
    """

    draws = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def draw(self, log_prior: Tensor, gumbel: Tensor | None) -> Tensor:
        log_prior = log_prior.detach()
        return drawn(log_prior, torch.zeros_like(log_prior) if gumbel is None else gumbel)

    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        assert attention.drawn is not None
        return attention.drawn


COMPONENT = Sample
