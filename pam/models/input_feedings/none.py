"""No context is fed back."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Attention, Feedback, Marginal
from pam.models.sizes import Sizes


class NoFeedback(Feedback):
    """s_t = RNN(s_{t-1}, emb(y_{t-1})): attention without input feeding (Luong et al. 2015, section
    3.3). The prior is handed on to couplings and scores."""

    feeds = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        return attention.log_prior.exp()


COMPONENT = NoFeedback
