"""No score: every position fits alike."""

from __future__ import annotations

from torch import Tensor

from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.sizes import Sizes


class NoScore(Score):
    """e_t(a) = 0, for couplings that place the alignment by themselves."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def keys(self, values: Tensor) -> Tensor:
        return values[..., :0]

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        return query.new_zeros(memory.mask.shape)


COMPONENT = NoScore
