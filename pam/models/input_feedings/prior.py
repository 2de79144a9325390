"""The prior alignment is fed back."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Attention, Feedback, Marginal
from pam.models.sizes import Sizes


class Prior(Feedback):
    """c_t = sum_a prior_t(a) h_a: the symbol written is not looked at (equation 9)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        return attention.log_prior.exp()


COMPONENT = Prior
