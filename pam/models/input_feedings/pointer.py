"""The pointer is fed back: it moves by one position at each step action."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.data.vocabulary import STEP
from pam.models.memory import Memory
from pam.models.parts import Attention, Feedback, Marginal
from pam.models.sizes import Sizes


class Pointer(Feedback):
    """c_t = h at the pointer, which starts at position 0 (Aharoni & Goldberg 2017).

    At the last position a further step action leaves the pointer where it is.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def first(self, memory: Memory) -> Tensor:
        alignment = memory.values.new_zeros(memory.mask.shape)
        alignment[:, 0] = 1.0
        return alignment

    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        alignment = attention.log_prior.exp()
        last = torch.nn.functional.pad(~mask[:, 1:], (0, 1), value=True) & mask
        moved = torch.nn.functional.pad(alignment[:, :-1] * ~last[:, :-1], (1, 0))
        moved = moved + alignment * last
        return torch.where((symbol == STEP)[:, None], moved, alignment)


COMPONENT = Pointer
