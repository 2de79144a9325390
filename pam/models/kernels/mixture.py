"""Positions summed out, or an expectation over them, for all tokens at once.

Nothing of a token feeds back to a later step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.data.vocabulary import PAD
from pam.models.kernels.compute import FLOAT32, Compute
from pam.models.kernels.hidden_layers import TANH, HiddenLayer
from pam.models.kernels.output_layer import OutputLayer, backward_rows
from pam.models.kernels.pairs import Pairs, fixed_count, pieces
from pam.models.packing import optional_rows


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


@dataclass(frozen=True)
class Mixture:
    """The N tokens whose likelihood is asked for, over m positions each."""

    symbols: Tensor  # (N,) y
    kept: Tensor  # (N, m) which positions count, at least one for each token
    sentences: Tensor  # (N,) the sentence of each token
    # whether positions are summed out; else the expectation of the logarithm is taken
    summed: bool = True
    compute: Compute = FLOAT32  # how products are taken
    top_k: int | None = None  # positions that are kept of a token, at most, if that is known
    hidden_layer: HiddenLayer = TANH  # makes z of u

    @property
    def fixed(self) -> int | None:
        """The number of pairs of each token that are computed; None: as many as are kept."""
        if not self.compute.static:
            return None
        return fixed_count(self.kept, self.top_k)

    @property
    def counts(self) -> Tensor | None:
        """True for tokens that count, (N, 1); None: all do."""
        if not self.compute.static:
            return None
        return (self.symbols != PAD)[:, None]

    def pieces(self, layer: OutputLayer) -> Iterator[tuple[slice, Pairs]]:
        """Divide the tokens into pieces; see `pieces`."""
        return pieces(self.kept, self.sentences, layer, self.fixed)


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
            compute=mixture.compute,
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
            hidden = layer.hidden_layer.overwrite(pairs.pre_activations(views, query[tokens]))
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
                du = backward_rows(layer, hidden, error, gold, pairs.pick(share[tokens]))
                dquery[tokens] = pairs.backward(du, dviews)

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
            weight=weight,
            bias=bias,
            compute=replace(mixture.compute, static=False),
            hidden_layer=mixture.hidden_layer,
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
        hidden = layer.hidden_layer.overwrite(pairs.pre_activations(views, query[tokens]))
        gold = pairs.expand_rows(mixture.symbols[tokens])
        pair_scale = pairs.pick(share[tokens] * scale[tokens, None])
        du = backward_rows(layer, hidden, None, gold, pair_scale)
        dquery[tokens] = pairs.backward(du, dviews)
    return dviews, dquery
