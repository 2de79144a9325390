"""Windows: the source positions that a step considers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.interfaces import AttentionHistory, Sizes, Window


class NoWindow(Window):
    """Global attention (Luong et al. 2015, section 3.1)."""

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, history: AttentionHistory
    ) -> tuple[Tensor, Tensor]:
        return scores, mask


class Monotonic(Window):
    """Local attention, local-m: |a - p_t| <= D with p_t = t (Luong et al. 2015, section 3.2).

    Past the end of a source the window stays at its last position, so that it is never empty.
    """

    def __init__(self, options: options.Monotonic, sizes: Sizes) -> None:
        super().__init__()
        self.width = options.width

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, history: AttentionHistory
    ) -> tuple[Tensor, Tensor]:
        if self.width is None:
            return scores, mask

        positions = torch.arange(mask.shape[1], device=mask.device)
        # p_t = t, but at most the last position.
        last = mask.sum(1, keepdim=True) - 1
        centre = last.clamp_max(history.steps)
        return scores, mask & ((positions - centre).abs() <= self.width)


class Predictive(Window):
    """Local attention, local-p (Luong et al. 2015, section 3.2, equations 9 and 10).

        p_t = (m - 1) sigmoid(v . tanh(W s_t)),    |a - p_t| <= D,
        e_t(a) - (a - p_t)^2 / (2 sigma^2),        sigma = D / 2.

    Positions are counted from 0. Luong et al. multiply the softmax of e_t by the Gaussian, after
    which weights no longer sum to one. Here the Gaussian enters the scores: the weights are the
    same but for a common factor, and form a distribution.
    """

    def __init__(self, options: options.Predictive, sizes: Sizes) -> None:
        super().__init__()

        self.width = options.width
        self.hidden = nn.Linear(sizes.query, sizes.query, bias=False)
        self.weight = nn.Linear(sizes.query, 1, bias=False)

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, history: AttentionHistory
    ) -> tuple[Tensor, Tensor]:
        if self.width is None:
            return scores, mask

        positions = torch.arange(mask.shape[1], device=mask.device)
        distance = positions - self.centre(query, mask)
        variance = (self.width / 2) ** 2
        return scores - distance**2 / (2 * variance), mask & (distance.abs() <= self.width)

    def centre(self, query: Tensor, mask: Tensor) -> Tensor:
        """Compute p_t, (B, 1), for queries (B, H)."""
        share = torch.sigmoid(self.weight(torch.tanh(self.hidden(query))))
        centre: Tensor = (mask.sum(1, keepdim=True) - 1) * share
        return centre
