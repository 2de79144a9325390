"""No attention: the source reaches the output through the decoder's states alone."""

from __future__ import annotations

import torch

from pam.models.memory import Memory
from pam.models.parts import Attention, Marginal, Marginalization
from pam.models.readout import Readout
from pam.models.sizes import Sizes


class NoAttention(Marginalization):
    """p(y_t) = p(y_t | s_t), with the encoder's last state passed on as the decoder's first one
    (Sutskever et al. 2014)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(self, attention: Attention, memory: Memory, readout: Readout) -> Marginal:
        viewed = attention.viewed
        return Marginal(log_probs=readout(viewed, torch.zeros_like(viewed)))


COMPONENT = NoAttention
