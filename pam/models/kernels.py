"""Hand-made gradients: what plain autograd would compute, at the speed of a few large products.

A decoder uses the same weights at every step. Autograd would add up their gradient step by step,
one thin product each. Here a layer that steps share notes what each step gives to its gradient and
takes all of it in one product, once the last of the steps has been differentiated. Every kernel has
a plain twin of a few lines, by which it is defined and tested. The kernels of the output layer are
in `output_kernels`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.logspace import tanh_
from pam.runtime.torch_internals import (
    fused_lstm_cell,
    fused_lstm_cell_backward,
    has_fused_lstm_cell,
    onednn_float32,
)

F = TypeVar("F", bound=Callable[..., Any])


class Tape(ABC):
    """What the steps of a batch note for the gradient of the tensors that they share."""

    @abstractmethod
    def gradients(self) -> tuple[Tensor | None, ...]:
        """Gradients of the shared tensors, from the notes of all steps, which are then dropped."""


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


# Factors of products with a shared weight.


class Products:
    """Who takes the float32 products of these kernels on a CPU: oneDNN, or what torch takes by
    itself, MKL as a rule.

    A process has one answer, that of `pam.runtime.devices.use_precision`.
    """

    by_onednn = False


def large_products(function: F) -> F:
    """Lets `Products` decide who takes the products of this function.

    Those outside of these kernels, such as batches of small ones, come in too many shapes for
    oneDNN.
    """

    @wraps(function)
    def wrapped(*args: Any) -> Any:
        with onednn_float32() if Products.by_onednn else nullcontext():
            return function(*args)

    return cast(F, wrapped)


def padded_size(rows: int, bf16: bool) -> int:
    """So many rows, or a few more where products are oneDNN's: a multiple of 16, and of a 32nd of
    the size.

    oneDNN compiles a program for each shape that it meets. The rows that have not ended, the tokens
    and the pairs of a batch have another number each time, so that a fifth of the time went into
    compiling, and much memory into programs. Of these sizes there are but 16 from any number to its
    double.
    """
    if not (bf16 or Products.by_onednn):
        return rows
    step = max(16, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def factor(x: Tensor, bf16: bool) -> Tensor:
    """A factor (n, X) of a product, in bfloat16 if that is wanted, with rows of zeros up to the
    `padded_size`.
    """
    rows, dtype = len(x), torch.bfloat16 if bf16 else x.dtype
    size = padded_size(rows, bf16)
    if size == rows:
        return x.to(dtype)
    whole = x.new_empty(size, x.shape[1], dtype=dtype)
    whole[:rows] = x
    whole[rows:].zero_()
    return whole


def stacked(parts: Sequence[Tensor], bf16: bool) -> Tensor:
    """Rows of all parts (n, X), one after another; else as of `factor`."""
    if len(parts) == 1:
        return factor(parts[0], bf16)
    rows, dtype = sum(map(len, parts)), torch.bfloat16 if bf16 else parts[0].dtype
    whole = parts[0].new_empty(padded_size(rows, bf16), parts[0].shape[1], dtype=dtype)
    torch.cat([part.to(dtype) for part in parts], out=whole[:rows])
    whole[rows:].zero_()
    return whole


def trimmed(x: Tensor, rows: int) -> Tensor:
    """The first rows (rows, X); without padding it is x itself, as a view for each step of a batch
    takes time.
    """
    return x if len(x) == rows else x[:rows]


def product(x: Tensor, weight: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """x W, (rows, Y), of a `factor`, in another type if need be."""
    return trimmed(x @ weight, rows).to(dtype)


# The LSTM cell.


def lstm_cell_plain(
    before: Tensor, x: Tensor, h: Tensor, c: Tensor, wx: Tensor, wh: Tensor
) -> tuple[Tensor, Tensor]:
    """The definition that `LSTMCell` computes; gates in torch's order."""
    i, f, g, o = (before + x @ wx.t() + h @ wh.t()).chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class LSTMCell:
    """One step of an LSTM layer, (h, c) from (h, c), whose weights many steps share: `wx` (4H, X)
    of the layer's input, `wh` (4H, H) of its own last output. With `bf16`, products are taken in
    bfloat16.
    """

    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool = False) -> None:
        self.tape = _CellTape(wx.detach(), wh.detach(), bf16)
        self.anchor = Anchor.apply(self.tape, wx, wh)

    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """New h and c, (n, H) each, from the last ones, x (n, X), and all else of the gates, (n,
        4H) or (4H,).
        """
        cell = _FusedCell if has_fused_lstm_cell(h) else _Cell
        state: tuple[Tensor, Tensor] = cell.apply(self.anchor, self.tape, before, x, h, c)
        return state


