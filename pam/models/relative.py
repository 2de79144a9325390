"""Couplings whose energy k(a, a') depends on the distance a - a' alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from pam.io import UserError
from pam.models.logspace import safe_log
from pam.models.parts import Coupling, Distribution

First = Literal["free", "before"]


class RelativeCoupling(Coupling):
    """prior_t(a) = sum_a' previous(a') softmax_a(e_t(a) + k(a - a')) (section 2.3.1).

    The paper does not say what the first step is coupled to.

    Args:
        first: `free` (default): nothing, k = 0, as there is no previous alignment; `before`: a
            position just before the source, a' = -1.
    """

    def __init__(self, first: First = "free") -> None:
        super().__init__()
        if first not in ("free", "before"):
            raise UserError(f"coupling option `first` is {first!r}", hint="use `free` or `before`")
        self.starts_before = first == "before"

    @abstractmethod
    def energies(self, distances: Tensor) -> Tensor:
        """k(d) of integer distances d = a - a', of any shape."""

    def forward(
        self, scores: Tensor, previous: Tensor | None, mask: Tensor, distribution: Distribution
    ) -> Tensor:
        positions = torch.arange(scores.shape[-1], device=scores.device)
        if previous is None:
            if self.starts_before:
                scores = scores + self.energies(positions + 1)
            log_prior: Tensor = distribution(scores, mask)
            return log_prior
        energies = self.energies(positions[None, :] - positions[:, None])  # (a', a)
        log_transition = distribution(scores[:, None, :] + energies, mask[:, None, :])
        return torch.logsumexp(safe_log(previous)[:, :, None] + log_transition, dim=1)
