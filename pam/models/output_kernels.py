"""The output layer's kernels: log-likelihoods of known symbols, without keeping distributions.

They are where time and memory go when the vocabulary is large: nothing of size rows x V is stored,
but for small vocabularies, where that is cheaper. See `kernels` for how gradients are gathered.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.kernels import Anchor, Tape, bf16_if
from pam.models.logspace import tanh_

CHUNK = 1 << 22
"""Elements of the largest piece of logits at a time: 16 MB in float32, which a cache may hold."""


def gold_log_probs_plain(views: Tensor, query: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor) -> Tensor:
    """log p(y | s, h_a) of one symbol y for each row, the definition of `PositionLikelihood`.

    Args:
        views: (n, m, R) W_x h_a; query: (n, R) W_s s + b; weight: (V, R); bias: (V,).
        symbols: (n,).

    Returns:
        (n, m).
    """
    logits = torch.tanh(views + query[:, None]) @ weight.t() + bias
    index = symbols[:, None, None].expand(-1, views.shape[1], 1)
    return torch.log_softmax(logits, 2).gather(2, index).squeeze(2)


def mixture_plain(log_weights: Tensor, log_likelihood: Tensor, summed: bool) -> Tensor:
    """log sum_a w(a) p_a, or sum_a w(a) log p_a, the definition of `mixture_log_likelihood`.

    Args:
        log_weights: (n, m) log w if `summed`, else w.
        log_likelihood: (n, m) log p_a.
    """
    if summed:
        return torch.logsumexp(log_weights + log_likelihood, 1)
    return (log_weights * log_likelihood).sum(1)


class OutputLayer:
    """softmax(W z + b) of z = tanh(x), of which gradients are gathered over many calls.

    What `log_probs` and `probs` return is overwritten by the next call of either: large pieces of
    memory that come and go among small ones that stay would leave holes that are not filled again.

    Args:
        weight: (V, R); bias: (V,).
        bf16: whether products are taken in bfloat16; sums and softmax stay as they are.
    """

    def __init__(self, weight: Tensor, bias: Tensor, bf16: bool = False) -> None:
        self.weight, self.bias = bf16_if(bf16, weight), bias
        self.bf16, self.shape, self.dtype = bf16, weight.shape, weight.dtype
        self.scratch: dict[str, Tensor] = {}
        self.dweight: Tensor | None = None
        self.dbias: Tensor | None = None

    def log_probs(self, z: Tensor) -> Tensor:
        """Log softmax of the logits for z (n, R): (n, V)."""
        return torch.log_softmax(self._logits(z), dim=1, out=self._rows("probs", len(z)))

    def probs(self, z: Tensor) -> Tensor:
        """Softmax of the logits for z (n, R): (n, V)."""
        return torch.softmax(self._logits(z), dim=1, out=self._rows("probs", len(z)))

    def logits_of(self, z: Tensor, symbols: Tensor) -> Tensor:
        """Logits of one symbol each: z (..., R), symbols (...) to (...)."""
        return (z * self.weight[symbols]).sum(-1).to(self.dtype) + self.bias[symbols]

    def _logits(self, z: Tensor) -> Tensor:
        logits = self._rows("logits", len(z))
        if not self.bf16:
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

    def backward(self, z: Tensor, probs: Tensor, symbols: Tensor, scale: Tensor) -> Tensor:
        """Gradient of x, (n, R), adding to those of weight and bias.

        Args:
            z: (n, R); probs: (n, V) of z, overwritten.
            symbols: (n,).
            scale: (n,) gradient of log p(symbol).
        """
        error = probs.scatter_add_(1, symbols[:, None], torch.full_like(scale, -1.0)[:, None])
        error.mul_(-scale[:, None])
        return through_tanh(self.note(z, error), z)

    def note(self, z: Tensor, error: Tensor) -> Tensor:
        """Adds to the gradients from that of the logits (n, V); returns that of z, (n, R)."""
        if self.dweight is None or self.dbias is None:
            self.dweight = torch.zeros(self.shape, dtype=self.dtype, device=z.device)
            self.dbias = torch.zeros_like(self.bias)
        self.dbias.add_(error.sum(0))
        if not self.bf16:
            self.dweight.addmm_(error.t(), z)
            return error @ self.weight
        rough = self._rows("rough", len(error), torch.bfloat16).copy_(error)
        self.dweight.add_(rough.t() @ z.bfloat16())
        return (rough @ self.weight).to(self.dtype)

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of weight and bias since the last call; None if there are none."""
        dweight, dbias = self.dweight, self.dbias
        self.dweight = self.dbias = None
        return dweight, dbias


