"""No window: every position is considered."""

from __future__ import annotations

from torch import Tensor

from pam.models.memory import Past
from pam.models.parts import Window
from pam.models.sizes import Sizes


class NoWindow(Window):
    """Global attention (Luong et al. 2015, section 3.1)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, past: Past
    ) -> tuple[Tensor, Tensor]:
        return scores, mask


COMPONENT = NoWindow
