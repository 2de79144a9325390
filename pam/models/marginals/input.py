"""Attention summed out at the input: soft attention."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.parts import Marginal, Marginalisation, Memory, Readout, Sizes


class Input(Marginalisation):
    """p(y_t) = p(y_t | s_t, sum_a prior_t(a) h_a) (equations 2 and 8).

    The readout's product with the context is taken as the weighted sum of its products with the
    encoder states, which is the same number.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, query: Tensor, log_prior: Tensor, memory: Memory, readout: Readout
    ) -> Marginal:
        context = torch.einsum("bm,bmr->br", log_prior.exp(), memory.readout)
        return Marginal(log_probs=readout(query, context))


COMPONENT = Input