class _CellTape(Tape):
    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool) -> None:
        self.wx, self.wh = (wx.bfloat16(), wh.bfloat16()) if bf16 else (wx, wh)
        self.bf16, self.dtype = bf16, wx.dtype
        self.notes: list[tuple[Tensor, Tensor, Tensor]] = []

    @large_products
    def gradients(self) -> tuple[Tensor | None, ...]:
        dgates, x, h = (stacked(parts, self.bf16) for parts in zip(*self.notes, strict=True))
        self.notes = []
        dgates = dgates.t()
        return (dgates @ x).to(self.dtype), (dgates @ h).to(self.dtype)


class _Cell(Function):
    @staticmethod
    @large_products
    def forward(
        ctx: Any, anchor: Tensor, tape: _CellTape, before: Tensor, x: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows, hidden = h.shape
        inputs = factor(x, tape.bf16), factor(h, tape.bf16)
        if inputs[1] is h:
            gates = torch.addmm(before, x, tape.wx.t()).addmm_(h, tape.wh.t())
        else:
            gates = before + torch.addmm(inputs[0] @ tape.wx.t(), inputs[1], tape.wh.t())[:rows]
        parts = gates.view(rows, 4, hidden)
        parts[:, 2].mul_(2)  # one sigmoid serves all gates: tanh(g) = 2 sigmoid(2g) - 1
        gates.sigmoid_()
        i, f, g, o = parts.unbind(1)
        new = (f * c).addcmul_(i, g, value=2).sub_(i)
        squashed = torch.mul(new, 2).sigmoid_()
        output = (o * squashed).mul_(2).sub_(o)
        ctx.tape, ctx.inputs, ctx.shared_before = (
            tape,
            [trimmed(part, rows) for part in inputs],
            before.dim() == 1,
        )
        ctx.save_for_backward(parts, squashed, c)
        return output, new

    @staticmethod
    @once_differentiable
    @large_products
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dh, dnew = grads
        gates, squashed, c = ctx.saved_tensors
        tape = ctx.tape
        i, f, g, o = gates.unbind(1)
        slope = torch.addcmul(squashed, squashed, squashed, value=-1)
        dc = torch.addcmul(dnew, slope.mul_(o), dh, value=4)
        # The slope of each gate's sigmoid, times what the gate is multiplied with.
        dgates = torch.addcmul(gates, gates, gates, value=-1)
        di, df, dg, do = dgates.unbind(1)
        di.mul_((2 * g).sub_(1)).mul_(dc)
        df.mul_(c).mul_(dc)
        dg.mul_(i).mul_(dc).mul_(4)
        do.mul_((2 * squashed).sub_(1)).mul_(dh)
        flat = dgates.flatten(1)
        errors, rows = factor(flat, tape.bf16), len(flat)
        tape.notes.append((trimmed(errors, rows), *ctx.inputs))
        before = flat.sum(0) if ctx.shared_before else flat
        dx, dh_before = (product(errors, weight, rows, flat.dtype) for weight in (tape.wx, tape.wh))
        return None, None, before, dx, dh_before, dc.mul_(f)


class _FusedCell(Function):
    """The same on CUDA, in float32: torch's kernel takes all gates in one launch, and launches take
    the time there.
    """

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, tape: _CellTape, before: Tensor, x: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        of_input, of_state = torch.addmm(before, x, tape.wx.t()), h @ tape.wh.t()
        output, new, gates = fused_lstm_cell(of_input, of_state, c)
        ctx.tape, ctx.inputs, ctx.shared_before = tape, (x, h), before.dim() == 1
        ctx.save_for_backward(gates, c, new)
        return output, new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        gates, c, new = ctx.saved_tensors
        tape, (dh, dnew) = ctx.tape, (part.contiguous() for part in grads)
        dgates, dc = fused_lstm_cell_backward(dh, dnew, c, new, gates)
        tape.notes.append((dgates, *ctx.inputs))
        before = dgates.sum(0) if ctx.shared_before else dgates
        return None, None, before, dgates @ tape.wx, dgates @ tape.wh, dc


# The additive score.


def additive_plain(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    covered: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """v . tanh(k_a + q + c_a w), the definition that `additive` computes."""
    hidden = keys + query[:, None]
    if covered is not None and weight is not None:
        hidden = hidden + covered[:, :, None] * weight
    return torch.tanh(hidden) @ vector


def additive(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    covered: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """The scores (n, m) of keys (n, m, U) for queries (n, U), with the vector v (U,), and, where it
    counts, what was covered (n, m) before, by its weight (U,).

    The hidden layer, which is m times as large as all else of a step, is computed once more in the
        backward pass: of many steps over long sources it would fill gigabytes.
    """
    found: Tensor = _Additive.apply(keys, query, vector, covered, weight)
    return found


class _Additive(Function):
    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        query: Tensor,
        vector: Tensor,
        covered: Tensor | None,
        weight: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(keys, query, vector, covered, weight)
        return _hidden(keys, query, covered, weight) @ vector

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        keys, query, vector, covered, weight = ctx.saved_tensors
        hidden = _hidden(keys, query, covered, weight)
        dvector = grads[0].flatten() @ hidden.flatten(0, 1)
        dkeys = hidden.mul_(hidden).neg_().add_(1).mul_(vector).mul_(grads[0][:, :, None])
        dcovered = dweight = None
        if covered is not None and weight is not None:
            dcovered, dweight = dkeys @ weight, covered.flatten() @ dkeys.flatten(0, 1)
        return dkeys, dkeys.sum(1), dvector, dcovered, dweight


def _hidden(keys: Tensor, query: Tensor, covered: Tensor | None, weight: Tensor | None) -> Tensor:
    hidden = keys + query[:, None]
    if covered is not None and weight is not None:
        hidden.addcmul_(covered[:, :, None], weight)
    return tanh_(hidden)


# A linear layer that many steps share.


class SharedLinear:
    """x W^T + b, the plain linear layer, whose gradients all steps give at once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, bf16: bool = False) -> None:
        self.tape = _LinearTape(weight.detach(), None if bias is None else bias.detach(), bf16)
        self.anchor = Anchor.apply(self.tape, weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, X) to (n, Y)."""
        found: Tensor = _Linear.apply(self.anchor, self.tape, x)
        return found


class _LinearTape(Tape):
    def __init__(self, weight: Tensor, bias: Tensor | None, bf16: bool) -> None:
        self.weight, self.bias, self.bf16 = weight.bfloat16() if bf16 else weight, bias, bf16
        self.notes: list[tuple[Tensor, Tensor]] = []

    @large_products
    def gradients(self) -> tuple[Tensor | None, ...]:
        dy, x = zip(*self.notes, strict=True)
        self.notes = []
        errors = stacked(dy, self.bf16)
        dweight = (errors.t() @ stacked(x, self.bf16)).to(dy[0].dtype)
        if self.bias is None:
            return dweight, None
        return dweight, (torch.cat(dy) if self.bf16 else errors).sum(0)


class _Linear(Function):
    @staticmethod
    @large_products
    def forward(ctx: Any, anchor: Tensor, tape: _LinearTape, x: Tensor) -> Tensor:
        ctx.tape = tape
        ctx.save_for_backward(x)
        rough = factor(x, tape.bf16)
        if tape.bias is not None and rough is x:
            return torch.addmm(tape.bias, x, tape.weight.t())
        if tape.bias is None:
            return product(rough, tape.weight.t(), len(x), x.dtype)
        return tape.bias + trimmed(rough @ tape.weight.t(), len(x))

    @staticmethod
    @once_differentiable
    @large_products
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        tape, dy = ctx.tape, grads[0]
        tape.notes.append((dy, x))
        return None, None, product(factor(dy, tape.bf16), tape.weight, len(x), x.dtype)


class SearchLinear:
    """x W^T + b for search, where nothing asks for a gradient.

    With `bf16`, of a weight that is converted once, and transposed as oneDNN wants it: it would do
    that at every call, which takes as long as the product.
    """

    def __init__(self, weight: Tensor, bias: Tensor, bf16: bool = False) -> None:
        self.weight, self.bias = weight.detach().t(), bias.detach()
        self.rough = self.weight.bfloat16().contiguous() if bf16 else None
        self.held: Tensor | None = None

    @large_products
    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """(n, X) to (n, Y), which `out` may have a place for."""
        if self.rough is None:
            return torch.addmm(self.bias, x, self.weight, out=out)
        factors = factor(x, bf16=True)
        if self.held is None or len(self.held) < len(factors):
            # fresh memory costs as much as a product
            self.held = factors.new_empty(len(factors), self.rough.shape[1])
        found = torch.mm(factors, self.rough, out=self.held[: len(factors)])[: len(x)]
        return (found.to(x.dtype) if out is None else out.copy_(found)).add_(self.bias)


# A matrix for each sentence, which attention reads from either side.


def scores_plain(matrix: Tensor, x: Tensor) -> Tensor:
    """matrix . x: (n, m, D) and (n, D) to (n, m)."""
    return torch.einsum("nmd,nd->nm", matrix, x)


def read_plain(matrix: Tensor, weights: Tensor) -> Tensor:
    """sum_a weights(a) matrix(a): (n, m, D) and (n, m) to (n, D)."""
    return torch.einsum("nmd,nm->nd", matrix, weights)


class SourceMatrix:
    """A matrix of m rows for each sentence, (B, m, D), which many steps multiply.

    Steps have n rows: in training those of the first n sentences, in decoding the `beam` hypotheses
    of each sentence, one after another, which share its matrix.
    """

    def __init__(self, matrix: Tensor, beam: int = 1) -> None:
        self.matrix, self.beam = matrix, beam
        self.tape = _MatrixTape(matrix.detach())
        self.anchor = Anchor.apply(self.tape, matrix)

    def scores(self, x: Tensor) -> Tensor:
        """matrix . x for x (n, D): (n, m)."""
        if self.beam > 1:
            return (self._beams(x) @ self.matrix.transpose(1, 2)).flatten(0, 1)
        found: Tensor = _Scores.apply(self.anchor, self.tape, x)
        return found

    def read(self, weights: Tensor) -> Tensor:
        """sum_a weights(a) matrix(a) for weights (n, m): (n, D)."""
        if self.beam > 1:
            return (self._beams(weights) @ self.matrix).flatten(0, 1)
        found: Tensor = _Read.apply(self.anchor, self.tape, weights)
        return found

    def select(self, rows: Tensor) -> SourceMatrix:
        """Those of the given sentences."""
        return SourceMatrix(self.matrix.index_select(0, rows), self.beam)

    def _beams(self, x: Tensor) -> Tensor:
        return x.view(-1, self.beam, x.shape[1])


class _MatrixTape(Tape):
    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.products: Tensor | None = (
            None  # overwritten by each step: fresh memory would take most of its time
        )
        self.notes: list[tuple[Tensor, Tensor]] = []

    def times(self, x: Tensor) -> Tensor:
        """matrix .

        x, (n, m). On a CPU this is several times faster than a batched product of a matrix and a
        vector.
        """
        self.products = torch.empty_like(self.matrix) if self.products is None else self.products
        return torch.mul(self.matrix[: len(x)], x[:, None], out=self.products[: len(x)]).sum(2)

    def gradients(self) -> tuple[Tensor | None, ...]:
        left, right = (_padded(parts, len(self.matrix)) for parts in zip(*self.notes, strict=True))
        self.notes = []
        return (torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1)),)


def _padded(parts: tuple[Tensor, ...], rows: int) -> Tensor:
    """Steps of at most so many rows, with zeros where a step has fewer: (T, rows, ...)."""
    if all(len(part) == rows for part in parts):
        return torch.stack(parts)
    whole = parts[0].new_zeros(len(parts), rows, *parts[0].shape[1:])
    for place, part in zip(whole, parts, strict=True):
        place[: len(part)] = part
    return whole


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
        ctx.tape.notes.append((grads[0], x))
        return None, None, torch.bmm(grads[0][:, None], ctx.tape.matrix[: len(x)]).squeeze(1)


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
        ctx.tape.notes.append((weights, grads[0]))
        matrix, grad = ctx.tape.matrix, grads[0]
        if matrix.is_cuda:  # one launch in place of two
            return None, None, torch.bmm(matrix[: len(grad)], grad[:, :, None]).squeeze(2)
        return None, None, ctx.tape.times(grad)
