"""Attention summed out at the input: soft attention."""

from __future__ import annotations

import torch

from pam.models.memory import Memory
from pam.models.parts import Attention, Marginal, Marginalization
from pam.models.readout import Readout
from pam.models.sizes import Sizes


class Input(Marginalization):
    """p(y_t) = p(y_t | s_t, sum_a prior_t(a) h_a) (equations 2 and 8).

    The readout's product with the context is taken as the weighted sum of its products with the
    encoder states, which is the same number.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(self, attention: Attention, memory: Memory, readout: Readout) -> Marginal:
        context = torch.einsum("bm,bmr->br", attention.log_prior.exp(), memory.readout)
        return Marginal(log_probs=readout(attention.viewed, context))


COMPONENT = Input
