"""A matrix for each sentence, which attention reads from either side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.kernels.tape import Anchor, Tape


def scores_plain(matrix: Tensor, x: Tensor) -> Tensor:
    """Return matrix . x, (n, m), of a matrix (n, m, D) and x (n, D)."""
    return torch.einsum("nmd,nd->nm", matrix, x)


def read_plain(matrix: Tensor, weights: Tensor) -> Tensor:
    """Return sum_a weights(a) matrix(a), (n, D), of a matrix (n, m, D) and weights (n, m)."""
    return torch.einsum("nmd,nm->nd", matrix, weights)


class SourceMatrix:
    """A matrix of m rows for each sentence, (B, m, D), which many steps multiply.

    Steps have n rows: in training the first n sentences, in decoding the `beam` hypotheses of each
    sentence, one after another, which share its matrix.
    """

    def __init__(self, matrix: Tensor, beam: int = 1) -> None:
        self.matrix = matrix
        self.beam = beam
        self.tape = _MatrixTape(matrix.detach())
        self.anchor = Anchor.apply(self.tape, matrix)

    def scores(self, x: Tensor) -> Tensor:
        """Return matrix . x, (n, m), of x (n, D)."""
        if self.beam > 1:
            return (self._beams(x) @ self.matrix.transpose(1, 2)).flatten(0, 1)

        scores: Tensor = _Scores.apply(self.anchor, self.tape, x)
        return scores

    def read(self, weights: Tensor) -> Tensor:
        """Return sum_a weights(a) matrix(a), (n, D), of weights (n, m)."""
        if self.beam > 1:
            return (self._beams(weights) @ self.matrix).flatten(0, 1)

        context: Tensor = _Read.apply(self.anchor, self.tape, weights)
        return context

    def select(self, rows: Tensor) -> SourceMatrix:
        """Keep the matrices of some sentences."""
        return SourceMatrix(self.matrix.index_select(0, rows), self.beam)

    def _beams(self, x: Tensor) -> Tensor:
        """View rows (n, X) as the hypotheses of each sentence, (B, beam, X)."""
        return x.view(-1, self.beam, x.shape[1])


class _MatrixTape(Tape):
    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        # Overwritten by each step: fresh memory would take most of its time.
        self.products: Tensor | None = None
        self.notes: list[tuple[Tensor, Tensor]] = []  # of each step, factors (n, m) and (n, D)

    def times(self, x: Tensor) -> Tensor:
        """Return matrix . x, (n, m), of x (n, D).

        On a CPU this is several times faster than a batched product of a matrix and a vector.
        """
        if self.products is None:
            self.products = torch.empty_like(self.matrix)

        rows = len(x)
        products = torch.mul(self.matrix[:rows], x[:, None], out=self.products[:rows])
        return products.sum(2)

    def gradients(self) -> tuple[Tensor | None, ...]:
        left, right = (_padded(parts, len(self.matrix)) for parts in zip(*self.notes, strict=True))
        self.notes = []

        return (torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1)),)


def _padded(parts: tuple[Tensor, ...], rows: int) -> Tensor:
    """Stack steps of at most `rows` rows, with zeros where a step has fewer: (T, rows, ...)."""
    if all(len(part) == rows for part in parts):
        return torch.stack(parts)

    padded = parts[0].new_zeros(len(parts), rows, *parts[0].shape[1:])
    for step, part in zip(padded, parts, strict=True):
        step[: len(part)] = part
    return padded


class _Scores(Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tape: _MatrixTape, x: Tensor) -> Tensor:
        ctx.tape = tape
        ctx.save_for_backward(x)
        return tape.times(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        matrix = ctx.tape.matrix
        dscores = grads[0]
        ctx.tape.notes.append((dscores, x))

        dx = torch.bmm(dscores[:, None], matrix[: len(x)]).squeeze(1)
        return None, None, dx


class _Read(Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tape: _MatrixTape, weights: Tensor) -> Tensor:
        ctx.tape = tape
        ctx.save_for_backward(weights)
        return torch.bmm(weights[:, None], tape.matrix[: len(weights)]).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        matrix = ctx.tape.matrix
        dcontext = grads[0]
        ctx.tape.notes.append((weights, dcontext))

        if matrix.is_cuda:  # one launch in place of two
            dweights = torch.bmm(matrix[: len(dcontext)], dcontext[:, :, None]).squeeze(2)
        else:
            dweights = ctx.tape.times(dcontext)
        return None, None, dweights
