"""Softmax over source positions."""

from __future__ import annotations

from torch import Tensor

from pam.models.logspace import masked_log_softmax
from pam.models.parts import Distribution
from pam.models.sizes import Sizes


class Softmax(Distribution):
    """P(a) proportional to exp(e_t(a)) (Shankar & Sarawagi 2019, equation 10)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return masked_log_softmax(scores, mask)


COMPONENT = Softmax