def through_tanh(dz: Tensor, z: Tensor) -> Tensor:
    """Gradient of x from that of z = tanh(x): (1 - z^2) dz."""
    return torch.addcmul(dz, dz * z, z, value=-1)


def nonzero_rows(scale: Tensor) -> Tensor | None:
    """Which rows matter: indices where |scale| (n,) is not lost in rounding, or None for most.

    A row whose scale is below the precision of the largest changes no sum that it enters.
    """
    size = scale.abs()
    rows = (size > size.amax() * torch.finfo(scale.dtype).eps).nonzero().squeeze(1)
    return None if 4 * len(rows) > 3 * len(scale) else rows


# Positions one step at a time, where later steps decide how much each of them counts.


class PositionLikelihood:
    """log p(y_t | s_t, h_a) of source positions, at many steps that feed it back.

    The gradient of position a's logits is l(a) (onehot(y_t) - p(. | s_t, h_a)): a number that later steps decide, times
    a vector that they do not. Where the vectors of all steps fit into memory, their products with the weights are taken
    at once, while all of a step is still in the cache. Else only the hidden layer is kept, and on the way back logits
    are computed once more for the positions that matter.

    Args:
        views: (B, m, R) W_x h_a.
        weight: (V, R); bias: (V,): the output layer.
        rows: how many (row, position) pairs all steps have together.
    """

    def __init__(self, views: Tensor, weight: Tensor, bias: Tensor, rows: int, bf16: bool = False) -> None:
        layer = OutputLayer(weight.detach(), bias.detach(), bf16)
        self.tape = _PositionTape(views.detach(), layer, rows * len(weight) <= CHUNK and not bf16)
        self.anchor = Anchor.apply(self.tape, views, weight, bias)

    def __call__(self, query: Tensor, symbols: Tensor, kept: Tensor | None = None) -> Tensor:
        """Log-likelihoods, (n, m) or (n, K).

        Args:
            query: (n, R) W_s s + b of the first n sentences.
            symbols: (n,) y_t.
            kept: (n, K) which positions; None: all.
        """
        found: Tensor = _Position.apply(self.anchor, self.tape, query, symbols, kept)
        return found


class _PositionTape(Tape):
    def __init__(self, views: Tensor, layer: OutputLayer, keeps: bool) -> None:
        self.views, self.layer, self.keeps = views, layer, keeps
        self.dviews: Tensor | None = None
        self.notes: list[tuple[Tensor, Tensor]] = []

    def add_to_views(self, dx: Tensor, kept: Tensor | None) -> None:
        if self.dviews is None:
            self.dviews = torch.zeros_like(self.views)
        rows = self.dviews[: len(dx)]
        if kept is None:
            rows.add_(dx)
        else:
            rows.scatter_add_(1, kept[:, :, None].expand_as(dx), dx)

    def gradients(self) -> tuple[Tensor | None, ...]:
        if self.notes:
            z, error = (torch.cat(parts) for parts in zip(*self.notes, strict=True))
            self.notes = []
            dweight, dbias = error.t() @ z, error.sum(0)
        else:
            dweight, dbias = self.layer.gradients()  # type: ignore[assignment]
        dviews, self.dviews = self.dviews, None
        return dviews, dweight, dbias


