"""No score: every position fits alike."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Score, Sizes


class NoScore(Score):
    """e_t(a) = 0, for couplings that place the alignment by themselves."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def keys(self, values: Tensor) -> Tensor:
        return values[..., :0]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(keys.shape[:2])


COMPONENT = NoScore
