"""log p(y_t | s_t, h_a) of every source position, inside a recurrence that it feeds back into.

The gradient of position a's logits is l(t, a) (onehot(y_t) - p(. | s_t, h_a)): a number that later
steps decide, times a vector that they do not. Where the vectors of all steps fit into memory, the
products of that vector with the weights are taken at once, while all of step t is still in the
cache. Else only the hidden layer is kept, and on the way back logits are computed once more for
the positions that matter.

As in `cell`, tanh(x) is written 2 sigmoid(2x) - 1: views arrive doubled, and the output layer
takes in the factor and the shift.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pam.fast.cell import prefixes
from pam.fast.output import CHUNK, OutputLayer, weighty

KEPT = CHUNK
"""Elements of the output distributions of all steps up to which they are kept."""


class PositionLikelihood:
    """Gold log-likelihoods of positions over time.

    Args:
        views: (B, m, R) doubled readout views of the encoder states, bias included.
        layer: with doubled output weight, and output bias less the weight's row sums.
        targets: (T, B) gold symbols.
        positions: how many positions are summed over: m, or K.
        counts: per step, how many rows from the first on take part.
        differentiable: whether a gradient will be asked for.
    """

    def __init__(
        self,
        views: Tensor,
        layer: OutputLayer,
        targets: Tensor,
        positions: int,
        counts: list[int],
        differentiable: bool,
    ) -> None:
        self.views, self.layer = views, layer
        self.gold = prefixes(targets[:, :, None].expand(-1, -1, positions), counts)
        self.differentiable = differentiable
        self.kept: list[Tensor] = []
        rows, (vocabulary, width) = sum(counts), layer.shape
        self.keeps = rows * positions * vocabulary <= KEPT and not layer.narrow
        if differentiable:
            # Steps follow each other without gaps, so that products over all of them are dense.
            self.all_z = views.new_empty(rows, positions, width)
            self.z = self.all_z.split(counts)
            self.dviews = torch.zeros_like(views)
        if differentiable and self.keeps:
            self.all_error = views.new_empty(rows, positions, vocabulary)
            self.error = self.all_error.split(counts)
            self.pulled = torch.empty_like(self.all_z).split(counts)
            self.minus_one = views.new_full((len(views), positions, 1), -1.0)

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
        log_probs = self.layer.log_probs(z.flatten(0, 1)).view(*z.shape[:2], -1)
        gold = self.gold[t][:, :, None]
        likelihood = log_probs.gather(2, gold).squeeze(2)
        if self.differentiable and self.keeps:
            # p - onehot(y_t): the logits' gradient but for its sign, which `back` restores.
            error = torch.exp(log_probs, out=self.error[t])
            error.scatter_add_(2, gold, self.minus_one[: len(query)])
            pulled = self.pulled[t]
            torch.mm(error.flatten(0, 1), self.layer.weight, out=pulled.flatten(0, 1))
            pulled.mul_(z)
            pulled.addcmul_(pulled, z, value=-1)
        return likelihood

    def back(self, t: int, dlikelihood: Tensor) -> Tensor:
        """Gradient of the query's view (rows, R), from that of step t's (rows, positions)."""
        if self.keeps:
            return self._back_kept(t, dlikelihood)
        z, gold, scale = self.z[t].flatten(0, 1), self.gold[t].flatten(), dlikelihood.flatten()
        rows = weighty(scale)
        if rows is not None:
            z, gold, scale = z[rows], gold[rows], scale[rows]
        pulled = self.layer.pull(z, self.layer.probs(z), gold, scale)
        pulled.mul_(z)
        pulled.addcmul_(pulled, z, value=-1)
        if rows is not None:
            whole = torch.zeros_like(self.z[t]).flatten(0, 1)
            pulled = whole.index_copy_(0, rows, pulled)
        pulled = pulled.view_as(self.z[t])
        self._add_to_views(t, pulled)
        return pulled.sum(1)

    def _back_kept(self, t: int, dlikelihood: Tensor) -> Tensor:
        scale = -dlikelihood
        pulled = self.pulled[t]
        dquery = torch.bmm(scale[:, None], pulled).squeeze(1)
        self.error[t].mul_(scale[:, :, None])
        if self.kept:
            self._add_to_views(t, pulled * scale[:, :, None])
        else:
            self.dviews[: len(scale)].addcmul_(pulled, scale[:, :, None])
        return dquery

    def _add_to_views(self, t: int, pulled: Tensor) -> None:
        dviews = self.dviews[: len(pulled)]
        if self.kept:
            dviews.scatter_add_(1, self.kept[t][:, :, None].expand_as(pulled), pulled)
        else:
            dviews.add_(pulled)

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of views, weight and bias, after `back` of every step."""
        if not self.keeps:
            return self.dviews, *self.layer.gradients()
        error = self.all_error.flatten(0, 1)
        return self.dviews, error.t() @ self.all_z.flatten(0, 1), error.sum(0)
