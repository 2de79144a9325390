"""A window that moves along the source by one position a step."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.memory import Past
from pam.models.parts import Window
from pam.models.sizes import Sizes, check_size


class Monotonic(Window):
    """Local attention, local-m: |a - p_t| <= D with p_t = t (Luong et al. 2015, section 3.2).

    Past the end of a source the window stays at its last position, so that it never is empty.

    Args:
        width: D, 10 as Luong et al. have it. None: no bound, global attention.
    """

    def __init__(self, sizes: Sizes, width: int | None = 10) -> None:
        super().__init__()
        check_size("window option `width`", width, null="no bound")
        self.width = width

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, past: Past
    ) -> tuple[Tensor, Tensor]:
        if self.width is None:
            return scores, mask
        places = torch.arange(mask.shape[1], device=mask.device)
        centre = (mask.sum(1, keepdim=True) - 1).clamp_max(past.steps)
        return scores, mask & ((places - centre).abs() <= self.width)


COMPONENT = Monotonic