class _Position(Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, tape: _PositionTape, query: Tensor, symbols: Tensor, kept: Tensor | None
    ) -> Tensor:
        views = tape.views[: len(query)]
        if kept is not None:
            views = views.gather(1, kept[:, :, None].expand(-1, -1, views.shape[2]))
        z = tanh_(views + query[:, None])
        flat, gold = z.flatten(0, 1), symbols[:, None].expand(z.shape[:2]).flatten()[:, None]
        log_probs = tape.layer.log_probs(flat)
        found = log_probs.gather(1, gold).view(z.shape[:2])
        ctx.tape, ctx.kept, ctx.error = tape, kept, None
        if tape.keeps and any(ctx.needs_input_grad):
            # onehot(y_t) - p, whose product with the weights no later step changes.
            error = log_probs.exp().neg_()
            error.scatter_add_(1, gold, error.new_ones(1, 1).expand_as(gold))
            ctx.error, ctx.dx = error, through_tanh(error @ tape.layer.weight, flat).view_as(z)
        ctx.save_for_backward(z, gold)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, gold = ctx.saved_tensors
        tape, scale = ctx.tape, grads[0]
        if ctx.error is not None:
            tape.notes.append((z.flatten(0, 1), ctx.error * scale.reshape(-1, 1)))
            dx = ctx.dx * scale[:, :, None]
        else:
            dx = _recomputed(tape.layer, z, gold, scale)
        tape.add_to_views(dx, ctx.kept)
        return None, None, dx.sum(1), None, None


def _recomputed(layer: OutputLayer, z: Tensor, gold: Tensor, scale: Tensor) -> Tensor:
    """Gradient of x (n, K, R), from logits computed once more; rows of no weight are left out."""
    flat, gold, weights = z.flatten(0, 1), gold.squeeze(1), scale.flatten()
    dx = torch.zeros_like(flat)
    for piece in pieces(len(flat), layer.shape[0]):
        backward_rows(layer, dx[piece], flat[piece], None, gold[piece], weights[piece])
    return dx.view_as(z)


# All tokens at once, where nothing of them feeds back.


def mixture_log_likelihood(
    x: Tensor,
    weights: Tensor,
    weight: Tensor,
    bias: Tensor,
    symbols: Tensor,
    *,
    summed: bool = True,
    bf16: bool = False,
) -> Tensor:
    """log sum_a exp(weights(a)) p(y | x_a), or sum_a weights(a) log p(y | x_a), of many tokens.

    How much a position counts is known on the way forward: the posterior, if positions are summed
    out; the given distribution, if a bound is taken; one, if there is a single context. So the
    gradient is prepared there while logits are at hand, and logits never pile up over time.

    Args:
        x: (N, K, R) the readout's hidden layer before its tanh, at K positions of each of N tokens.
        weights: (N, K) log probabilities if `summed`, else probabilities.
        weight: (V, R); bias: (V,): the output layer.
        symbols: (N,) y.
        summed: whether positions are summed out; else the expectation of the logarithm is taken.
        bf16: whether products are taken in bfloat16.

    Returns:
        (N,).
    """
    found: Tensor = _Mixture.apply(x, weights, weight, bias, symbols, summed, bf16)
    return found


