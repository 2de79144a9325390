"""Dot product of query and encoder state."""

from __future__ import annotations

from torch import Tensor

from pam.io import UserError
from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.sizes import Sizes, check_scale


class Dot(Score):
    """e_t(a) = s_t . h_a (Luong et al. 2015, equation 8, `dot`). It has no weights, so that both
    must have as many units.

    Args:
        scale: divides by the root of their number (Vaswani et al. 2017, equation 1).
    """

    def __init__(self, sizes: Sizes, scale: bool = False) -> None:
        super().__init__()
        self.factor = check_scale("score option `scale`", scale, sizes.query)
        if sizes.query != sizes.values:
            raise UserError(
                f"score `dot` multiplies a decoder state of {sizes.query} units with an encoder "
                f"state of {sizes.values}",
                hint="give the decoder as many units as both directions of the encoder have",
            )

    def keys(self, values: Tensor) -> Tensor:
        return values * self.factor

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        return (memory.keys * query[:, None]).sum(2)


COMPONENT = Dot
