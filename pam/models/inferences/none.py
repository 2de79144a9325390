"""No inference network: the likelihood itself is trained."""

from __future__ import annotations

from torch import Tensor

from pam.models.parts import Embed, Inference
from pam.models.sizes import Sizes


class NoInference(Inference):
    """There is no q."""

    infers = False

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


COMPONENT = NoInference
