"""One LSTM layer over time, stepped by hand in both directions.

tanh(x) = 2 sigmoid(2x) - 1: the rows of the candidate gate arrive doubled, so that one sigmoid,
several times cheaper than a tanh on a CPU, serves all four gates.
"""

from __future__ import annotations

import torch
from torch import Tensor


def doubled_candidate(parameter: Tensor) -> Tensor:
    """Doubles the candidate gate's rows (the third quarter) of a weight or bias (4H, ...)."""
    i, f, g, o = parameter.chunk(4)
    return torch.cat([i, f, 2 * g, o])


class Layer:
    """An LSTM layer with its history.

    Args:
        before: (T, B, 4H) or (4H,) what the gates get besides the two products below.
        wx: (4H, X) weight of the layer's input at each step; wh: (4H, H) of its own last output.
        h, c: (B, H) first state.
        masks: (T, B, H) dropout masks of its output, or None.
        steps: T.
    """

    def __init__(
        self,
        before: Tensor,
        wx: Tensor,
        wh: Tensor,
        h: Tensor,
        c: Tensor,
        masks: Tensor | None,
        steps: int,
    ) -> None:
        batch, hidden = h.shape
        self.before = before if before.dim() == 3 else before.expand(steps, batch, -1)
        self.shared_before = before.dim() == 1
        self.wx, self.wh, self.masks = wx, wh, masks
        self.gates = h.new_empty(steps, batch, 4 * hidden)
        self.h = h.new_empty(steps + 1, batch, hidden)
        self.c = h.new_empty(steps + 1, batch, hidden)
        self.squashed = h.new_empty(steps, batch, hidden)  # sigmoid(2 c_t)
        self.h[0], self.c[0] = h, c
        self.wx_t, self.wh_t = wx.t(), wh.t()

    def step(self, t: int, x: Tensor) -> Tensor:
        """Output (B, H) at step t, after dropout, from its input x (B, X)."""
        gates = torch.addmm(self.before[t], x, self.wx_t, out=self.gates[t])
        gates.addmm_(self.h[t], self.wh_t).sigmoid_()
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.mul(f, self.c[t], out=self.c[t + 1])
        c.addcmul_(i, g, value=2).sub_(i)
        squashed = torch.mul(c, 2, out=self.squashed[t]).sigmoid_()
        h = torch.mul(o, squashed, out=self.h[t + 1])
        h.mul_(2).sub_(o)
        return h if self.masks is None else h * self.masks[t]

    def begin_backward(self) -> None:
        """Everything in the gradient that does not depend on later steps, batched over time."""
        i, _, g, o = self.gates.chunk(4, dim=2)
        candidate = 2 * g - 1
        slope = self.squashed - self.squashed * self.squashed
        self.by_output = torch.mul(o, slope).mul_(4)  # d h / d c
        factors = self.gates - self.gates * self.gates
        fi, ff, fg, fo = factors.chunk(4, dim=2)
        fi.mul_(candidate)
        ff.mul_(self.c[:-1])
        fg.mul_(i).mul_(2)
        fo.mul_(2 * self.squashed - 1)
        self.factors = factors
        self.dgates = torch.empty_like(self.gates)
        self.dh = torch.zeros_like(self.h[0])  # gradient of h_t from step t + 1
        self.dc = torch.zeros_like(self.c[0])

    def back(self, t: int, doutput: Tensor) -> Tensor:
        """Gradient of the input at step t, (B, X), from that of the output (B, H)."""
        dh = torch.add(self.dh, doutput if self.masks is None else doutput * self.masks[t])
        dc = self.dc.addcmul_(dh, self.by_output[t])
        batch, hidden = dh.shape
        dgates, factors = self.dgates[t], self.factors[t]
        torch.mul(
            dc[:, None],
            factors.view(batch, 4, hidden)[:, :3],
            out=dgates.view(batch, 4, hidden)[:, :3],
        )
        torch.mul(dh, factors[:, 3 * hidden :], out=dgates[:, 3 * hidden :])
        dc.mul_(self.gates[t, :, hidden : 2 * hidden])
        torch.mm(dgates, self.wh, out=self.dh)
        return dgates @ self.wx

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of before, wx, wh, h and c, given all inputs x (T, B, X)."""
        flat = self.dgates.flatten(0, 1)
        before = flat.sum(0) if self.shared_before else self.dgates
        wx = flat.t() @ x.flatten(0, 1)
        wh = flat.t() @ self.h[:-1].flatten(0, 1)
        return before, wx, wh, self.dh, self.dc
