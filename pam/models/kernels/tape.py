"""Gradients of tensors that the steps of a batch share, taken once for all steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Tape(ABC):
    """The notes of a batch's steps for the gradient of the tensors that they share."""

    @abstractmethod
    def gradients(self) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the shared tensors from the notes of all steps.

        The notes are then dropped.
        """


class Anchor(Function):
    """The node of the shared tensors: every step depends on it, so it is differentiated last."""

    @staticmethod
    def forward(ctx: Any, tape: Tape, *shared: Tensor) -> Tensor:
        ctx.tape = tape

        return shared[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.tape.gradients()
