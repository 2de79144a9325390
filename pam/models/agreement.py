"""Both directions of translation trained together, with a bonus where their attention agrees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models.seq2seq import Seq2Seq, pay_at_end


class Agreement(Seq2Seq):
    """A model x to y, trained with one y to x (Cohn et al. 2016, section 3.3). It maximizes

        log p(y | x) + log p(x | y) + weight * tr(A_{x to y} A_{y to x}),

    where row t of A_{x to y} is the attention of y_t over x, and row a of A_{y to x} that of x_a over y: the trace is
    high where they are each other's transpose. It decodes as a model x to y.
    """

    def __init__(self, ahead: Seq2Seq, back: Seq2Seq, weight: float) -> None:
        parts: dict[str, Any] = dict(ahead.named_children())
        super().__init__(**parts)
        self.back, self.weight = back, weight

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        values, prior = self.objective_and_prior(source, lengths, target)
        turned = target, (target != PAD).sum(1), source
        return self.agreed(source, target, values, prior, *self.back.objective_and_prior(*turned))

    def agreed(
        self, source: Tensor, target: Tensor, values: Tensor, prior: Tensor, back_values: Tensor, back_prior: Tensor
    ) -> Tensor:
        """The objective, (B, T), from those of both directions: values (B, T) and attention (B, T, m) of x to y, (B, m)
        and (B, m, T) of y to x."""
        real, real_source = target != PAD, source != PAD
        both = prior * back_prior.transpose(1, 2)
        trace = (both * (real[:, :, None] & real_source[:, None])).sum((1, 2))
        other = torch.where(real_source, back_values, 0.0).sum(1)
        return pay_at_end(values, other + self.weight * trace, target)

    def progress(self, share: float) -> None:
        super().progress(share)
        self.back.progress(share)
