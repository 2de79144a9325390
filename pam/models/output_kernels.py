"""The output layer's kernels: log-likelihoods of given symbols, without keeping distributions.

They are where time and memory go when the vocabulary is large: of size rows x V, no more is stored
than `CHUNK` and `STORED` allow. See `kernels` for how gradients are gathered.

- `OutputLayer` computes distributions, and gathers the gradients of its weights.
- `Pairs` says which (row, position) pairs are computed at all.
- `PositionLikelihood` gives log p(y_t | s_t, h_a) step by step, for models that feed it back.
- `mixture_log_likelihood` sums positions out, or takes an expectation, for all tokens at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.data.vocabulary import PAD
from pam.models.hidden_layers import TANH, Hidden, HiddenLayer
from pam.models.kernels import Anchor, Tape, factor, large_products, padded_size
from pam.models.packing import optional_rows

CHUNK = 1 << 24  # bytes of the largest piece of logits at a time: 16 MB, which a cache may hold

STORED = 1 << 29
"""Bytes of distributions in bfloat16 that are kept for the backward pass, at most: 512 MB.

In float32, where they would be twice as many, no more are kept than fit into a piece. The others
are computed once more.
"""

BLOCK = 1 << 11
"""Symbols whose gradients are added at a time on a CPU, where products are in bfloat16.

Their float32 copy is to stay in a cache. That of a large vocabulary comes from the operating
system, page by page, which takes longer than the product.
"""

# rows whose gradients of the weights are gathered over steps, at most, before one product adds them
WAITING = 512
# bytes of their distributions, at most, if they are more than one piece: 64 MB
WAITING_BYTES = 1 << 26

MOST_PAIRS = 1 << 13
"""Pairs of the largest piece, however small the vocabulary.

Their hidden layers are to stay in a cache too.
"""

WHOLE = 1 << 26
"""Numbers of a step's distributions on CUDA up to which all pairs are computed.

