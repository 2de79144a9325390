"""The LSTM cell."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.kernels.products import factor, large_products, product, stacked, trimmed
from pam.models.kernels.tape import Anchor, Tape
from pam.runtime.torch_internals import (
    fused_lstm_cell,
    fused_lstm_cell_backward,
    has_fused_lstm_cell,
)


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
