"""The output layer, softmax(W z + b), with gradients that are gathered over many calls.

It is where time and memory go when the vocabulary is large, so nothing here keeps a row of
probabilities longer than one call.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 1 << 22
"""Elements of the largest piece of logits at a time: 16 MB in float32, which a cache may hold."""


class OutputLayer:
    """Log-likelihoods of gold symbols and their gradients.

    What `log_probs` and `probs` return is overwritten by the next call of either: large pieces of
    memory that come and go among small ones that stay would leave holes that are not filled again.

    Args:
        weight: (V, R); bias: (V,).
        narrow: whether products are taken in bfloat16; sums and softmax stay as they are.
    """

    def __init__(self, weight: Tensor, bias: Tensor, narrow: bool = False) -> None:
        self.weight, self.bias = weight.bfloat16() if narrow else weight, bias
        self.narrow, self.shape, self.dtype = narrow, weight.shape, weight.dtype
        self.scratch: dict[str, Tensor] = {}
        self.dweight: Tensor | None = None
        self.dbias: Tensor | None = None

    def log_probs(self, z: Tensor) -> Tensor:
        """log softmax(W z + b) for z of (n, R): (n, V)."""
        return torch.log_softmax(self._logits(z), dim=1, out=self._rows("probs", len(z)))

    def probs(self, z: Tensor) -> Tensor:
        """softmax(W z + b) for z of (n, R): (n, V)."""
        return torch.softmax(self._logits(z), dim=1, out=self._rows("probs", len(z)))

    def _logits(self, z: Tensor) -> Tensor:
        logits = self._rows("logits", len(z))
        if not self.narrow:
            return torch.addmm(self.bias, z, self.weight.t(), out=logits)
        rough = self._rows("rough", len(z), torch.bfloat16)
        return torch.add(torch.mm(z.bfloat16(), self.weight.t(), out=rough), self.bias, out=logits)

    def _rows(self, name: str, count: int, dtype: torch.dtype | None = None) -> Tensor:
        """The first `count` rows of a piece of memory that is used again and again."""
        held = self.scratch.get(name)
        if held is None or len(held) < count:
            shape, dtype = (count, self.shape[0]), dtype or self.dtype
            held = torch.empty(shape, dtype=dtype, device=self.bias.device)
            self.scratch[name] = held
        return held[:count]

    def logits_of(self, z: Tensor, symbols: Tensor) -> Tensor:
        """Logits of one symbol each: z (..., R), symbols (...) to (...)."""
        return (z * self.weight[symbols]).sum(-1).to(self.dtype) + self.bias[symbols]

    def pull(self, z: Tensor, probs: Tensor, gold: Tensor, scale: Tensor) -> Tensor:
        """Gradient of z, (n, R), adding to those of weight and bias.

        Args:
            z: (n, R); probs: (n, V) of z, overwritten.
            gold: (n,) symbols.
            scale: (n,) gradient of log p(gold).
        """
        error = probs.scatter_add_(1, gold[:, None], torch.full_like(scale, -1.0)[:, None])
        error.mul_(-scale[:, None])
        if self.dweight is None or self.dbias is None:
            self.dweight = torch.zeros(self.shape, dtype=self.dtype, device=z.device)
            self.dbias = torch.zeros_like(self.bias)
        self.dbias.add_(error.sum(0))
        if not self.narrow:
            self.dweight.addmm_(error.t(), z)
            return error @ self.weight
        rough = self._rows("rough", len(error), torch.bfloat16).copy_(error)
        self.dweight.add_(rough.t() @ z.bfloat16())
        return (rough @ self.weight).to(self.dtype)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Gradients of weight and bias."""
        if self.dweight is None or self.dbias is None:
            zeros = torch.zeros(self.shape, dtype=self.dtype, device=self.bias.device)
            return zeros, torch.zeros_like(self.bias)
        return self.dweight, self.dbias


def weighty(scale: Tensor) -> Tensor | None:
    """Which rows matter: indices where |scale| (n,) is not lost in rounding, or None for most.

    A row whose scale is below the precision of the largest changes no sum that it enters.
    """
    size = scale.abs()
    kept = size > size.amax() * torch.finfo(scale.dtype).eps
    rows = kept.nonzero().squeeze(1)
    return None if 4 * len(rows) > 3 * len(scale) else rows
