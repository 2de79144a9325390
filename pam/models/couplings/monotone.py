"""Monotonicity-biased coupling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models.relative import First, RelativeCoupling
from pam.models.sizes import Sizes


class Monotone(RelativeCoupling):
    """k(a, a') = delta^(a - a' - 1) where a > a', else 0, with 0 < delta < 1 (section 2.3.1).

    Args:
        first: see `RelativeCoupling`.
    """

    def __init__(self, sizes: Sizes, first: First = "free") -> None:
        super().__init__(first)
        self.raw = nn.Parameter(torch.zeros(()))

    @property
    def delta(self) -> Tensor:
        """The learned decay, a scalar strictly between 0 and 1."""
        return torch.sigmoid(self.raw)

    def energies(self, distances: Tensor) -> Tensor:
        # delta^(d-1) as exp((d-1) log delta); distances at most 0 are replaced before the power,
        # so that no gradient passes through a value that is not used.
        steps = (distances - 1).clamp_min(0).to(self.raw.dtype)
        power = torch.exp(steps * nn.functional.logsigmoid(self.raw))
        return torch.where(distances > 0, power, 0.0)


COMPONENT = Monotone
