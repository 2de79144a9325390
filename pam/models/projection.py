"""Distributions that are projections onto the simplex: probabilities of exactly zero."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.logspace import safe_log
from pam.models.parts import Distribution


class Projection(Distribution):
    """A distribution with zeros, whose gradient is a closed form of its probabilities alone."""

    @abstractmethod
    def project(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Probabilities, outside of autograd.

        Args:
            scores: (..., m), of any value where `mask` is false.
            mask: (..., m), broadcastable, true at real positions, at least one in each row.

        Returns:
            (..., m), exactly 0 outside the support and at padding.
        """

    @abstractmethod
    def pull_back(self, probabilities: Tensor, gradient: Tensor) -> Tensor:
        """Gradient of the scores from that of what `project` gave; all (..., m).

        The gradient by a probability that is zero is not looked at: nothing moves it.
        """

    def probabilities(self, scores: Tensor, mask: Tensor) -> Tensor:
        """`project`, differentiable."""
        result: Tensor = _Projected.apply(self, scores, mask)
        return result

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return safe_log(self.probabilities(scores, mask))


class _Projected(Function):
    @staticmethod
    def forward(ctx: Any, projection: Projection, scores: Tensor, mask: Tensor) -> Tensor:
        probabilities = projection.project(scores, mask)
        ctx.projection = projection
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (probabilities,) = ctx.saved_tensors
        return None, ctx.projection.pull_back(probabilities, gradient), None
