"""No latent vector: contexts are what the alignment makes of the encoder states."""

from __future__ import annotations

from pam.models.parts import Latent
from pam.models.sizes import Sizes


class NoLatent(Latent):
    """c_t = sum_a alignment_t(a) h_a, and nothing else."""

    draws = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()


COMPONENT = NoLatent
