"""Hand-made gradients: what plain autograd would compute, at the speed of a few large products.

A decoder uses the same weights at every step. Autograd would add up their gradient step by step,
one thin product each. Here a layer that steps share has a `Tape`: in the backward pass each step
notes the factors of its share of the gradient, and one product takes all shares once the last of
the steps has been differentiated.

Every kernel has a plain twin of a few lines, by which it is defined and tested. The kernels of the
output layer are in `output_kernels`.
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


# Factors of products with a shared weight.


class Products:
    """The library that takes the float32 products of these kernels on a CPU.

    It is oneDNN, or torch's own choice, MKL as a rule. `pam.runtime.devices.use_precision` decides
    it once for a process.
    """

    by_onednn = False


def large_products(function: F) -> F:
    """Let `Products` decide which library takes the products of this function.

    Products outside of these kernels, such as batches of small ones, come in too many shapes for
    oneDNN.
    """

    @wraps(function)
    def wrapped(*args: Any) -> Any:
        with onednn_float32() if Products.by_onednn else nullcontext():
            return function(*args)

    return cast(F, wrapped)


def padded_size(rows: int, bf16: bool) -> int:
    """Round a number of rows up where oneDNN takes the products.

    The result is a multiple of 16, and of a 32nd of the size. oneDNN compiles a program for each
    shape that it meets. The rows that have not ended, the tokens and the pairs of a batch have
    another number each time, so that a fifth of the time went into compiling, and much memory into
    programs. Of these sizes there are only 16 between any number and its double.
    """
    if not (bf16 or Products.by_onednn):
        return rows

    step = max(16, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def factor(x: Tensor, bf16: bool) -> Tensor:
    """Return a factor (n, X) of a product, with rows of zeros up to the `padded_size`.

    With `bf16`, it is in bfloat16.
    """
    rows = len(x)
    dtype = torch.bfloat16 if bf16 else x.dtype
    size = padded_size(rows, bf16)
    if size == rows:
        return x.to(dtype)

    padded = x.new_empty(size, x.shape[1], dtype=dtype)
    padded[:rows] = x
    padded[rows:].zero_()
    return padded


def stacked(parts: Sequence[Tensor], bf16: bool) -> Tensor:
    """Return a `factor` of the rows of all parts (n, X), one after another."""
    if len(parts) == 1:
        return factor(parts[0], bf16)

    rows = sum(map(len, parts))
    dtype = torch.bfloat16 if bf16 else parts[0].dtype
    padded = parts[0].new_empty(padded_size(rows, bf16), parts[0].shape[1], dtype=dtype)
    torch.cat([part.to(dtype) for part in parts], out=padded[:rows])
    padded[rows:].zero_()
    return padded


def trimmed(x: Tensor, rows: int) -> Tensor:
    """Return the first rows of x, (rows, X).

    Without padding this is x itself, as a view for each step of a batch takes time.
    """
    if len(x) == rows:
        return x
    return x[:rows]


def product(x: Tensor, weight: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Return x W, (rows, Y), of a `factor` x, in the type `dtype`."""
    return trimmed(x @ weight, rows).to(dtype)


# The LSTM cell.


def lstm_cell_plain(
    before: Tensor, x: Tensor, h: Tensor, c: Tensor, wx: Tensor, wh: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute one step of an LSTM layer, the definition of `LSTMCell`; gates in torch's order."""
    i, f, g, o = (before + x @ wx.t() + h @ wh.t()).chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)

    return torch.sigmoid(o) * torch.tanh(c), c


