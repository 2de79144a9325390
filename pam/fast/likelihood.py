"""log p(y_t | s_t, h_a) of every source position, with a gradient prepared on the way forward.

The gradient of position a's logits is l(t, a) (onehot(y_t) - p(. | s_t, h_a)): a number that later
steps decide, times a vector that they do not. The products of that vector with the weights, the
costly part, are therefore taken at once, while all of step t is still in the cache.

As in `cell`, tanh(x) is written 2 sigmoid(2x) - 1: views arrive doubled, and the output layer
takes in the factor and the shift.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pam.fast.cell import prefixes


class PositionLikelihood:
    """Gold log-likelihoods of positions over time.

    Args:
        views: (B, m, R) doubled readout views of the encoder states, bias included.
        weight: (V, R) doubled output weight; bias: (V,) output bias less the weight's row sums.
        targets: (T, B) gold symbols.
        positions: how many positions are summed over: m, or K.
        counts: per step, how many rows from the first on take part.
        differentiable: whether a gradient will be asked for.
    """

    def __init__(
        self,
        views: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        positions: int,
        counts: list[int],
        differentiable: bool,
    ) -> None:
        self.views, self.weight, self.bias = views, weight, bias
        self.gold = prefixes(targets[:, :, None, None].expand(-1, -1, positions, 1), counts)
        self.minus_one = views.new_full((len(views), positions, 1), -1.0)
        self.differentiable = differentiable
        self.kept: list[Tensor] = []
        if differentiable:
            rows, (vocabulary, width) = sum(counts), weight.shape
            # Steps follow each other without gaps, so that products over all of them are dense.
            self.all_z = views.new_empty(rows, positions, width)
            self.all_error = views.new_empty(rows, positions, vocabulary)
            self.z, self.error = self.all_z.split(counts), self.all_error.split(counts)
            self.pulled = torch.empty_like(self.all_z).split(counts)
            self.dviews = torch.zeros_like(views)

    def step(self, t: int, query: Tensor, kept: Tensor | None) -> Tensor:
        """log p(y_t | s_t, h_a): (rows, positions).

        Args:
            query: (rows, R) doubled readout view of s_t.
            kept: (rows, K) which positions, or None for all.
        """
        views = self.views[: len(query)]
        if kept is not None:
            self.kept.append(kept)
            views = views.gather(1, kept[:, :, None].expand(-1, -1, views.shape[2]))
        z = torch.add(views, query[:, None], out=self.z[t] if self.differentiable else None)
        z.sigmoid_()
        logits = torch.addmm(self.bias, z.flatten(0, 1), self.weight.t())
        log_probs = torch.log_softmax(logits, dim=1).view(*z.shape[:2], -1)
        likelihood = log_probs.gather(2, self.gold[t]).squeeze(2)
        if self.differentiable:
            # p - onehot(y_t): the logits' gradient but for its sign, which `back` restores.
            error = torch.exp(log_probs, out=self.error[t])
            error.scatter_add_(2, self.gold[t], self.minus_one[: len(query)])
            pulled = self.pulled[t]
            torch.mm(error.flatten(0, 1), self.weight, out=pulled.flatten(0, 1))
            pulled.mul_(z)
            pulled.addcmul_(pulled, z, value=-1)
        return likelihood

    def back(self, t: int, dlikelihood: Tensor) -> Tensor:
        """Gradient of the query's view (rows, R), from that of step t's (rows, positions)."""
        scale = -dlikelihood
        pulled, dviews = self.pulled[t], self.dviews[: len(scale)]
        dquery = torch.bmm(scale[:, None], pulled).squeeze(1)
        self.error[t].mul_(scale[:, :, None])
        if self.kept:
            index = self.kept[t][:, :, None].expand_as(pulled)
            dviews.scatter_add_(1, index, pulled * scale[:, :, None])
        else:
            dviews.addcmul_(pulled, scale[:, :, None])
        return dquery

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of views, weight and bias, after `back` of every step."""
        error = self.all_error.flatten(0, 1)
        return self.dviews, error.t() @ self.all_z.flatten(0, 1), error.sum(0)
