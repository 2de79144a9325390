"""Proximity-biased coupling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models.relative import First, RelativeCoupling
from pam.models.sizes import Sizes, check_size

BOUND = 10.0
"""Energies stay within +-BOUND, so that exp(k) cannot overflow."""


class Proximity(RelativeCoupling):
    """k(a, a') = delta_{a - a'} where |a - a'| < width, else 0 (section 2.3.1).

    Args:
        width: the paper's 3, hence five learned energies, from -2 to +2.
        first: see `RelativeCoupling`.
    """

    def __init__(self, sizes: Sizes, width: int = 3, first: First = "free") -> None:
        super().__init__(first)
        check_size("coupling option `width`", width)
        self.width = width
        self.raw = nn.Parameter(torch.zeros(2 * width - 1))

    def energies(self, distances: Tensor) -> Tensor:
        delta = BOUND * torch.tanh(self.raw / BOUND)
        near = distances.abs() < self.width
        index = (distances + self.width - 1).clamp(0, 2 * self.width - 2)
        return torch.where(near, delta[index], 0.0)


COMPONENT = Proximity
