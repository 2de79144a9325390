"""log p(y_t | s_t, h_a) of every source position, with a gradient that is batched over time.

The gradient of position a's logits is l(t, a) (onehot(y_t) - p(. | s_t, h_a)): a number that later
steps decide, times a vector that they do not. The products of that vector with the weights, the
costly part, are therefore taken for all steps at once.

As in `cell`, tanh(x) is written 2 sigmoid(2x) - 1: views arrive doubled, and the output layer
takes in the factor and the shift.
"""

from __future__ import annotations

import torch
from torch import Tensor


class PositionLikelihood:
    """Gold log-likelihoods of positions over time.

    Args:
        views: (B, m, R) doubled readout views of the encoder states, bias included.
        weight: (V, R) doubled output weight; bias: (V,) output bias less the weight's row sums.
        targets: (T, B) gold symbols.
        positions: how many positions are summed over: m, or K.
    """

    def __init__(
        self, views: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, positions: int
    ) -> None:
        steps, batch = targets.shape
        self.views, self.weight, self.bias = views, weight, bias
        self.gold = targets[:, :, None, None].expand(-1, -1, positions, 1)
        self.z = views.new_empty(steps, batch, positions, views.shape[2])
        self.log_probs = views.new_empty(steps, batch, positions, weight.shape[0])
        self.kept: list[Tensor] = []

    def step(self, t: int, query: Tensor, kept: Tensor | None) -> Tensor:
        """log p(y_t | s_t, h_a): (B, positions).

        Args:
            query: (B, R) doubled readout view of s_t.
            kept: (B, K) which positions, or None for all.
        """
        views = self.views
        if kept is not None:
            self.kept.append(kept)
            views = views.gather(1, kept[:, :, None].expand(-1, -1, views.shape[2]))
        z = torch.add(views, query[:, None], out=self.z[t]).sigmoid_()
        logits = torch.addmm(self.bias, z.flatten(0, 1), self.weight.t())
        log_probs = torch.log_softmax(logits, dim=1, out=self.log_probs[t].flatten(0, 1))
        return log_probs.view(self.log_probs[t].shape).gather(2, self.gold[t]).squeeze(2)

    def begin_backward(self) -> None:
        """The vectors of all steps, and their products with the output weight."""
        self.error = self.log_probs.exp_().neg_()
        self.error.scatter_add_(3, self.gold, torch.ones_like(self.gold, dtype=self.error.dtype))
        pulled = (self.error.flatten(0, 2) @ self.weight).view(self.z.shape)
        pulled.mul_(self.z)
        self.pulled = pulled.addcmul_(pulled, self.z, value=-1)

    def back(self, t: int, dlikelihood: Tensor) -> Tensor:
        """Gradient of the query's view (B, R), from that of step t's output (B, positions)."""
        return torch.bmm(dlikelihood[:, None], self.pulled[t]).squeeze(1)

    def finish(self, dlikelihood: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of views, weight and bias, from all steps' (T, B, positions)."""
        error = self.error.mul_(dlikelihood[..., None]).flatten(0, 2)
        dweight = error.t() @ self.z.flatten(0, 2)
        dbias = error.sum(0)
        pulled = self.pulled.mul_(dlikelihood[..., None])
        if not self.kept:
            return pulled.sum(0), dweight, dbias
        batch, length, width = self.views.shape
        kept = torch.stack(self.kept) + length * torch.arange(batch, device=pulled.device)[:, None]
        dviews = self.views.new_zeros(batch * length, width)
        dviews.index_add_(0, kept.flatten(), pulled.flatten(0, 2))
        return dviews.view(batch, length, width), dweight, dbias
