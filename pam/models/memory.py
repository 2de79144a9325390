"""What a decoder step may look at: the encoded source, and what was attended before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """A batch of encoded sources, with what is computed once per sentence.

    Attributes:
        values: (B, m, D) encoder states h_a.
        mask: (B, m) true at real positions.
        keys: (B, m, .) the score's view of the values.
        readout: (B, m, R) the readout's view of the values, W_x h_a.
        start: the decoder's first state, a list over layers of (h, c), each (B, H).
        variance: (B, m, D) of the Gaussian around each value, or None.
        log_ratios: (B, m, m) log density of a draw around the first position's value under the
            Gaussian of the second, less that under the prior; or None.
        cost: (B,) nats that the objective pays for the sentence's latent vector, or None.
    """

    values: Tensor
    mask: Tensor
    keys: Tensor
    readout: Tensor
    start: tuple[tuple[Tensor, Tensor], ...]
    variance: Tensor | None = None
    log_ratios: Tensor | None = None
    cost: Tensor | None = None

    def context(self, alignment: Tensor) -> Tensor:
        """The weighted sum of encoder states, sum_a alignment(a) h_a: (B, m) to (B, D)."""
        return torch.einsum("bm,bmd->bd", alignment, self.values)

    def to(self, dtype: torch.dtype) -> Memory:
        """The memory in another floating type."""
        return Memory(
            mask=self.mask,
            values=self.values.to(dtype),
            keys=self.keys.to(dtype),
            readout=self.readout.to(dtype),
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in self.start),
            **self._latents(lambda part: part.to(dtype)),
        )

    def select(self, rows: Tensor) -> Memory:
        """The memory of the given rows (a permutation, a subset or repetitions)."""
        return Memory(
            values=self.values[rows],
            mask=self.mask[rows],
            keys=self.keys[rows],
            readout=self.readout[rows],
            start=tuple((h[rows], c[rows]) for h, c in self.start),
            **self._latents(lambda part: part[rows]),
        )

    def _latents(self, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor | None]:
        """What latents and the objective added to it, changed."""
        parts = {name: getattr(self, name) for name in ("variance", "log_ratios", "cost")}
        return {name: None if part is None else change(part) for name, part in parts.items()}


@dataclass(frozen=True)
class Past:
    """What was attended before a step.

    Attributes:
        steps: how many symbols were written, t - 1.
        alignment: (B, m) what the last step handed on; None before the first output, unless the
            feedback begins with an alignment.
        summed: (B, m) what all steps handed on, added up; None before the first output.
    """

    steps: int = 0
    alignment: Tensor | None = None
    summed: Tensor | None = None

    def then(self, alignment: Tensor) -> Past:
        """The past of the next step."""
        summed = alignment if self.summed is None else self.summed + alignment
        return Past(self.steps + 1, alignment, summed)

    def select(self, rows: Tensor) -> Past:
        """The past of the given hypotheses."""
        alignment, summed = (
            None if part is None else part[rows] for part in (self.alignment, self.summed)
        )
        return Past(self.steps, alignment, summed)


@dataclass(frozen=True)
class Noise:
    """What training draws at random for a batch, before the recurrence, so that every path sees
    the same: for one step, or for all with time first.

    Attributes:
        gumbel: (..., B, m) standard Gumbel noise, by which positions are drawn.
        normal: (..., B, D) standard normal noise, by which contexts are.
    """

    gumbel: Tensor
    normal: Tensor

    @classmethod
    def draw(cls, steps: int, memory: Memory) -> Noise:
        """Noise for `steps` steps over encoded sources."""
        values = memory.values
        uniform = torch.rand(steps, *values.shape[:2], dtype=values.dtype, device=values.device)
        tiny = torch.finfo(values.dtype).tiny
        gumbel = -torch.log((-torch.log(uniform.clamp_min(tiny))).clamp_min(tiny))
        normal = torch.randn(
            steps, values.shape[0], values.shape[2], dtype=values.dtype, device=values.device
        )
        return cls(gumbel, normal)

    def at(self, t: int) -> Noise:
        """The noise of one step."""
        return Noise(self.gumbel[t], self.normal[t])


def drawn(log_probs: Tensor, gumbel: Tensor) -> Tensor:
    """A position drawn from log probabilities (..., m) by Gumbel noise (..., m), one-hot.

    The largest of log p(a) + g(a) is distributed as p is (Gumbel 1954).
    """
    best = (log_probs + gumbel).argmax(-1, keepdim=True)
    return torch.zeros_like(log_probs).scatter(-1, best, 1.0)


def relaxed(log_probs: Tensor, gumbel: Tensor, temperature: float) -> Tensor:
    """Gumbel-Softmax (Jang et al. 2017): log weights (..., m) near a drawn position,
    differentiable."""
    return torch.log_softmax((log_probs + gumbel) / temperature, dim=-1)
