"""The pointer of hard monotone attention: the alignment stands where the actions moved it."""

from __future__ import annotations

from torch import Tensor

from pam.io import UserError
from pam.models.logspace import safe_log
from pam.models.parts import Coupling, Distribution
from pam.models.sizes import Sizes


class Pointer(Coupling):
    """prior_t = the alignment handed on (Aharoni & Goldberg 2017): nothing is left to chance.

    It goes with the feedback `pointer`, which moves the alignment at each step action.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, scores: Tensor, previous: Tensor | None, mask: Tensor, distribution: Distribution
    ) -> Tensor:
        if previous is None:
            raise UserError(
                "coupling `pointer` has no alignment to stand on", hint="use feedback `pointer`"
            )
        return safe_log(previous)


COMPONENT = Pointer
