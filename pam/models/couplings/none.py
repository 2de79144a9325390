"""No coupling: the prior depends on the query alone."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Coupling, Distribution
from pam.models.sizes import Sizes


class NoCoupling(Coupling):
    """k = 0, so that prior_t = softmax(e_t) (equation 6: the query carries the past)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, scores: Tensor, previous: Tensor | None, mask: Tensor, distribution: Distribution
    ) -> Tensor:
        log_prior: Tensor = distribution(scores, mask)
        return log_prior


COMPONENT = NoCoupling
