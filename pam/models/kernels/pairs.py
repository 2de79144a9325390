"""The (row, position) pairs of an output layer: which are computed, and how many at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from pam.models.kernels import output_layer
from pam.models.kernels.output_layer import OutputLayer

MOST_PAIRS = 1 << 13
"""Pairs of the largest piece, however small the vocabulary.

Their hidden layers are to stay in a cache too.
"""


class Pairs:
    """The (row, position) pairs that are computed, one after another: P of n x m.

    Left out are padding, positions outside a window or of a sparse distribution, and those beyond
    the ones that are summed over. Where that would spare less than it costs to pick the others, all
    pairs are computed (`whole`).

    Args:
        kept: (n, m) which pairs count, at least one in each row.
        width: symbols of the vocabulary.
        sentences: (n,) the sentence of each row; None: row i is of sentence i.
        fixed: exactly so many pairs are computed in each row, at least those that are kept, filled
            up with others, so that no shape depends on a value. None: those that are kept.
    """

    def __init__(
        self, kept: Tensor, width: int, sentences: Tensor | None = None, fixed: int | None = None
    ) -> None:
        self.kept = kept
        self.sentences = sentences
        if fixed is not None:
            self._compute_fixed(fixed)
            return

        # On CUDA, to count would be to wait.
        is_small = kept.is_cuda and kept.numel() * width <= output_layer.WHOLE
        self.whole = is_small or not output_layer.picking_pays(
            left_out=kept.numel() - int(kept.sum()), rows=kept.numel(), width=width
        )
        if not self.whole:
            # (P,) each: of each pair the row, the position, and the index in (n, m), flattened.
            self.rows, self.positions = kept.nonzero(as_tuple=True)
            self.index = self.rows * kept.shape[1] + self.positions

    def _compute_fixed(self, count: int) -> None:
        """Choose `count` positions of each row, first those that are kept."""
        rows, positions = self.kept.shape
        self.whole = count == positions
        if self.whole:
            return

        self.positions = self.kept.float().topk(count, dim=1).indices.flatten()
        self.rows = torch.arange(rows, device=self.kept.device).repeat_interleave(count)
        self.index = self.rows * positions + self.positions

    def expand_rows(self, values: Tensor) -> Tensor:
        """Repeat the values of rows, (n,), for each of their pairs: (P,)."""
        if self.whole:
            return values[:, None].expand(self.kept.shape).flatten()
        return values[self.rows]

    def pick(self, values: Tensor) -> Tensor:
        """Pick the values of the pairs, (P,), out of (n, m)."""
        if self.whole:
            return values.flatten()
        return values.flatten().index_select(0, self.index)

    def spread(self, values: Tensor) -> Tensor:
        """Put the values of the pairs, (P, ...), into (n, m, ...), zeros elsewhere."""
        shape = *self.kept.shape, *values.shape[1:]
        if self.whole:
            return values.view(shape)

        spread = values.new_zeros(self.kept.numel(), *values.shape[1:])
        return spread.index_copy_(0, self.index, values).view(shape)

    def pre_activations(self, views: Tensor | None, query: Tensor) -> Tensor:
        """Return u = W_x h_a + W_s s + b of each pair, (P, R), which may be overwritten.

        Args:
            views: (B, m, R) W_x h_a; None: m is 1, and the query is the pre-activation already.
            query: (n, R) W_s s + b.
        """
        if views is None:
            return query.clone()

        if self.whole:
            row_views = views[: len(query)] if self.sentences is None else views[self.sentences]
            return (row_views + query[:, None]).flatten(0, 1)

        pair_views = views.flatten(0, 1).index_select(0, self.view_index)
        return pair_views.add_(query.index_select(0, self.rows))

    @cached_property
    def view_index(self) -> Tensor:
        """The index of each pair, (P,), in views (B x m, R)."""
        if self.sentences is None:
            return self.index
        return self.sentences[self.rows] * self.kept.shape[1] + self.positions

    def backward(self, du: Tensor, dviews: Tensor | None) -> Tensor:
        """Return the gradient of the query, (n, R), and add to that of the views, (B, m, R).

        `du` (P, R) is the gradient of `pre_activations`.
        """
        if not self.whole:
            # Not by `spread`: to fill and to sum many positions takes longer than to add the few
            # that count.
            if dviews is not None:
                dviews.view(-1, du.shape[1]).index_add_(0, self.view_index, du)
            return du.new_zeros(len(self.kept), du.shape[1]).index_add_(0, self.rows, du)

        by_row = self.spread(du)
        if dviews is not None:
            if self.sentences is None:
                dviews[: len(by_row)].add_(by_row)
            else:
                dviews.index_add_(0, self.sentences, by_row)
        return by_row.sum(1)


def fixed_count(kept: Tensor, top_k: int | None) -> int:
    """Return how many pairs of each row of `kept` (n, m) are computed, whatever its values are."""
    positions = kept.shape[1]
    if top_k is None:
        return positions
    return min(top_k, positions)


def pieces(
    kept: Tensor, sentences: Tensor, layer: OutputLayer, fixed: int | None = None
) -> Iterator[tuple[slice, Pairs]]:
    """Divide tokens, which are rows with all of their positions, into pieces.

    A piece has as many pairs as are computed at a time, or few more where `Pairs.whole` computes
    also those that are left out. On CUDA one wait, here, counts the pairs of all pieces.

    Args:
        kept: (n, m) which pairs count; sentences: (n,) the sentence of each token.
        fixed: as of `Pairs`.
    """
    size = layer.piece_rows
    if not kept.is_cuda:
        size = min(size, MOST_PAIRS)

    if fixed is not None:
        count = max(1, size // fixed)
        for first in range(0, len(kept), count):
            tokens = slice(first, first + count)
            yield tokens, Pairs(kept[tokens], layer.width, sentences[tokens], fixed)
        return

    # As many tokens as have no more than `size` pairs, but at least one.
    ends = kept.sum(1).cumsum(0).tolist()
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        after = max(first + 1, bisect_right(ends, before + size))
        tokens = slice(first, after)
        yield tokens, Pairs(kept[tokens], layer.width, sentences[tokens])
        first = after
