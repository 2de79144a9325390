"""The output layer's kernels: log-likelihoods of known symbols, without keeping distributions.

They are where time and memory go when the vocabulary is large: of size rows x V, no more is stored
than `CHUNK` and `STORED` allow. See `kernels` for how gradients are gathered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.data.vocabulary import PAD
from pam.models.kernels import Anchor, Tape, factor, large_products, padded_size
from pam.models.logspace import tanh, tanh_
from pam.runtime.torch_internals import tanh_backward

CHUNK = 1 << 24  # bytes of the largest piece of logits at a time: 16 MB, which a cache may hold

STORED = 1 << 29
"""Bytes of distributions in bfloat16 that are kept for the backward pass, at most: 512 MB. In
float32, where they would be twice as many, no more are kept than fit into a piece. The others are
computed once more.
"""

BLOCK = 1 << 11
"""Symbols whose gradients are added at a time on a CPU, where products are in bfloat16. Their
float32 copy is to stay in a cache; that of a large vocabulary comes from the kernel, page by page,
which takes longer than
the product.
"""

# rows whose gradients of the weights are gathered over steps, at most, before one product adds them
WAITING = 512
# bytes of their distributions, at most, if they are more than one piece: 64 MB
WAITING_BYTES = 1 << 26
MOST_PAIRS = 1 << 13
"""Pairs of the largest piece, however small the vocabulary: their hidden layers are to stay in a
cache too.
"""

WHOLE = 1 << 26
"""Numbers of a step's distributions on CUDA up to which all pairs are computed. To pick some, the
processor would wait for the device to say how many, which takes longer.
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


def gold_log_probs_plain(
    views: Tensor, query: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor
) -> Tensor:
    """log p(y | s, h_a), (n, m), of one symbol y for each row, the definition of
    `PositionLikelihood`; views (n, m, R) are W_x h_a, the query (n, R) is W_s s + b.
    """
    logits = torch.tanh(views + query[:, None]) @ weight.t() + bias
    index = symbols[:, None, None].expand(-1, views.shape[1], 1)
    return torch.log_softmax(logits, 2).gather(2, index).squeeze(2)


def mixture_plain(
    log_weights: Tensor,
    log_likelihood: Tensor,
    summed: bool,
    gate: Tensor | None = None,
    rest: Tensor | None = None,
) -> Tensor:
    """log (sum_a w(a) p_a + r), or sum_a w(a) log (g(a) p_a + r(a)), the definition of
    `mixture_log_likelihood`; weights (n, m) are log w if `summed`, else w, likelihoods (n, m) log
    p_a, `gate` log g, `rest`
    log r.
    """
    if summed:
        found = torch.logsumexp(log_weights + log_likelihood, 1)
        return found if rest is None else torch.logaddexp(found, rest)
    if gate is not None and rest is not None:
        log_likelihood = torch.logaddexp(gate + log_likelihood, rest)
    return (log_weights * log_likelihood).sum(1)