class _Mixture(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, weight: Tensor, bias: Tensor, symbols: Tensor, summed: bool, bf16: bool
    ) -> Tensor:
        differentiable = any(ctx.needs_input_grad)
        layer, z = OutputLayer(weight, bias, bf16), torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)
        found, share = x.new_empty(len(x)), torch.empty_like(weights)
        dweights = share if summed else torch.empty_like(weights)
        dx = torch.empty_like(z) if differentiable else z
        for piece in pieces(len(z), z.shape[1] * len(weight)):
            rows = z[piece].flatten(0, 1)
            gold = symbols[piece, None].expand(z[piece].shape[:2]).flatten()
            log_probs = layer.log_probs(rows)
            likelihood = log_probs.gather(1, gold[:, None]).view_as(weights[piece])
            if summed:
                joint = weights[piece] + likelihood
                found[piece] = torch.logsumexp(joint, dim=1)
                share[piece] = (joint - found[piece, None]).exp_()
            else:
                found[piece] = (weights[piece] * likelihood).sum(1)
                share[piece], dweights[piece] = weights[piece], likelihood
            if differentiable:
                out, probs = dx[piece].view(-1, z.shape[2]), log_probs.exp_()
                backward_rows(layer, out, rows, probs, gold, share[piece].flatten())
        if differentiable:
            ctx.save_for_backward(z, weight, bias, symbols, share, dx, *layer.gradients())
            ctx.dweights, ctx.bf16 = dweights, bf16
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, weight, bias, symbols, share, dx, dweight, dbias = ctx.saved_tensors
        scale, rest = grads[0], (None, None, None)
        dweights = ctx.dweights * scale[:, None]
        # As a rule the loss is a plain sum of tokens, and what was prepared is right up to it.
        if bool((scale == scale[0]).all()):
            factor = scale[0]
            return dx * factor, dweights, dweight * factor, dbias * factor, *rest
        layer, dx = OutputLayer(weight, bias, ctx.bf16), torch.empty_like(z)
        for piece in pieces(len(z), z.shape[1] * len(weight)):
            gold = symbols[piece, None].expand(z[piece].shape[:2]).flatten()
            weighed = (share[piece] * scale[piece, None]).flatten()
            out = dx[piece].view(-1, z.shape[2])
            backward_rows(layer, out, z[piece].flatten(0, 1), None, gold, weighed)
        return dx, dweights, *layer.gradients(), *rest


def pieces(count: int, width: int) -> list[slice]:
    """So many rows cut into pieces of at most `CHUNK` elements, at `width` elements a row."""
    size = max(1, CHUNK // width)
    return [slice(first, first + size) for first in range(0, count, size)]


def backward_rows(
    layer: OutputLayer, out: Tensor, z: Tensor, probs: Tensor | None, gold: Tensor, scale: Tensor
) -> None:
    """Writes the gradient of the layer's input into `out` (n, R), leaving out rows of no weight."""
    rows = nonzero_rows(scale)
    if rows is None:
        out.copy_(layer.backward(z, layer.probs(z) if probs is None else probs, gold, scale))
        return
    chosen = z[rows]
    probs = layer.probs(chosen) if probs is None else probs[rows]
    out.zero_().index_copy_(0, rows, layer.backward(chosen, probs, gold[rows], scale[rows]))


@torch.no_grad()
def mixture_log_probs(z: Tensor, weights: Tensor, layer: OutputLayer) -> tuple[Tensor, Tensor]:
    """log sum_a w(a) p(y | x_a) of every symbol, for search: nothing is kept for a gradient.

    Distributions of positions are made and summed a few rows at a time, as all of them together
    are many times larger than any cache.

    Args:
        z: (N, K, R) tanh(x); weights: (N, K) probabilities.

    Returns:
        (N, V), and the log of the normalizer of each position, (N, K): the log-likelihood of a
        symbol is its logit less that.
    """
    vocabulary = layer.shape[0]
    norms, probs = torch.empty_like(weights), weights.new_empty(len(weights), vocabulary)
    for piece in pieces(len(z), z.shape[1] * vocabulary):
        log_probs = layer.log_probs(z[piece].flatten(0, 1))
        # log p = logit - norm for every symbol; the first one tells the norm.
        first = layer.logits_of(z[piece], torch.zeros_like(z[piece, :, 0]).long())
        norms[piece] = first - log_probs[:, 0].view_as(first)
        each = log_probs.exp_().view(*z[piece].shape[:2], -1)
        torch.bmm(weights[piece, None], each, out=probs[piece, None])
    return probs.clamp_min_(torch.finfo(probs.dtype).tiny).log_(), norms
