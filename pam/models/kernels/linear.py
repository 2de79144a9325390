"""A linear layer that many steps share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.kernels.products import factor, large_products, product, stacked, trimmed
from pam.models.kernels.tape import Anchor, Tape


class SharedLinear:
    """x W^T + b, the plain linear layer; its gradients are taken for all steps at once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, bf16: bool = False) -> None:
        detached_bias = bias
        if bias is not None:
            detached_bias = bias.detach()

        self.tape = _LinearTape(weight.detach(), detached_bias, bf16)
        self.anchor = Anchor.apply(self.tape, weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return y = x W^T + b, (n, Y), of x (n, X)."""
        y: Tensor = _Linear.apply(self.anchor, self.tape, x)
        return y


class _LinearTape(Tape):
    def __init__(self, weight: Tensor, bias: Tensor | None, bf16: bool) -> None:
        self.weight = weight
        if bf16:
            self.weight = weight.bfloat16()

        self.bias = bias
        self.bf16 = bf16
        self.notes: list[tuple[Tensor, Tensor]] = []  # of each step dy and x

    @large_products
    def gradients(self) -> tuple[Tensor | None, ...]:
        dy, x = zip(*self.notes, strict=True)
        self.notes = []

        errors = stacked(dy, self.bf16)
        dweight = (errors.t() @ stacked(x, self.bf16)).to(dy[0].dtype)
        if self.bias is None:
            return dweight, None

        # The sum is not taken in bfloat16.
        if self.bf16:
            errors = torch.cat(dy)
        return dweight, errors.sum(0)


class _Linear(Function):
    @staticmethod
    @large_products
    def forward(ctx: Any, anchor: Tensor, tape: _LinearTape, x: Tensor) -> Tensor:
        ctx.tape = tape
        ctx.save_for_backward(x)

        x_factor = factor(x, tape.bf16)
        if tape.bias is not None and x_factor is x:
            return torch.addmm(tape.bias, x, tape.weight.t())
        if tape.bias is None:
            return product(x_factor, tape.weight.t(), len(x), x.dtype)
        return tape.bias + trimmed(x_factor @ tape.weight.t(), len(x))

    @staticmethod
    @once_differentiable
    @large_products
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        tape = ctx.tape
        dy = grads[0]
        tape.notes.append((dy, x))

        dx = product(factor(dy, tape.bf16), tape.weight, len(x), x.dtype)
        return None, None, dx


class SearchLinear:
    """x W^T + b for search, where nothing asks for a gradient.

    With `bf16`, the weight is converted once, and transposed as oneDNN wants it. Otherwise oneDNN
    would do that at every call, which takes as long as the product.
    """

    def __init__(self, weight: Tensor, bias: Tensor, bf16: bool = False) -> None:
        self.weight = weight.detach().t()
        self.bias = bias.detach()
        self.bf16_weight: Tensor | None = None
        if bf16:
            self.bf16_weight = self.weight.bfloat16().contiguous()

        # The last product in bfloat16, overwritten: fresh memory costs as much as a product.
        self.buffer: Tensor | None = None

    @large_products
    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return x W^T + b, (n, Y), of x (n, X), in `out` if it is given."""
        if self.bf16_weight is None:
            return torch.addmm(self.bias, x, self.weight, out=out)

        x_factor = factor(x, bf16=True)
        if self.buffer is None or len(self.buffer) < len(x_factor):
            self.buffer = x_factor.new_empty(len(x_factor), self.bf16_weight.shape[1])
        y = torch.mm(x_factor, self.bf16_weight, out=self.buffer[: len(x_factor)])[: len(x)]

        if out is not None:
            return out.copy_(y).add_(self.bias)
        return y.to(x.dtype).add_(self.bias)