class OutputLayer:
    """softmax(W z + b) of z = tanh(x), of which gradients are gathered over many calls.

    Distributions are overwritten by the next call, unless a place for them is given: large pieces
    of memory that come and go among small ones that stay would leave holes that are not filled
    again.

    Args:
        weight: (V, R); bias: (V,).
        bf16: whether products are taken, and distributions held, in bfloat16. Logits are then off
            by up to 2^-9 of
            their size; sums and gradients are computed from what the logits say.
        static: whether nothing may wait for a value; see `Pairs`.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor, bf16: bool = False, static: bool = False
    ) -> None:
        # Column after column, with which oneDNN takes the products of a gradient a quarter faster.
        self.weight, self.bias = (
            (weight.t().bfloat16().contiguous().t(), bias.bfloat16()) if bf16 else (weight, bias)
        )
        self.bf16, self.width, self.dtype = bf16, len(weight), weight.dtype
        self.static = static
        self.scratch: dict[str, Tensor] = {}
        self.waiting: list[
            tuple[Tensor, Tensor]
        ] = []  # z and weights of rows whose gradients are still to be added
        self.dweight: Tensor | None = None
        self.dbias: Tensor | None = None

    @property
    def bytes(self) -> int:
        """Of one distribution."""
        return self.width * self.weight.element_size()

    @property
    def most(self) -> int:
        """Distributions of one piece, which need no padding."""
        piece = CHUNK * (ON_CUDA if self.weight.is_cuda else 1)
        return self.padded(max(1, piece // self.bytes * 16 // 17))

    @property
    def room(self) -> int:
        """Rows that wait, at most."""
        return min(WAITING, max(self.most, WAITING_BYTES // self.bytes))

    def padded(self, rows: int) -> int:
        """So many rows with those of zeros that a product wants; see `padded_size`."""
        return padded_size(rows, self.bf16)

    @large_products
    def probs(self, z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The distribution for each z (n, R), and its logits, (n, V) each."""
        rough = factor(z, self.bf16)
        logits = self._rows("logits", len(rough))
        torch.addmm(self.bias, rough, self.weight.t(), out=logits)
        probs = self._rows("probs", len(z)) if out is None else out
        return torch.softmax(logits[: len(z)], dim=1, out=probs), logits[: len(z)]

    def errors(
        self, z: Tensor, symbols: Tensor, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """log p(symbol), (n,), and its gradient by the logits with the sign changed, p -
        onehot(symbol), for z (n, R): (N, V), with rows of zeros up to the padded size; `out`, of n
        rows or more, is where it is
        to be held.
        """
        whole = self._rows("probs", self.padded(len(z))) if out is None else out
        whole[len(z) :].zero_()
        error, logits = self.probs(z, whole[: len(z)])
        if self.bf16:
            # Not by `scatter_`, which copies all of a tensor in bfloat16.
            chosen = torch.arange(len(z), device=z.device), symbols
            likely = error[chosen].to(self.dtype)
            # What all others have, so that 1 - p is right where p is rounded to 1.
            error[chosen] = 0.0
            rest = error.sum(1)
            error[chosen] = -rest
            found = (likely / (likely + rest)).log()
        elif z.is_cuda or self.static:
            # In log space at once: to look for probabilities that were rounded to zero would be to
            # wait.
            column = symbols[:, None]
            found = logits.gather(1, column).squeeze(1) - logits.logsumexp(1)
            error.scatter_(1, column, found.expm1()[:, None])
            return found, whole
        else:
            column = symbols[:, None]
            likely = error.gather(1, column).squeeze(1)
            error.scatter_(1, column, (likely - 1)[:, None])
            found = likely.log()
        if float(likely.amin()) < SMALLEST:
            lost = (likely < SMALLEST).nonzero().squeeze(1)
            exact = torch.log_softmax(logits[lost].to(self.dtype), dim=1)
            found[lost] = exact.gather(1, symbols[lost, None]).squeeze(1)
        return found, whole

    def _rows(self, name: str, count: int) -> Tensor:
        """The first `count` rows of a piece of memory that is used again and again."""
        held = self.scratch.get(name)
        if held is None or len(held) < count:
            held = self.scratch[name] = self.weight.new_empty(count, self.width)
        return held[:count]

    @large_products
    def backward(self, z: Tensor, error: Tensor, scale: Tensor) -> Tensor:
        """Gradient of x, (n, R), adding to those of weight and bias, from that of log p(symbol),
        `scale` (n,), and the error (N, V) of z by `errors`.
        """
        # Rows are weighted on the narrow side of each product.
        weights = -scale[:, None]
        if 2 * len(z) > self.room or z.is_cuda:
            self._add(error, z * weights, weights)
        else:
            self._wait(error[: len(z)], z * weights, weights)
        dz = (error @ self.weight)[: len(z)] * weights
        return tanh_backward(dz, z)

    def _wait(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Keeps rows until there are many: a product of few reads and writes all of a gradient for
        them.
        """
        room, first = self.room, sum(len(own) for own, _ in self.waiting)
        if first + len(error) > room:
            self._add_waiting()
            first = 0
        self._rows("errors", self.padded(room))[first : first + len(error)] = error
        self.waiting.append((weighted, weights))

    def _add_waiting(self) -> None:
        weighted, weights = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting = []
        error = self._rows("errors", self.padded(len(weights)))
        error[len(weights) :].zero_()
        self._add(error, weighted, weights)

    @large_products
    def _add(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Adds to the gradients those of errors (N, V), with rows of zeros, by z so weighted (n, R)
        and weights (n, 1).
        """
        narrow, column = factor(weighted, self.bf16), factor(weights, self.bf16)
        if self.dweight is None or self.dbias is None:
            self.dweight = torch.zeros(self.weight.shape, dtype=self.dtype, device=weights.device)
            self.dbias = torch.zeros(self.width, dtype=self.dtype, device=weights.device)
        self.dbias.add_((column.t() @ error).squeeze(0))
        if self.bf16:
            size = self.width if error.is_cuda else BLOCK
            for block in (slice(first, first + size) for first in range(0, self.width, size)):
                self.dweight[block].add_(error[:, block].t() @ narrow)
        else:
            self.dweight.addmm_(error.t(), narrow)

    def picked(self, error: Tensor, rows: Tensor) -> Tensor:
        """Some rows (n,) of errors, as of `errors`; until the next call."""
        found = self._rows("logits", self.padded(len(rows)))
        torch.index_select(error, 0, rows, out=found[: len(rows)])
        found[len(rows) :].zero_()
        return found

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of weight and bias since the last call; None if there are none."""
        if self.waiting:
            self._add_waiting()
        dweight, dbias = self.dweight, self.dbias
        self.dweight = self.dbias = None
        return dweight, dbias


def nonzero_rows(scale: Tensor, width: int) -> Tensor | None:
    """Which rows matter: indices where |scale| (n,) is not lost in rounding; None: all, or too many
    to pick them.

    A row whose scale is below the precision of the largest changes no sum that it enters.
    """
    if scale.is_cuda and len(scale) * width <= WHOLE:
        return None
    size = scale.abs()
    rows = (size > size.amax() * torch.finfo(scale.dtype).eps).nonzero().squeeze(1)
    return None if (len(scale) - len(rows)) * width <= PICKING * len(scale) else rows


def backward_rows(
    layer: OutputLayer, z: Tensor, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    """Gradient of x, (P, R), by `OutputLayer.backward`, leaving out rows of no weight; the error is
    that of `OutputLayer.errors`; None: it is computed once more.
    """
    rows = None if layer.static else nonzero_rows(scale, layer.width)
    if rows is not None:
        dx = torch.zeros_like(z)
        error = None if error is None else layer.picked(error, rows)
        return dx.index_copy_(0, rows, _backward(layer, z[rows], error, symbols[rows], scale[rows]))
    return _backward(layer, z, error, symbols, scale)


def _backward(
    layer: OutputLayer, z: Tensor, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    if error is not None:
        return layer.backward(z, error, scale)
    dx = torch.empty_like(z)
    for first in range(0, len(z), layer.most):
        piece = slice(first, first + layer.most)
        dx[piece] = layer.backward(
            z[piece], layer.errors(z[piece], symbols[piece])[1], scale[piece]
        )
    return dx


class Pairs:
    """The (row, position) pairs that are computed, one after another: P of n x m.

    What is left out costs nothing: padding, positions outside a window or of a sparse distribution,
    and those beyond the ones that are summed over. Where that would spare less than it costs to
    pick the others, all are computed.

    Args:
        kept: (n, m) which pairs count, at least one in each row; width: symbols of the vocabulary.
        sentences: (n,) the sentence of each row; None: rows are those of the first sentences.
        fixed: pairs that are computed in each row, however many are kept, which are no more. So
            their
            number depends on no value. None: it is the number of those that are kept.
    """

    def __init__(
        self, kept: Tensor, width: int, sentences: Tensor | None = None, fixed: int | None = None
    ) -> None:
        self.kept, self.sentences = kept, sentences
        if fixed is not None:
            self._compute_fixed(fixed)
            return

        small = kept.is_cuda and kept.numel() * width <= WHOLE
        self.whole = small or (kept.numel() - int(kept.sum())) * width <= PICKING * kept.numel()
        if not self.whole:
            self.rows, self.positions = kept.nonzero(as_tuple=True)
            self.index = self.rows * kept.shape[1] + self.positions

    def _compute_fixed(self, count: int) -> None:
        """Take so many positions of each row, those that are kept first."""
        rows, positions = self.kept.shape
        self.whole = count == positions
        if self.whole:
            return

        self.positions = self.kept.float().topk(count, dim=1).indices.flatten()
        self.rows = torch.arange(rows, device=self.kept.device).repeat_interleave(count)
        self.index = self.rows * positions + self.positions

    def of_rows(self, values: Tensor) -> Tensor:
        """What belongs to rows, (n,), for each of their pairs: (P,)."""
        return (
            values[:, None].expand(self.kept.shape).flatten() if self.whole else values[self.rows]
        )

    def of(self, values: Tensor) -> Tensor:
        """Those of values (n, m): (P,)."""
        return values.flatten() if self.whole else values.flatten().index_select(0, self.index)

    def spread(self, values: Tensor) -> Tensor:
        """Values (P, ...) to (n, m, ...), zeros elsewhere."""
        shape = *self.kept.shape, *values.shape[1:]
        if self.whole:
            return values.view(shape)
        return (
            values.new_zeros(self.kept.numel(), *values.shape[1:])
            .index_copy_(0, self.index, values)
            .view(shape)
        )

    def hidden(self, views: Tensor | None, query: Tensor) -> Tensor:
        """z = tanh(W_x h_a + W_s s + b) of each pair, (P, R), from views W_x h_a (B, m, R); None:
        the query (n, R) has all of the sum already.
        """
        if views is None:
            return tanh(query)
        if self.whole:
            each = views[: len(query)] if self.sentences is None else views[self.sentences]
            return tanh_((each + query[:, None]).flatten(0, 1))
        return tanh_(
            views.flatten(0, 1).index_select(0, self.places).add_(query.index_select(0, self.rows))
        )

    @cached_property
    def places(self) -> Tensor:
        """Of each pair the place in views (B, m, R) whose first two dimensions are one, (P,)."""
        return (
            self.index
            if self.sentences is None
            else self.sentences[self.rows] * self.kept.shape[1] + self.positions
        )

    def backward(self, dx: Tensor, dviews: Tensor | None) -> Tensor:
        """Gradient of the query (n, R) from that of the sums in `hidden`, (P, R), adding to that of
        views.
        """
        if not self.whole:
            # Not by `spread`: to fill and to sum many positions takes longer than to add the few
            # that count.
            if dviews is not None:
                dviews.view(-1, dx.shape[1]).index_add_(0, self.places, dx)
            return dx.new_zeros(len(self.kept), dx.shape[1]).index_add_(0, self.rows, dx)
        each = self.spread(dx)
        if dviews is not None:
            if self.sentences is None:
                dviews[: len(each)].add_(each)
            else:
                dviews.index_add_(0, self.sentences, each)
        return each.sum(1)


# Positions one step at a time, where later steps decide how much each of them counts.


class PositionLikelihood:
    """log p(y_t | s_t, h_a) of source positions, at many steps that feed it back.

    The gradient of position a's logits is l(a) (onehot(y_t) - p(. | s_t, h_a)): a number that later
    steps decide, times a vector that they do not. The vectors of a step are kept if they fit beside
    those of the steps before. Else only the hidden layer is, and in the backward pass logits are
    computed once more for the positions that matter.

    Args:
        views: (B, m, R) W_x h_a; weight: (V, R); bias: (V,): the output layer.
        static: whether nothing may wait for a value.
    """

    def __init__(
        self, views: Tensor, weight: Tensor, bias: Tensor, bf16: bool = False, static: bool = False
    ) -> None:
        layer = OutputLayer(weight.detach(), bias.detach(), bf16, static)
        room = STORED_ON_CUDA if weight.is_cuda else STORED if bf16 else CHUNK
        self.tape = _PositionTape(views.detach(), layer, room)
        self.anchor = Anchor.apply(self.tape, views, weight, bias)

    def __call__(
        self, query: Tensor, symbols: Tensor, kept: Tensor, top_k: int | None = None
    ) -> Tensor:
        """Log-likelihoods of y_t (n,), without meaning but for the positions `kept`, (n, m), with
        the query W_s s + b, (n, R), of the first n sentences. Of a row at most `top_k` positions
        are kept, if that is
        known.
        """
        fixed = fixed_pairs(kept, top_k) if self.tape.layer.static else None
        found: Tensor = _Position.apply(self.anchor, self.tape, query, symbols, kept, fixed)
        return found


class _PositionTape(Tape):
    def __init__(self, views: Tensor, layer: OutputLayer, room: int) -> None:
        self.views, self.layer, self.room = views, layer, room  # bytes that are left
        self.dviews: Tensor | None = None

    def gradients(self) -> tuple[Tensor | None, ...]:
        dviews, self.dviews = self.dviews, None
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
    ) -> Tensor:
        layer, pairs = tape.layer, Pairs(kept, tape.layer.width, fixed=fixed)
        z, gold = pairs.hidden(tape.views, query), pairs.of_rows(symbols)
        ctx.error, padded = None, layer.padded(len(z))
        if padded * layer.bytes <= tape.room and any(ctx.needs_input_grad):
            tape.room -= padded * layer.bytes
            ctx.error = layer.weight.new_empty(padded, layer.width)
        found = torch.empty_like(z[:, 0])
        for first in range(0, len(z), layer.most):
            piece = slice(first, first + layer.most)
            last = first + layer.most >= len(z)
            out = None if ctx.error is None else ctx.error[first:] if last else ctx.error[piece]
            found[piece] = layer.errors(z[piece], gold[piece], out)[0]
        ctx.tape, ctx.pairs = tape, pairs
        ctx.save_for_backward(z, gold)
        return pairs.spread(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, gold = ctx.saved_tensors
        tape, pairs = ctx.tape, ctx.pairs
        error, ctx.error = ctx.error, None
        dx = backward_rows(tape.layer, z, error, gold, pairs.of(grads[0]))
        if tape.dviews is None:
            tape.dviews = torch.zeros_like(tape.views)
        return None, None, pairs.backward(dx, tape.dviews), None, None, None


# All tokens at once, where nothing of them feeds back.


@dataclass(frozen=True)
class Mixture:
    """Whose likelihood is asked for: N tokens, over m positions each."""

    symbols: Tensor  # (N,) y
    kept: Tensor  # (N, m) which positions count, at least one for each token
    sentences: Tensor  # (N,) the sentence of each token
    summed: bool = (
        True  # whether positions are summed out; else the expectation of the logarithm is taken
    )
    bf16: bool = False  # whether products are taken in bfloat16
    # Whether nothing may wait for a value. Then tokens of padding are among the N; their values
    # have no meaning. All others must have the same weight in what is differentiated, as in a sum.
    static: bool = False
    top_k: int | None = None  # positions that are kept of a token, at most, if that is known

    @property
    def fixed(self) -> int | None:
        """How many pairs of each token are computed; None: as many as are kept."""
        return fixed_pairs(self.kept, self.top_k) if self.static else None

    @property
    def counts(self) -> Tensor | None:
        """(N, 1) whether a token counts; None: all do."""
        return (self.symbols != PAD)[:, None] if self.static else None


def fixed_pairs(kept: Tensor, top_k: int | None) -> int:
    """Count the pairs computed of each row (n, m) where that must not depend on what is kept."""
    positions = kept.shape[1]
    return positions if top_k is None else min(top_k, positions)


def pieces(
    kept: Tensor, sentences: Tensor, layer: OutputLayer, fixed: int | None = None
) -> Iterator[tuple[slice, Pairs]]:
    """Tokens with all of their positions, as many as are computed at a time; arguments as of
    `Mixture`.
    """
    size = layer.most if kept.is_cuda else min(layer.most, MOST_PAIRS)
    if fixed is not None:
        count = max(1, size // fixed)
        for first in range(0, len(kept), count):
            tokens = slice(first, first + count)
            yield tokens, Pairs(kept[tokens], layer.width, sentences[tokens], fixed)
        return

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
    given: Mixture,
    gate: Tensor | None = None,
    rest: Tensor | None = None,
) -> Tensor:
    """log sum_a exp(weights(a)) p(y | x_a), or sum_a weights(a) log p(y | x_a), of many tokens.

    What else the symbol may come from is added to the sum inside of the logarithm: exp(rest); in an
    expectation, p is exp(gate(a)) p(y | x_a) + exp(rest(a)).

    How much a position counts is known in the forward pass: the posterior, if positions are summed
    out; the given distribution, if a bound is taken; one, if there is a single context. So the
    gradient is prepared there while logits are at hand, a few tokens at a time: neither logits
    nor hidden layers pile up over time.

    Args:
        views: (B, m, R) W_x h_a; None: m = 1, and the query has all of x.
        query: (N, R) W_s s + b, so that x_a = W_x h_a + W_s s + b.
        weights: (N, m) log probabilities if positions are summed out, else probabilities.
        weight: (V, R); bias: (V,): the output layer.
        gate: (N, m), with `rest` if positions are not summed out; rest: (N,) if they are, else (N,
            m); or None.

    Returns: (N,).
    """
    found: Tensor = _Mixture.apply(views, query, weights, weight, bias, gate, rest, given)
    return found


class _Mixture(Function):
    @staticmethod
    def forward(
        ctx: Any,
        views: Tensor | None,
        query: Tensor,
        weights: Tensor,
        weight: Tensor,
        bias: Tensor,
        gate: Tensor | None,
        rest: Tensor | None,
        given: Mixture,
    ) -> Tensor:
        differentiable = any(ctx.needs_input_grad)
        layer, found = (
            OutputLayer(weight, bias, given.bf16, given.static),
            query.new_empty(len(query)),
        )
        counts = given.counts
        share, dweights, dquery = (
            torch.empty_like(weights),
            torch.empty_like(weights),
            torch.empty_like(query),
        )
        dviews = None if views is None or not differentiable else torch.zeros_like(views)
        drest = None if rest is None else torch.empty_like(rest)
        for tokens, pairs in pieces(given.kept, given.sentences, layer, given.fixed):
            z, gold = pairs.hidden(views, query[tokens]), pairs.of_rows(given.symbols[tokens])
            log_likelihood, error = layer.errors(z, gold)
            each = pairs.spread(log_likelihood)
            if given.summed:
                joint = (weights[tokens] + each).masked_fill_(~pairs.kept, -torch.inf)
                found[tokens] = torch.logsumexp(joint, dim=1)
                if rest is not None and drest is not None:
                    found[tokens] = torch.logaddexp(found[tokens], rest[tokens])
                    drest[tokens] = (rest[tokens] - found[tokens]).exp_()
                share[tokens] = dweights[tokens] = (joint - found[tokens, None]).exp_()
            else:
                share[tokens] = weights[tokens] * pairs.kept
                if gate is not None and rest is not None and drest is not None:
                    generated, each = (
                        each + gate[tokens],
                        torch.logaddexp(each + gate[tokens], rest[tokens]),
                    )
                    found[tokens] = (share[tokens] * each).sum(1)
                    drest[tokens] = share[tokens] * (rest[tokens] - each).exp_()
                    share[tokens] *= (generated - each).exp_()
                else:
                    found[tokens] = (share[tokens] * each).sum(1)
                dweights[tokens] = each * pairs.kept
            if counts is not None:
                for part in (share, dweights, drest):
                    if part is not None:
                        part[tokens] *= counts[tokens].view(-1, *[1] * (part.dim() - 1))
            if differentiable:
                dx = backward_rows(layer, z, error, gold, pairs.of(share[tokens]))
                dquery[tokens] = pairs.backward(dx, dviews)
        if differentiable:
            prepared = share, dweights, drest, dviews, dquery, *layer.gradients()
            ctx.save_for_backward(views, query, weight, bias, *prepared)
            ctx.given, ctx.gated = given, gate is not None
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        views, query, weight, bias, share, dweights, drest, dviews, dquery, dweight, dbias = (
            ctx.saved_tensors
        )
        scale, given = grads[0], ctx.given
        dweights = dweights * scale[:, None]
        dgate = share * scale[:, None] if ctx.gated else None
        if drest is not None:
            drest = drest * scale.view(-1, *[1] * (drest.dim() - 1))
        # As a rule the loss is a plain sum of tokens, and what was prepared is right up to it.
        counts = given.counts
        is_sum = (
            (scale == scale[0]).all()
            if counts is None
            else (scale == scale[0] * counts.squeeze(1)).all()
        )
        if counts is not None or bool(is_sum):
            # Where nothing may wait for the answer, a wrong one shows in the gradient.
            factor = scale[0] if counts is None else torch.where(is_sum, scale[0], torch.nan)
            dviews = None if dviews is None else dviews * factor
            return (
                dviews,
                dquery * factor,
                dweights,
                dweight * factor,
                dbias * factor,
                dgate,
                drest,
                None,
            )
        layer, dquery = OutputLayer(weight, bias, given.bf16), torch.empty_like(query)
        dviews = None if views is None else torch.zeros_like(views)
        for tokens, pairs in pieces(given.kept, given.sentences, layer, given.fixed):
            z, gold = pairs.hidden(views, query[tokens]), pairs.of_rows(given.symbols[tokens])
            dx = backward_rows(layer, z, None, gold, pairs.of(share[tokens] * scale[tokens, None]))
            dquery[tokens] = pairs.backward(dx, dviews)
        return dviews, dquery, dweights, *layer.gradients(), dgate, drest, None
