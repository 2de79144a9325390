"""Bilinear score."""

from __future__ import annotations

from torch import Tensor, nn

from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.sizes import Sizes, check_scale


class General(Score):
    """e_t(a) = s_t^T W h_a (Luong et al. 2015, equation 8, `general`).

    Args:
        scale: divides by the root of the decoder's units, as Vaswani et al. (2017, equation 1) do
            with dot products. Adam moves each entry of W by about the learning rate, so that the
            more units there are the more a step changes e: undivided, at 256 units, all attention
            is on one word of each sentence within 25 steps, before any is learnt.
    """

    def __init__(self, sizes: Sizes, scale: bool = False) -> None:
        super().__init__()
        self.factor = check_scale("score option `scale`", scale, sizes.query)
        self.weight = nn.Linear(sizes.values, sizes.query, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.weight(values) * self.factor
        return keys

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        # On a CPU several times faster than a batched product of a matrix and a vector.
        return (memory.keys * query[:, None]).sum(2)


COMPONENT = General
