"""Bilinear score."""

from __future__ import annotations

from torch import Tensor, nn

from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.sizes import Sizes


class General(Score):
    """e_t(a) = s_t^T W h_a (Luong et al. 2015, equation 8, `general`)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.weight = nn.Linear(sizes.values, sizes.query, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.weight(values)
        return keys

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        # On a CPU several times faster than a batched product of a matrix and a vector.
        return (memory.keys * query[:, None]).sum(2)


COMPONENT = General