To pick some, the processor would wait for the device to say how many, which takes longer.
"""

# symbols of a vocabulary whose logits and gradients cost as much as to pick a row out of many
PICKING = 32
# probabilities below it are computed once more, in log space: they may have been rounded to zero
SMALLEST = 1e-30
# the size of a piece on CUDA over that on a CPU: there is no such cache, and each piece costs
# launches
ON_CUDA = 16
# bytes of distributions that are kept on CUDA, where they are in float32: 4 GB
STORED_ON_CUDA = 1 << 32

# The definitions.


def gold_log_probs_plain(
    views: Tensor,
    query: Tensor,
    weight: Tensor,
    bias: Tensor,
    symbols: Tensor,
    hidden_layer: HiddenLayer = TANH,
) -> Tensor:
    """Return log p(y | s, h_a), (n, m), of one symbol y in each row.

    This defines `PositionLikelihood`. Views (n, m, R) are W_x h_a, the query (n, R) is W_s s + b.
    """
    logits = hidden_layer.plain(views + query[:, None]) @ weight.t() + bias
    index = symbols[:, None, None].expand(-1, views.shape[1], 1)

    return torch.log_softmax(logits, 2).gather(2, index).squeeze(2)


def mixture_plain(
    log_weights: Tensor,
    log_likelihood: Tensor,
    summed: bool,
    log_gate: Tensor | None = None,
    log_copied: Tensor | None = None,
) -> Tensor:
    """Return log (sum_a w(a) p_a + c), or sum_a w(a) log (g(a) p_a + c(a)) if not `summed`.

    This defines `mixture_log_likelihood`.

    Args:
        log_weights: (n, m) log w if `summed`, else w.
        log_likelihood: (n, m) log p_a.
        log_gate: (n, m) log g, the probability that the symbol is generated, or None: it is 1.
        log_copied: (n,) if `summed`, else (n, m): log c, the probability that the symbol is copied,
            or None: it is 0.
    """
    if summed:
        log_sum = torch.logsumexp(log_weights + log_likelihood, 1)
        return log_sum if log_copied is None else torch.logaddexp(log_sum, log_copied)

    if log_gate is not None and log_copied is not None:
        log_likelihood = torch.logaddexp(log_gate + log_likelihood, log_copied)
    return (log_weights * log_likelihood).sum(1)


# The layer.


class OutputLayer:
    """softmax(W z + b) of the hidden layer z of x; gradients are gathered over many calls.

    Distributions are overwritten by the next call, unless a place for them is given: large pieces
    of memory that come and go among small ones that stay would leave holes that are not filled
    again.

    Args:
        weight: (V, R); bias: (V,).
        bf16: whether products are taken, and distributions held, in bfloat16. Logits are then off
            by up to 2^-9 of their size; sums and gradients are computed from what the logits say.
        static: whether nothing may wait for a value; see `Pairs`.
        hidden_layer: makes z of x.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        bf16: bool = False,
        static: bool = False,
        hidden_layer: HiddenLayer = TANH,
    ) -> None:
        self.weight = weight
        self.bias = bias
        self.hidden_layer = hidden_layer
        if bf16:
            # Column after column, with which oneDNN takes the products of a gradient a quarter
            # faster.
            self.weight = weight.t().bfloat16().contiguous().t()
            self.bias = bias.bfloat16()

        self.bf16 = bf16
        self.static = static
        self.width = len(weight)
        self.dtype = weight.dtype
        self.scratch: dict[str, Tensor] = {}

        # Of rows whose gradients are still to be added: z, weighted, and the weights.
        self.waiting: list[tuple[Tensor, Tensor]] = []
        self.dweight: Tensor | None = None
        self.dbias: Tensor | None = None

    @property
    def distribution_bytes(self) -> int:
        """The bytes of one distribution."""
        return self.width * self.weight.element_size()

    @property
    def piece_rows(self) -> int:
        """The number of distributions in one piece, which need no padding."""
        piece_bytes = CHUNK
        if self.weight.is_cuda:
            piece_bytes = CHUNK * ON_CUDA
        return self.padded(max(1, piece_bytes // self.distribution_bytes * 16 // 17))

    @property
    def waiting_rows(self) -> int:
        """The largest number of rows that wait."""
        return min(WAITING, max(self.piece_rows, WAITING_BYTES // self.distribution_bytes))

    def padded(self, rows: int) -> int:
        """Return the number of rows with the rows of zeros of a product; see `padded_size`."""
        return padded_size(rows, self.bf16)

    @large_products
    def probs(self, z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the distribution for each z (n, R), and its logits, (n, V) each."""
        rows = len(z)
        z_factor = factor(z, self.bf16)
        logits = self._rows("logits", len(z_factor))
        torch.addmm(self.bias, z_factor, self.weight.t(), out=logits)

        if out is None:
            out = self._rows("probs", rows)
        return torch.softmax(logits[:rows], dim=1, out=out), logits[:rows]

    def errors(
        self, z: Tensor, symbols: Tensor, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log p(symbol), (n,), and its gradient by the logits with the sign changed.

        The gradient is the error p - onehot(symbol) for z (n, R): (N, V), with rows of zeros up to
        the padded size. `out`, of n rows or more, is where it is to be held.
        """
        rows = len(z)
        if out is None:
            out = self._rows("probs", self.padded(rows))
        out[rows:].zero_()
        error, logits = self.probs(z, out[:rows])

        column = symbols[:, None]
        if self.bf16:
            likely, log_likelihood = self._subtract_gold_in_bf16(error, symbols)
        elif z.is_cuda or self.static:
            # In log space at once: to look for probabilities that were rounded to zero would be to
            # wait.
            log_likelihood = logits.gather(1, column).squeeze(1) - logits.logsumexp(1)
            error.scatter_(1, column, log_likelihood.expm1()[:, None])
            return log_likelihood, out
        else:
            likely = error.gather(1, column).squeeze(1)
            error.scatter_(1, column, (likely - 1)[:, None])
            log_likelihood = likely.log()

        if float(likely.amin()) < SMALLEST:
            lost = (likely < SMALLEST).nonzero().squeeze(1)
            exact = torch.log_softmax(logits[lost].to(self.dtype), dim=1)
            log_likelihood[lost] = exact.gather(1, symbols[lost, None]).squeeze(1)
        return log_likelihood, out

    def _subtract_gold_in_bf16(self, error: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """Turn probabilities (n, V) into errors, and return p(symbol) and its logarithm, (n,)."""
        # Not by `scatter_`, which copies all of a tensor in bfloat16.
        gold = torch.arange(len(error), device=error.device), symbols
        likely = error[gold].to(self.dtype)

        # The sum of all other symbols, so that 1 - p is right where p is rounded to 1.
        error[gold] = 0.0
        unlikely = error.sum(1)
        error[gold] = -unlikely

        return likely, (likely / (likely + unlikely)).log()

    def _rows(self, name: str, count: int) -> Tensor:
        """Return the first `count` rows of a piece of memory that is used again and again."""
        buffer = self.scratch.get(name)
        if buffer is None or len(buffer) < count:
            buffer = self.weight.new_empty(count, self.width)
            self.scratch[name] = buffer
        return buffer[:count]

    @large_products
    def backward(self, hidden: Hidden, error: Tensor, scale: Tensor) -> Tensor:
        """Return the gradient of x, (n, R), and add to those of weight and bias.

        Args:
            hidden: z (n, R); error: (N, V) of z by `errors`.
            scale: (n,) the gradient of log p(symbol).
        """
        z = hidden.z

        # Rows are weighted on the narrow side of each product.
        weights = -scale[:, None]
        if 2 * len(z) > self.waiting_rows or z.is_cuda:
            self._add(error, z * weights, weights)
        else:
            self._wait(error[: len(z)], z * weights, weights)

        dz = (error @ self.weight)[: len(z)] * weights
        return self.hidden_layer.backward(dz, hidden)

    def _wait(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Keep rows until there are many.

        A product of few rows reads and writes a whole gradient for them.
        """
        size = self.waiting_rows
        first = sum(len(waiting) for waiting, _ in self.waiting)
        if first + len(error) > size:
            self._add_waiting()
            first = 0

        self._rows("errors", self.padded(size))[first : first + len(error)] = error
        self.waiting.append((weighted, weights))

    def _add_waiting(self) -> None:
        """Add the gradients of the rows that wait."""
        weighted, weights = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting = []

        error = self._rows("errors", self.padded(len(weights)))
        error[len(weights) :].zero_()
        self._add(error, weighted, weights)

    @large_products
    def _add(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Add to the gradients of weight and bias.

        Args:
            error: (N, V), with rows of zeros.
            weighted: (n, R) z times its weights; weights: (n, 1).
        """
        z_factor = factor(weighted, self.bf16)
        weight_factor = factor(weights, self.bf16)
        if self.dweight is None or self.dbias is None:
            self.dweight = torch.zeros(self.weight.shape, dtype=self.dtype, device=weights.device)
            self.dbias = torch.zeros(self.width, dtype=self.dtype, device=weights.device)

        self.dbias.add_((weight_factor.t() @ error).squeeze(0))
        if not self.bf16:
            self.dweight.addmm_(error.t(), z_factor)
            return

        size = self.width if error.is_cuda else BLOCK
        for first in range(0, self.width, size):
            block = slice(first, first + size)
            self.dweight[block].add_(error[:, block].t() @ z_factor)

    def pick_errors(self, error: Tensor, rows: Tensor) -> Tensor:
        """Return some rows (n,) of errors, as `errors` does, until the next call."""
        picked = self._rows("logits", self.padded(len(rows)))
        torch.index_select(error, 0, rows, out=picked[: len(rows)])
        picked[len(rows) :].zero_()
        return picked

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of weight and bias since the last call; None without any."""
        if self.waiting:
            self._add_waiting()

        dweight = self.dweight
        dbias = self.dbias
        self.dweight = None
        self.dbias = None
        return dweight, dbias


def nonzero_rows(scale: Tensor, width: int) -> Tensor | None:
    """Return the indices of rows where |scale| (n,) is not lost in rounding.

    A row whose scale is below the precision of the largest changes no sum that it enters. None
    stands for all rows, or for too many to pick them.
    """
    if scale.is_cuda and len(scale) * width <= WHOLE:
        return None

    size = scale.abs()
    rows = (size > size.amax() * torch.finfo(scale.dtype).eps).nonzero().squeeze(1)
    if (len(scale) - len(rows)) * width <= PICKING * len(scale):
        return None
    return rows


def backward_rows(
    layer: OutputLayer, hidden: Hidden, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    """Return the gradient of x, (P, R), by `OutputLayer.backward`, without rows of no weight.

    `error` is as of `OutputLayer.errors`; None: it is computed once more.
    """
    rows = None
    if not layer.static:
        rows = nonzero_rows(scale, layer.width)
    if rows is None:
        return _backward(layer, hidden, error, symbols, scale)

    dx = torch.zeros_like(hidden.z)
    if error is not None:
        error = layer.pick_errors(error, rows)
    picked_dx = _backward(layer, hidden.select(rows), error, symbols[rows], scale[rows])
    return dx.index_copy_(0, rows, picked_dx)


def _backward(
    layer: OutputLayer, hidden: Hidden, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    """Return the gradient of x, (P, R), of all rows."""
    if error is not None:
        return layer.backward(hidden, error, scale)

    dx = torch.empty_like(hidden.z)
    for first in range(0, len(dx), layer.piece_rows):
        piece = slice(first, first + layer.piece_rows)
        of_piece = hidden.select(piece)
        _, piece_error = layer.errors(of_piece.z, symbols[piece])
        dx[piece] = layer.backward(of_piece, piece_error, scale[piece])
    return dx


# The rows and positions that are computed.


class Pairs:
    """The (row, position) pairs that are computed, one after another: P of n x m.

    Left out are padding, positions outside a window or of a sparse distribution, and those beyond
    the ones that are summed over. Where that would spare less than it costs to pick the others, all
    pairs are computed (`whole`).

    Args:
        kept: (n, m) which pairs count, at least one in each row.
        width: symbols of the vocabulary.
        sentences: (n,) the sentence of each row; None: rows are those of the first sentences.
        fixed: pairs that are computed in each row, however many are kept, which are no more. So
            their number depends on no value. None: it is the number of those that are kept.
    """

    def __init__(
        self, kept: Tensor, width: int, sentences: Tensor | None = None, fixed: int | None = None
    ) -> None:
        self.kept = kept
        self.sentences = sentences
        if fixed is not None:
            self._compute_fixed(fixed)
            return

        is_small = kept.is_cuda and kept.numel() * width <= WHOLE
        self.whole = is_small or (kept.numel() - int(kept.sum())) * width <= PICKING * kept.numel()
        if not self.whole:
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

    def sums(self, views: Tensor | None, query: Tensor) -> Tensor:
        """Return x = W_x h_a + W_s s + b of each pair, (P, R), which may be overwritten.

        Args:
            views: (B, m, R) W_x h_a; None: the query has all of the sum already.
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

    def backward(self, dx: Tensor, dviews: Tensor | None) -> Tensor:
        """Return the gradient of the query, (n, R), and add to that of the views.

        `dx` (P, R) is the gradient of `sums`.
        """
        if not self.whole:
            # Not by `spread`: to fill and to sum many positions takes longer than to add the few
            # that count.
            if dviews is not None:
                dviews.view(-1, dx.shape[1]).index_add_(0, self.view_index, dx)
            return dx.new_zeros(len(self.kept), dx.shape[1]).index_add_(0, self.rows, dx)

        by_row = self.spread(dx)
        if dviews is not None:
            if self.sentences is None:
                dviews[: len(by_row)].add_(by_row)
            else:
                dviews.index_add_(0, self.sentences, by_row)
        return by_row.sum(1)


# Positions one step at a time, where later steps decide how much each of them counts.


class PositionLikelihood:
    """log p(y_t | s_t, h_a) of source positions, at many steps that feed it back.

    The gradient of position a's logits is l(a) (onehot(y_t) - p(. | s_t, h_a)): a number that later
    steps decide, times a vector that they do not. The vectors of a step are kept if they fit beside
    those of the steps before. Else only the hidden layer is, and in the backward pass logits are
    computed once more for the positions that matter.

    Args:
        views: (B, m, R) W_x h_a; weight: (V, R); bias: (V,): the output layer.
        bf16: whether products are taken in bfloat16.
        static: whether nothing may wait for a value.
        hidden_layer: makes z of x.
    """

    def __init__(
        self,
        views: Tensor,
        weight: Tensor,
        bias: Tensor,
        bf16: bool = False,
        static: bool = False,
        hidden_layer: HiddenLayer = TANH,
    ) -> None:
        layer = OutputLayer(
            weight=weight.detach(),
            bias=bias.detach(),
            bf16=bf16,
            static=static,
            hidden_layer=hidden_layer,
        )
        if weight.is_cuda:
            room = STORED_ON_CUDA
        elif bf16:
            room = STORED
        else:
            room = CHUNK

        self.tape = _PositionTape(views.detach(), layer, room)
        self.anchor = Anchor.apply(self.tape, views, weight, bias)

    def __call__(
        self,
        query: Tensor,
        symbols: Tensor,
        kept: Tensor,
        top_k: int | None = None,
        sentences: Tensor | None = None,
    ) -> Tensor:
        """Return the log-likelihoods of y_t at every position, (n, m).

        Args:
            query: (n, R) W_s s + b; symbols: (n,) y_t.
            kept: (n, m) the positions that count; values at others have no meaning.
            top_k: positions of a row that are kept, at most, if that is known.
            sentences: (n,) the sentence of each row; None: rows are the first n sentences.
        """
        fixed = None
        if self.tape.layer.static:
            fixed = fixed_pairs(kept, top_k)

        log_likelihood: Tensor = _Position.apply(
            self.anchor, self.tape, query, symbols, kept, fixed, sentences
        )
        return log_likelihood


class _PositionTape(Tape):
    def __init__(self, views: Tensor, layer: OutputLayer, room: int) -> None:
        self.views = views
        self.layer = layer
        self.room = room  # bytes that are left for distributions
        self.dviews: Tensor | None = None

    def gradients(self) -> tuple[Tensor | None, ...]:
        dviews = self.dviews
        self.dviews = None
        return dviews, *self.layer.gradients()


class _Position(Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        tape: _PositionTape,
        query: Tensor,
        symbols: Tensor,
        kept: Tensor,
        fixed: int | None,
        sentences: Tensor | None,
    ) -> Tensor:
        layer = tape.layer
        pairs = Pairs(kept, layer.width, sentences=sentences, fixed=fixed)
        hidden = layer.hidden_layer.overwrite(pairs.sums(tape.views, query))
        z = hidden.z
        gold = pairs.expand_rows(symbols)

        # The errors are stored for the backward pass, if they fit.
        error = None
        padded = layer.padded(len(z))
        error_bytes = padded * layer.distribution_bytes
        if error_bytes <= tape.room and any(ctx.needs_input_grad):
            tape.room -= error_bytes
            error = layer.weight.new_empty(padded, layer.width)

        log_likelihood = torch.empty_like(z[:, 0])
        for first in range(0, len(z), layer.piece_rows):
            piece = slice(first, first + layer.piece_rows)
            is_last = piece.stop >= len(z)
            out = None
            if error is not None:
                # The last piece has the padding too.
                out = error[first:] if is_last else error[piece]
            log_likelihood[piece] = layer.errors(z[piece], gold[piece], out)[0]

        ctx.tape = tape
        ctx.pairs = pairs
        ctx.error = error
        ctx.save_for_backward(z, hidden.scale, gold)
        return pairs.spread(log_likelihood)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, scale, gold = ctx.saved_tensors
        tape = ctx.tape
        pairs = ctx.pairs
        error = ctx.error
        ctx.error = None  # it is dropped, and another backward pass computes it once more

        dx = backward_rows(tape.layer, Hidden(z, scale), error, gold, pairs.pick(grads[0]))
        if tape.dviews is None:
            tape.dviews = torch.zeros_like(tape.views)
        dquery = pairs.backward(dx, tape.dviews)
        return None, None, dquery, None, None, None, None


# All tokens at once, where nothing of them feeds back.


@dataclass(frozen=True)
class Mixture:
    """The N tokens whose likelihood is asked for, over m positions each."""

    symbols: Tensor  # (N,) y
    kept: Tensor  # (N, m) which positions count, at least one for each token
    sentences: Tensor  # (N,) the sentence of each token
    # whether positions are summed out; else the expectation of the logarithm is taken
    summed: bool = True
    bf16: bool = False  # whether products are taken in bfloat16
    # Whether nothing may wait for a value. Then tokens of padding are among the N; their values
    # have no meaning. All others must have the same weight in what is differentiated, as in a sum.
    static: bool = False
    top_k: int | None = None  # positions that are kept of a token, at most, if that is known
    hidden_layer: HiddenLayer = TANH  # makes z of x

    @property
    def fixed(self) -> int | None:
        """The number of pairs of each token that are computed; None: as many as are kept."""
        if not self.static:
            return None
        return fixed_pairs(self.kept, self.top_k)

    @property
    def counts(self) -> Tensor | None:
        """True for tokens that count, (N, 1); None: all do."""
        if not self.static:
            return None
        return (self.symbols != PAD)[:, None]

    def pieces(self, layer: OutputLayer) -> Iterator[tuple[slice, Pairs]]:
        """Divide the tokens into pieces; see `pieces`."""
        return pieces(self.kept, self.sentences, layer, self.fixed)


def fixed_pairs(kept: Tensor, top_k: int | None) -> int:
    """Count the pairs computed of each row (n, m) where that must not depend on what is kept."""
    positions = kept.shape[1]
    if top_k is None:
        return positions
    return min(top_k, positions)


def pieces(
    kept: Tensor, sentences: Tensor, layer: OutputLayer, fixed: int | None = None
) -> Iterator[tuple[slice, Pairs]]:
    """Divide tokens, with all of their positions, into pieces that are computed at a time.

    Arguments are as of `Mixture`.
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


def mixture_log_likelihood(
    views: Tensor | None,
    query: Tensor,
    weights: Tensor,
    weight: Tensor,
    bias: Tensor,
    mixture: Mixture,
    log_gate: Tensor | None = None,
    log_copied: Tensor | None = None,
) -> Tensor:
    """Return log sum_a exp(weights(a)) p(y | x_a), or sum_a weights(a) log p(y | x_a), (N,).

    If the symbol may be copied too, exp(log_copied) is added to the sum inside of the logarithm. In
    an expectation, exp(log_gate(a)) p(y | x_a) + exp(log_copied(a)) takes the place of p(y | x_a).

    How much a position counts is known in the forward pass: the posterior, if positions are summed
    out; the given distribution, if a bound is taken; one, if there is a single context. So the
    gradient is prepared there while logits are at hand, a few tokens at a time: neither logits
    nor hidden layers pile up over time.

    Args:
        views: (B, m, R) W_x h_a; None: m = 1, and the query has all of x.
        query: (N, R) W_s s + b, so that x_a = W_x h_a + W_s s + b.
        weights: (N, m) log probabilities if positions are summed out, else probabilities.
        weight: (V, R); bias: (V,): the output layer.
        mixture: the tokens, and how they are computed.
        log_gate: (N, m), with `log_copied` if positions are not summed out; or None.
        log_copied: (N,) if positions are summed out, else (N, m); or None.
    """
    log_likelihood: Tensor = _Mixture.apply(
        views, query, weights, weight, bias, log_gate, log_copied, mixture
    )
    return log_likelihood


class _Mixed(NamedTuple):
    """The log-likelihood of n tokens, and its derivatives."""

    log_likelihood: Tensor  # (n,)
    share: Tensor  # (n, m) by log p(y | x_a): how much a position counts
    dweights: Tensor  # (n, m) by the weights
    dcopied: Tensor | None  # by `log_copied`, of its shape


def _mix(
    summed: bool,
    weights: Tensor,
    log_probs: Tensor,
    kept: Tensor,
    log_gate: Tensor | None,
    log_copied: Tensor | None,
) -> _Mixed:
    """Sum positions out, or take the expectation; `log_probs` (n, m) are those of the symbols."""
    if summed:
        return _summed(weights, log_probs, kept, log_copied)
    return _expected(weights, log_probs, kept, log_gate, log_copied)


def _summed(
    log_weights: Tensor, log_probs: Tensor, kept: Tensor, log_copied: Tensor | None
) -> _Mixed:
    """Sum positions out: see `mixture_plain`."""
    log_joint = (log_weights + log_probs).masked_fill_(~kept, -torch.inf)
    log_sum = torch.logsumexp(log_joint, dim=1)
    dcopied = None
    if log_copied is not None:
        log_sum = torch.logaddexp(log_sum, log_copied)
        dcopied = (log_copied - log_sum).exp_()

    posterior = (log_joint - log_sum[:, None]).exp_()
    return _Mixed(log_sum, posterior, posterior, dcopied)


def _expected(
    weights: Tensor,
    log_probs: Tensor,
    kept: Tensor,
    log_gate: Tensor | None,
    log_copied: Tensor | None,
) -> _Mixed:
    """Take the expectation: see `mixture_plain`."""
    share = weights * kept
    if log_gate is None or log_copied is None:
        return _Mixed((share * log_probs).sum(1), share, log_probs * kept, None)

    generated = log_probs + log_gate
    either = torch.logaddexp(generated, log_copied)
    return _Mixed(
        log_likelihood=(share * either).sum(1),
        share=share * (generated - either).exp_(),
        dweights=either * kept,
        dcopied=share * (log_copied - either).exp_(),
    )


def _rows_like(values: Tensor, like: Tensor) -> Tensor:
    """View a number for each row as a factor of `like`, (N, ...)."""
    return values.view(-1, *[1] * (like.dim() - 1))


def _drop_padding(parts: tuple[Tensor | None, ...], tokens: slice, counts: Tensor) -> None:
    """Set the rows `tokens` of each part to zero where the token is one of padding."""
    for part in parts:
        if part is not None:
            part[tokens] *= _rows_like(counts[tokens], part)


class _Mixture(Function):
    @staticmethod
    def forward(
        ctx: Any,
        views: Tensor | None,
        query: Tensor,
        weights: Tensor,
        weight: Tensor,
        bias: Tensor,
        log_gate: Tensor | None,
        log_copied: Tensor | None,
        mixture: Mixture,
    ) -> Tensor:
        differentiable = any(ctx.needs_input_grad)
        layer = OutputLayer(
            weight=weight,
            bias=bias,
            bf16=mixture.bf16,
            static=mixture.static,
            hidden_layer=mixture.hidden_layer,
        )
        counts = mixture.counts

        log_likelihood = query.new_empty(len(query))
        share = torch.empty_like(weights)
        dweights = torch.empty_like(weights)
        dquery = torch.empty_like(query)
        dviews = None
        if views is not None and differentiable:
            dviews = torch.zeros_like(views)
        dcopied = None
        if log_copied is not None:
            dcopied = torch.empty_like(log_copied)

        for tokens, pairs in mixture.pieces(layer):
            hidden = layer.hidden_layer.overwrite(pairs.sums(views, query[tokens]))
            gold = pairs.expand_rows(mixture.symbols[tokens])
            gold_log_probs, error = layer.errors(hidden.z, gold)

            # How much each position counts; those of padding count nothing.
            mixed = _mix(
                summed=mixture.summed,
                weights=weights[tokens],
                log_probs=pairs.spread(gold_log_probs),
                kept=pairs.kept,
                log_gate=optional_rows(log_gate, tokens),
                log_copied=optional_rows(log_copied, tokens),
            )
            log_likelihood[tokens] = mixed.log_likelihood
            share[tokens] = mixed.share
            dweights[tokens] = mixed.dweights
            if dcopied is not None and mixed.dcopied is not None:
                dcopied[tokens] = mixed.dcopied
            if counts is not None:
                _drop_padding((share, dweights, dcopied), tokens, counts)

            if differentiable:
                dx = backward_rows(layer, hidden, error, gold, pairs.pick(share[tokens]))
                dquery[tokens] = pairs.backward(dx, dviews)

        if differentiable:
            dweight, dbias = layer.gradients()
            ctx.save_for_backward(
                views, query, weight, bias, share, dweights, dcopied, dviews, dquery, dweight, dbias
            )
            ctx.mixture = mixture
            ctx.gated = log_gate is not None
        return log_likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        views, query, weight, bias, share, dweights, dcopied, dviews, dquery, dweight, dbias = (
            ctx.saved_tensors
        )
        scale = grads[0]
        mixture = ctx.mixture
        counts = mixture.counts

        dweights = dweights * scale[:, None]
        dgate = share * scale[:, None] if ctx.gated else None
        if dcopied is not None:
            dcopied = dcopied * _rows_like(scale, dcopied)

        # As a rule the loss is a plain sum of tokens, and what was prepared is right up to a
        # factor. Where nothing may wait for the answer, a wrong one shows in the gradient as NaN.
        factor = None
        if counts is not None:
            is_sum = (scale == scale[0] * counts.squeeze(1)).all()
            factor = torch.where(is_sum, scale[0], torch.nan)
        elif bool((scale == scale[0]).all()):
            factor = scale[0]

        if factor is not None:
            if dviews is not None:
                dviews = dviews * factor
            dquery = dquery * factor
            dweight = dweight * factor
            dbias = dbias * factor
            return dviews, dquery, dweights, dweight, dbias, dgate, dcopied, None

        # Tokens weigh differently: what was prepared is computed once more.
        layer = OutputLayer(
            weight=weight, bias=bias, bf16=mixture.bf16, hidden_layer=mixture.hidden_layer
        )
        dviews, dquery = _recompute(layer, mixture, views, query, share, scale)
        return dviews, dquery, dweights, *layer.gradients(), dgate, dcopied, None


def _recompute(
    layer: OutputLayer,
    mixture: Mixture,
    views: Tensor | None,
    query: Tensor,
    share: Tensor,
    scale: Tensor,
) -> tuple[Tensor | None, Tensor]:
    """Return the gradients of views and query, and add to those of the layer.

    `share` (N, m) is how much positions count, and `scale` (N,) the gradient of each token.
    """
    dquery = torch.empty_like(query)
    dviews = None
    if views is not None:
        dviews = torch.zeros_like(views)

    for tokens, pairs in mixture.pieces(layer):
        hidden = layer.hidden_layer.overwrite(pairs.sums(views, query[tokens]))
        gold = pairs.expand_rows(mixture.symbols[tokens])
        pair_scale = pairs.pick(share[tokens] * scale[tokens, None])
        dx = backward_rows(layer, hidden, None, gold, pair_scale)
        dquery[tokens] = pairs.backward(dx, dviews)
    return dviews, dquery
