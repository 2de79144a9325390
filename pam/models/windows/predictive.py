"""A window whose centre the decoder's state predicts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models.memory import Past
from pam.models.parts import Window
from pam.models.sizes import Sizes, check_size


class Predictive(Window):
    """Local attention, local-p (Luong et al. 2015, section 3.2, equations 9 and 10).

        p_t = (m - 1) sigmoid(v . tanh(W s_t)),    |a - p_t| <= D,
        e_t(a) - (a - p_t)^2 / (2 sigma^2),        sigma = D / 2.

    Positions are counted from 0. Luong et al. multiply the softmax of e_t by the Gaussian and leave
    it at that; here it enters the scores, so that the weights are a distribution: the same weights
    but for a factor common to all positions.

    Args:
        width: D, 10 as Luong et al. have it. None: no bound and no Gaussian, global attention.
    """

    def __init__(self, sizes: Sizes, width: int | None = 10) -> None:
        super().__init__()
        check_size("window option `width`", width, null="no bound")
        self.width = width
        self.hidden = nn.Linear(sizes.query, sizes.query, bias=False)
        self.weight = nn.Linear(sizes.query, 1, bias=False)

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, past: Past
    ) -> tuple[Tensor, Tensor]:
        if self.width is None:
            return scores, mask
        distance = torch.arange(mask.shape[1], device=mask.device) - self.centre(query, mask)
        variance = (self.width / 2) ** 2
        return scores - distance**2 / (2 * variance), mask & (distance.abs() <= self.width)

    def centre(self, query: Tensor, mask: Tensor) -> Tensor:
        """p_t (B, 1) for queries (B, H)."""
        share = torch.sigmoid(self.weight(torch.tanh(self.hidden(query))))
        centre: Tensor = (mask.sum(1, keepdim=True) - 1) * share
        return centre


COMPONENT = Predictive
