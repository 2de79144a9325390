"""The prior alignment is fed back."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Feedback, Marginal, Sizes


class Prior(Feedback):
    """c_t = sum_a prior_t(a) h_a: the symbol written is not looked at (equation 9)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, log_prior: Tensor, marginal: Marginal, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        return log_prior.exp()


COMPONENT = Prior
