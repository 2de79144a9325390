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


def prefixes(tensor: Tensor, counts: list[int]) -> list[Tensor]:
    """The first `counts[t]` rows of each step of (T, B, ...), as views.

    Views are made once, as making them anew at each use takes longer than many a use.
    """
    return [step[:count] for step, count in zip(tensor.unbind(), counts, strict=True)]


class Layer:
    """An LSTM layer with its history.

    Args:
        before: (T, B, 4H) or (4H,) what the gates get besides the two products below.
        wx: (4H, X) weight of the layer's input at each step; wh: (4H, H) of its own last output.
        h, c: (B, H) first state.
        masks: (T, B, H) dropout masks of its output, or None.
        counts: per step, how many rows from the first on take part; they never grow in number.
        narrow: whether products are taken in bfloat16.
    """

    def __init__(
        self,
        before: Tensor,
        wx: Tensor,
        wh: Tensor,
        h: Tensor,
        c: Tensor,
        masks: Tensor | None,
        counts: list[int],
        narrow: bool = False,
    ) -> None:
        (batch, hidden), steps = h.shape, len(counts)
        self.narrow = narrow
        self.shared_before = before.dim() == 1
        self.before = prefixes(before.expand(steps, batch, -1), counts)
        self.wx, self.wh = self._rough(wx), self._rough(wh)
        self.wx_t, self.wh_t = self.wx.t(), self.wh.t()
        self.masks = None if masks is None else prefixes(masks, counts)
        # Zeros where a row has ended: products over all steps run over them too.
        self.all_h = h.new_zeros(steps + 1, batch, hidden)
        self.all_dgates = h.new_zeros(steps, batch, 4, hidden)
        self.dgates = prefixes(self.all_dgates, counts)
        self.h = prefixes(self.all_h, [batch, *counts])
        self.c = prefixes(torch.empty_like(self.all_h), [batch, *counts])
        self.gates = prefixes(h.new_empty(steps, batch, 4, hidden), counts)
        self.squashed = prefixes(h.new_empty(steps, batch, hidden), counts)  # sigmoid(2 c_t)
        self.h[0].copy_(h)
        self.c[0].copy_(c)

    def _rough(self, x: Tensor) -> Tensor:
        """A factor of a product, as `narrow` wants it."""
        return x.bfloat16() if self.narrow else x

    def step(self, t: int, x: Tensor) -> Tensor:
        """Output (rows, H) at step t, after dropout, from its input x (rows, X)."""
        gates = self.gates[t]
        rows = len(gates)
        flat, last = gates.flatten(1), self.h[t][:rows]
        if self.narrow:
            torch.add(self.before[t], self._rough(x) @ self.wx_t, out=flat)
            flat.add_(self._rough(last) @ self.wh_t)
        else:
            torch.addmm(self.before[t], x, self.wx_t, out=flat)
            flat.addmm_(last, self.wh_t)
        flat.sigmoid_()
        i, f, g, o = gates.unbind(1)
        c = torch.mul(f, self.c[t][:rows], out=self.c[t + 1])
        c.addcmul_(i, g, value=2).sub_(i)
        squashed = torch.mul(c, 2, out=self.squashed[t]).sigmoid_()
        h = torch.mul(o, squashed, out=self.h[t + 1])
        h.mul_(2).sub_(o)
        return h if self.masks is None else h * self.masks[t]

    def begin_backward(self) -> None:
        """Begins with no gradient from beyond the last step."""
        # Of h_t, from step t + 1; a row joins with zeros at its last step.
        self.dh = torch.zeros_like(self.h[0])
        self.dc = torch.zeros_like(self.c[0])

    def back(self, t: int, doutput: Tensor) -> Tensor:
        """Gradient of the input at step t, (rows, X), from that of the output (rows, H)."""
        gates, squashed = self.gates[t], self.squashed[t]
        i, f, g, o = gates.unbind(1)
        rows = len(gates)
        dh = torch.add(self.dh[:rows], doutput if self.masks is None else doutput * self.masks[t])
        slope = torch.addcmul(squashed, squashed, squashed, value=-1)
        dc = self.dc[:rows].addcmul_(slope.mul_(o), dh, value=4)
        # What each gate's sigmoid has as its slope, times what it is multiplied with.
        dgates = torch.addcmul(gates, gates, gates, value=-1, out=self.dgates[t])
        di, df, dg, do = dgates.unbind(1)
        di.mul_(g.mul_(2).sub_(1)).mul_(dc)
        df.mul_(self.c[t][:rows]).mul_(dc)
        dg.mul_(i).mul_(dc).mul_(2)
        do.mul_(squashed.mul_(2).sub_(1)).mul_(dh)
        dc.mul_(f)
        flat = self._rough(dgates.flatten(1))
        if self.narrow:
            self.dh[:rows].copy_(flat @ self.wh)
            return (flat @ self.wx).to(dh.dtype)
        torch.mm(flat, self.wh, out=self.dh[:rows])
        return flat @ self.wx

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of before, wx, wh, h and c, given all inputs x (T, B, X)."""
        dgates = self.all_dgates.flatten(2)
        flat = dgates.flatten(0, 1)
        rough = self._rough(flat).t()
        wx = (rough @ self._rough(x.flatten(0, 1))).to(flat.dtype)
        wh = (rough @ self._rough(self.all_h[:-1].flatten(0, 1))).to(flat.dtype)
        return flat.sum(0) if self.shared_before else dgates, wx, wh, self.dh, self.dc
