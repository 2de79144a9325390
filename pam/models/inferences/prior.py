"""No inference network: the prior itself stands in the bound."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Embed, Inference
from pam.models.sizes import Sizes


class PriorInference(Inference):
    """q_t = prior_t, so that the bound is Jensen's, E_prior[log p(y_t | s_t, h_a)] (Xu et al. 2015;
    Orlova et al., section 2, hard attention)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        embed_source: Embed,
        embed_target: Embed,
    ) -> None:
        return None


COMPONENT = PriorInference
