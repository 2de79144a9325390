"""From scores to the log prior, and back: without a coupling, with one, and sparse."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pam.fast.toeplitz import Toeplitz
from pam.models.projection import Projection


class Aligner(Protocol):
    """log prior_t from scores and the previous alignment, over time, with its gradient."""

    def step(self, t: int, scores: Tensor, previous: Tensor | None) -> Tensor:
        """log prior_t (B, m) from scores (B, m), -inf at padding, and the previous alignment."""

    def back(self, t: int, dlog: Tensor, prior: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradients of the scores and of the previous alignment, from that of log prior_t."""

    def finish(self) -> list[Tensor]:
        """Gradients of the tensors that it was made from."""


class Free:
    """log prior_t = log softmax(e_t)."""

    def step(self, t: int, scores: Tensor, previous: Tensor | None) -> Tensor:
        return torch.log_softmax(scores, dim=1)

    def back(self, t: int, dlog: Tensor, prior: Tensor) -> tuple[Tensor, Tensor | None]:
        return torch.addcmul(dlog, prior, dlog.sum(1, keepdim=True), value=-1), None

    def finish(self) -> list[Tensor]:
        return []


class Sparse:
    """prior_t = a projection of e_t onto the simplex, whose zeros stay zeros.

    Args:
        distribution: gives the projection and its gradient.
    """

    def __init__(self, distribution: Projection) -> None:
        self.distribution = distribution

    def step(self, t: int, scores: Tensor, previous: Tensor | None) -> Tensor:
        return self.distribution.project(scores, scores > -torch.inf).log()

    def back(self, t: int, dlog: Tensor, prior: Tensor) -> tuple[Tensor, Tensor | None]:
        gradient = torch.where(prior > 0, dlog / prior, 0.0)
        return self.distribution.pull_back(prior, gradient), None

    def finish(self) -> list[Tensor]:
        return []


class Coupled:
    """prior_t(a) = sum_a' previous(a') softmax_a(e_t(a) + k(a - a')), in two Toeplitz products.

    With u = softmax(e_t) and M = exp(k): prior_t = u * M (previous / M^T u). M^T u is at least the
    smallest of M, so nothing is divided by zero.

    Args:
        weights: (2m - 1,) exp(k(d)) for d = -(m-1) .. m-1.
        first: (m,) energies added to the first scores; left out: none.
    """

    def __init__(self, weights: Tensor, first: Tensor | None = None) -> None:
        self.matrix = Toeplitz(weights)
        self.first = first
        self.dfirst: Tensor | None = None
        self.saved: list[tuple[Tensor, ...]] = []

    def step(self, t: int, scores: Tensor, previous: Tensor | None) -> Tensor:
        if previous is None:
            log_prior = torch.log_softmax(scores if self.first is None else scores + self.first, 1)
            self.saved.append(())
            return log_prior
        log_u = torch.log_softmax(scores, dim=1)
        u = log_u.exp()
        z = self.matrix.apply_transposed(u)
        w = previous / z
        v = self.matrix.apply(w)
        self.saved.append((u, z, w, v))
        return log_u + v.log()

    def back(self, t: int, dlog: Tensor, prior: Tensor) -> tuple[Tensor, Tensor | None]:
        if not self.saved[t]:
            dscores = torch.addcmul(dlog, prior, dlog.sum(1, keepdim=True), value=-1)
            self.dfirst = None if self.first is None else dscores.sum(0)
            return dscores, None
        u, z, w, v = self.saved[t]
        dv = dlog / v
        dw = self.matrix.apply_transposed(dv)
        dprevious = dw / z
        dz = -dprevious * w
        dlog_u = torch.addcmul(dlog, u, self.matrix.apply(dz))
        dscores = torch.addcmul(dlog_u, u, dlog_u.sum(1, keepdim=True), value=-1)
        self.saved[t] = (dv, w, u, dz)
        return dscores, dprevious

    def finish(self) -> list[Tensor]:
        # Gathered over all steps at once.
        kept = [parts for parts in self.saved if parts]
        first = [] if self.dfirst is None else [self.dfirst]
        if not kept:
            return [self.matrix.zeros(), *first]
        dv, w, u, dz = (torch.cat(parts) for parts in zip(*kept, strict=True))
        return [self.matrix.gradient(torch.cat([dv, u]), torch.cat([w, dz])), *first]
