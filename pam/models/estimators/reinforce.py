"""The expectation from one drawn position, and its gradient by REINFORCE."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from pam.io import UserError
from pam.models.memory import drawn
from pam.models.parts import Estimator
from pam.models.readout import Gold
from pam.models.sizes import Sizes, check_number

BASELINES = ("soft", "moving", "none")


class Reinforce(Estimator):
    """log p(y_t | s_t, h_a) of one a drawn from q (Williams 1992; Orlova et al., section 2).

    Its gradient is that of the drawn term, plus (log p(y_t | s_t, h_a) - B) times the gradient of
    log q(a): for any baseline B that does not depend on a, its mean is the enumerated gradient.

    Args:
        baseline: `soft`: log p under soft attention, from the prior's mean context (Deng et al.
            2018); `moving`: a moving average of log p(y_t | s_t, h_a) (Xu et al. 2015); `none`: 0.
        decay: of the moving average, per step of training.
    """

    average: Tensor

    def __init__(
        self,
        sizes: Sizes,
        baseline: Literal["soft", "moving", "none"] = "soft",
        decay: float = 0.9,
    ) -> None:
        super().__init__()
        if baseline not in BASELINES:
            raise UserError(
                f"estimator option `baseline` is {baseline!r}",
                hint=f"use one of {', '.join(BASELINES)}",
            )
        self.baseline = baseline
        self.decay = check_number("estimator option `decay`", decay, most=1.0)
        self.register_buffer("average", torch.zeros(()))

    def forward(
        self, gold: Gold, log_q: Tensor, log_prior: Tensor, gumbel: Tensor | None
    ) -> Tensor:
        assert gumbel is not None
        position = drawn(log_q.detach(), gumbel)
        likelihood = gold.at(position)
        log_chosen = (log_q * position).sum(1)
        with torch.no_grad():
            reward = likelihood - self._baseline(gold, log_prior, likelihood)
        # The second term is zero, and so is not its gradient.
        return likelihood + reward * (log_chosen - log_chosen.detach())

    def _baseline(self, gold: Gold, log_prior: Tensor, likelihood: Tensor) -> Tensor:
        if self.baseline == "soft":
            return gold.at(log_prior.exp())
        if self.baseline == "none":
            return torch.zeros_like(likelihood)
        before = self.average.to(likelihood)
        if self.training:
            self.average.mul_(self.decay).add_((1 - self.decay) * likelihood.mean())
        return before


COMPONENT = Reinforce