class LSTMCell:
    """One step of an LSTM layer, (h, c) from (h, c), whose weights many steps share.

    Args:
        wx: (4H, X) the weight of the layer's input.
        wh: (4H, H) the weight of its own last output.
        bf16: whether products are taken in bfloat16.
    """

    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool = False) -> None:
        self.tape = _CellTape(wx.detach(), wh.detach(), bf16)
        self.anchor = Anchor.apply(self.tape, wx, wh)

    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return new h and c, (n, H) each.

        Args:
            before: (n, 4H) or (4H,) what else is added to the gates, with the biases.
            x: (n, X) the layer's input.
            h, c: (n, H) the last ones.
        """
        cell = _FusedCell if has_fused_lstm_cell(h) else _Cell
        state: tuple[Tensor, Tensor] = cell.apply(self.anchor, self.tape, before, x, h, c)
        return state


class _CellTape(Tape):
    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool) -> None:
        self.wx = wx
        self.wh = wh
        if bf16:
            self.wx = wx.bfloat16()
            self.wh = wh.bfloat16()

        self.bf16 = bf16
        self.dtype = wx.dtype
        self.notes: list[tuple[Tensor, Tensor, Tensor]] = []  # of each step dgates, x and h

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
        x_factor = factor(x, tape.bf16)
        h_factor = factor(h, tape.bf16)
        if h_factor is h:
            gates = torch.addmm(before, x, tape.wx.t()).addmm_(h, tape.wh.t())
        else:
            gates = before + torch.addmm(x_factor @ tape.wx.t(), h_factor, tape.wh.t())[:rows]

        # One sigmoid serves all gates: tanh(g) = 2 sigmoid(2g) - 1.
        by_gate = gates.view(rows, 4, hidden)
        by_gate[:, 2].mul_(2)
        gates.sigmoid_()

        # c' = f c + i (2 g - 1), h' = o (2 squashed - 1) with squashed = sigmoid(2 c')
        i, f, g, o = by_gate.unbind(1)
        new_c = (f * c).addcmul_(i, g, value=2).sub_(i)
        squashed = torch.mul(new_c, 2).sigmoid_()
        new_h = (o * squashed).mul_(2).sub_(o)

        ctx.tape = tape
        ctx.inputs = trimmed(x_factor, rows), trimmed(h_factor, rows)
        ctx.shared_before = before.dim() == 1
        ctx.save_for_backward(by_gate, squashed, c)
        return new_h, new_c

    @staticmethod
    @once_differentiable
    @large_products
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dh, dnew = grads
        gates, squashed, c = ctx.saved_tensors
        tape = ctx.tape
        i, f, g, o = gates.unbind(1)

        # The gradient of the new c, by itself and by the new h.
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
        rows = len(flat)
        errors = factor(flat, tape.bf16)
        tape.notes.append((trimmed(errors, rows), *ctx.inputs))

        dbefore = flat.sum(0) if ctx.shared_before else flat
        dx = product(errors, tape.wx, rows, flat.dtype)
        dh_before = product(errors, tape.wh, rows, flat.dtype)
        return None, None, dbefore, dx, dh_before, dc.mul_(f)


class _FusedCell(Function):
    """An LSTM cell on CUDA, in float32, where launches take the time.

    Torch's kernel takes all gates in one launch.
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

        dbefore = dgates.sum(0) if ctx.shared_before else dgates
        return None, None, dbefore, dgates @ tape.wx, dgates @ tape.wh, dc


# The additive score.


def additive_plain(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    features: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Return v . tanh(k_a + q + W f_a), the definition of `additive`."""
    hidden = keys + query[:, None]
    if features is not None and weight is not None:
        hidden = hidden + features @ weight

    return torch.tanh(hidden) @ vector


def additive(
    keys: Tensor,
    query: Tensor,
    vector: Tensor,
    features: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Return the scores v . tanh(k_a + q + W f_a), (n, m).

    The hidden layer, which is m times as large as all else of a step, is computed once more in the
    backward pass: of many steps over long sources it would fill gigabytes.

    Args:
        keys: (n, m, U) k; query: (n, U) q; vector: (U,) v.
        features: (n, m, F) f of a position, such as what was attended before; None: there are none.
        weight: (F, U) W, with them.
    """
    scores: Tensor = _Additive.apply(keys, query, vector, features, weight)
    return scores


class _Additive(Function):
    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        query: Tensor,
        vector: Tensor,
        features: Tensor | None,
        weight: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(keys, query, vector, features, weight)
        return _hidden(keys, query, features, weight) @ vector

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        keys, query, vector, features, weight = ctx.saved_tensors
        hidden = _hidden(keys, query, features, weight)

        dvector = grads[0].flatten() @ hidden.flatten(0, 1)
        # The slope of tanh is 1 - hidden^2.
        dkeys = hidden.mul_(hidden).neg_().add_(1).mul_(vector).mul_(grads[0][:, :, None])
        dfeatures = dweight = None
        if features is not None and weight is not None:
            dfeatures = dkeys @ weight.t()
            dweight = features.flatten(0, 1).t() @ dkeys.flatten(0, 1)

        return dkeys, dkeys.sum(1), dvector, dfeatures, dweight


def _hidden(keys: Tensor, query: Tensor, features: Tensor | None, weight: Tensor | None) -> Tensor:
    """Return the hidden layer of the additive score, (n, m, U)."""
    hidden = keys + query[:, None]
    if features is not None and weight is not None:
        hidden.flatten(0, 1).addmm_(features.flatten(0, 1), weight)

    return tanh_(hidden)


# A linear layer that many steps share.


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


# A matrix for each sentence, which attention reads from either side.


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
