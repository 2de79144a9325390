"""The attentional recurrence over time as one differentiable function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pam.fast.alignment import Coupled, Free
from pam.fast.cell import Layer, prefixes
from pam.fast.likelihood import PositionLikelihood


@dataclass(frozen=True)
class Inputs:
    """What the recurrence is computed from; every tensor here may need a gradient.

    Attributes:
        gates: (T, B, 4H) what embeddings and biases give the first layer's gates.
        keys: (B, m, H); values: (B, m, D).
        layers: per layer wx, wh, h_0, c_0, and above the first layer a bias (4H,); candidate rows
            doubled (`cell.doubled_candidate`).
        coupling: (2m - 1,) exp(k(d)), or None; first: (m,) energies at the first step, or None.
        views, of_query, weight, bias: the readout as `PositionLikelihood` wants it, of_query
            (R, H); None where the prior is fed back.
    """

    gates: Tensor
    keys: Tensor
    values: Tensor
    layers: tuple[tuple[Tensor, ...], ...]
    coupling: Tensor | None = None
    first: Tensor | None = None
    views: Tensor | None = None
    of_query: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None


@dataclass(frozen=True)
class Posterior:
    """How the posterior is fed back.

    Attributes:
        targets: (T, B) gold symbols.
        share: (B, 1) the posterior's share in the alignment handed on.
        gradient: whether gradients flow through it.
        top_k: positions summed over, or None for all.
    """

    targets: Tensor
    share: Tensor
    gradient: bool
    top_k: int | None


def recur(
    inputs: Inputs,
    counts: list[int],
    mask: Tensor,
    dropout: Tensor | None,
    posterior: Posterior | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs the decoder over given targets.

    Args:
        inputs: see `Inputs`.
        counts: per step, how many rows from the first on take part, at least 1; they never grow
            in number, as rows are sorted by the length of their targets.
        mask: (B, m) true at real positions.
        dropout: (layers, T, B, H) masks, or None.
        posterior: how the posterior is fed back; None feeds back the prior.

    Returns:
        Queries (T, B, H), log priors (T, B, m), and gold log-likelihoods (T, B), the latter zeros
        unless a posterior is fed back. Zeros where a row takes no part.
    """
    layers = [tensor for layer in inputs.layers for tensor in layer]
    single = (
        inputs.gates, inputs.keys, inputs.values, inputs.coupling, inputs.first,
        inputs.views, inputs.of_query, inputs.weight, inputs.bias,
    )  # fmt: skip
    sizes = tuple(len(layer) for layer in inputs.layers)
    outputs: tuple[Tensor, Tensor, Tensor] = _Recurrence.apply(
        sizes, counts, mask, dropout, posterior, *single, *layers
    )
    return outputs


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        sizes: tuple[int, ...],
        counts: list[int],
        mask: Tensor,
        dropout: Tensor | None,
        posterior: Posterior | None,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tape = _Tape(sizes, counts, mask, dropout, posterior, tensors, any(ctx.needs_input_grad))
        for t in range(tape.steps):
            tape.step(t)
        ctx.tape = tape
        return tape.outputs()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tape = ctx.tape
        del ctx.tape  # its memory is free as soon as this function ends
        tape.begin_backward(*grads)
        for t in reversed(range(tape.steps)):
            tape.back(t)
        return None, None, None, None, None, *tape.finish()


class _Tape:
    """The recurrence with all that its gradient needs.

    Lists hold one view per step, of the rows that take part in it; tensors named `all_` hold all
    steps, (T, B, ...), with zeros where a row takes no part, for the products over all steps.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        counts: list[int],
        mask: Tensor,
        dropout: Tensor | None,
        posterior: Posterior | None,
        tensors: tuple[Tensor | None, ...],
        differentiable: bool,
    ) -> None:
        gates, keys, values, coupling, first, views, of_query, weight, bias = tensors[:9]
        assert gates is not None and keys is not None and values is not None
        self.counts, self.steps = counts, len(counts)
        self.posterior, self.of_query = posterior, of_query
        self.all_keys, self.all_values = keys, values
        padding = torch.zeros_like(keys[:, :, 0]).masked_fill(~mask, -torch.inf)
        self.keys, self.values, self.padding = (
            [whole[:count] for count in counts] for whole in (keys, values, padding)
        )
        self.layers = _layers(gates, sizes, list(tensors[9:]), dropout, counts)
        # The inputs of each layer at each step; the first layer's is the context, empty at first.
        batch, length = mask.shape
        shape = (self.steps, batch)
        self.all_inputs = [keys.new_zeros(*shape, layer.wx.shape[1]) for layer in self.layers]
        self.inputs = [prefixes(whole, counts) for whole in self.all_inputs]
        self.all_queries = keys.new_zeros(*shape, keys.shape[2])
        self.all_log_prior = keys.new_zeros(*shape, length)
        self.all_alignment = keys.new_zeros(*shape, length)
        self.all_gold = keys.new_zeros(*shape)
        self.queries, self.log_prior = (
            prefixes(whole, counts) for whole in (self.all_queries, self.all_log_prior)
        )
        self.alignment = prefixes(self.all_alignment, counts)
        self.gold = prefixes(self.all_gold, counts)
        self.aligner = Free() if coupling is None else Coupled(coupling, first)
        if posterior is not None:
            assert views is not None and weight is not None and bias is not None
            top_k = posterior.top_k
            self.top_k = None if top_k is None or top_k >= length else top_k
            self.likelihood = PositionLikelihood(
                views, weight, bias, posterior.targets, self.top_k or length, counts, differentiable
            )
            self.posteriors: list[Tensor] = []
            self.shares = [posterior.share[:count] for count in counts]

    def step(self, t: int) -> None:
        below = self.inputs[0][t]
        for index, layer in enumerate(self.layers):
            if index > 0:
                self.inputs[index][t].copy_(below)
            below = layer.step(t, below)
        query = self.queries[t].copy_(below)
        scores = torch.mul(self.keys[t], query[:, None]).sum(2).add_(self.padding[t])
        previous = self.alignment[t - 1][: len(query)] if t > 0 else None
        log_prior = self.log_prior[t].copy_(self.aligner.step(t, scores, previous))
        alignment = torch.exp(log_prior, out=self.alignment[t])
        if self.posterior is not None:
            self._observe(t, query, log_prior, alignment)
        if t + 1 < self.steps:
            rows = self.counts[t + 1]
            context = torch.bmm(alignment[:rows, None], self.values[t + 1])
            self.inputs[0][t + 1].copy_(context.squeeze(1))

    def _observe(self, t: int, query: Tensor, log_prior: Tensor, alignment: Tensor) -> None:
        """Bayes' rule: turns the prior in `alignment` into what is handed on, in place."""
        assert self.of_query is not None
        kept = None if self.top_k is None else log_prior.topk(self.top_k, dim=1).indices
        weights = log_prior if kept is None else log_prior.gather(1, kept)
        joint = self.likelihood.step(t, query @ self.of_query.t(), kept).add_(weights)
        gold = self.gold[t].copy_(torch.logsumexp(joint, dim=1))
        posterior = joint.sub_(gold[:, None]).exp_()
        self.posteriors.append(posterior)
        alignment.mul_(1 - self.shares[t])
        if kept is None:
            alignment.addcmul_(posterior, self.shares[t])
        else:
            alignment.scatter_add_(1, kept, posterior * self.shares[t])

    def outputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """What autograd sees: aliases, since an output that the tape held would hold the tape, and
        the cycle would keep every step's memory until the garbage collector runs."""
        return self.all_queries.detach(), self.all_log_prior.detach(), self.all_gold.detach()

    def begin_backward(self, dqueries: Tensor, dlog_prior: Tensor, dgold: Tensor) -> None:
        counts = self.counts
        self.dqueries, self.dlog_prior, self.dgold = (
            prefixes(whole, counts) for whole in (dqueries, dlog_prior, dgold)
        )
        self.prior = prefixes(self.all_log_prior.exp(), counts)
        self.all_dscores = torch.zeros_like(self.all_log_prior)
        self.dscores = prefixes(self.all_dscores, counts)
        # Of the context made at step t, and of step t's alignment by the coupling at t + 1.
        self.all_dcontext = torch.zeros_like(self.all_inputs[0])
        self.dcontext = prefixes(self.all_dcontext, counts)
        self.dalignment: Tensor | None = None
        for layer in self.layers:
            layer.begin_backward()
        if self.posterior is not None:
            width = self.likelihood.views.shape[2]
            self.all_dviewed = dqueries.new_zeros(*dqueries.shape[:2], width)
            self.dviewed = prefixes(self.all_dviewed, counts)

    def back(self, t: int) -> None:
        dalignment = torch.bmm(self.values[t], self.dcontext[t][:, :, None]).squeeze(2)
        if self.dalignment is not None:
            dalignment[: len(self.dalignment)].add_(self.dalignment)
        prior, dquery = self.prior[t], self.dqueries[t]
        if self.posterior is None:
            dlog = torch.addcmul(self.dlog_prior[t], prior, dalignment)
        else:
            dlog, by_readout = self._back_observe(t, prior, dalignment, self.posterior.gradient)
            dquery = dquery + by_readout
        dscores, self.dalignment = self.aligner.back(t, dlog, prior)
        self.dscores[t].copy_(dscores)
        below = torch.baddbmm(dquery[:, None], dscores[:, None], self.keys[t]).squeeze(1)
        for layer in reversed(self.layers):
            below = layer.back(t, below)
        if t > 0:
            self.dcontext[t - 1][: len(below)].copy_(below)

    def _back_observe(
        self, t: int, prior: Tensor, dalignment: Tensor, through: bool
    ) -> tuple[Tensor, Tensor]:
        """Gradients of log prior_t and of the query, through Bayes' rule and the likelihood."""
        assert self.of_query is not None
        share, posterior = self.shares[t], self.posteriors[t]
        dlog = torch.addcmul(self.dlog_prior[t], prior * (1 - share), dalignment)
        kept = None if self.top_k is None else self.likelihood.kept[t]
        djoint = posterior * self.dgold[t][:, None]
        if through:
            dposterior = dalignment if kept is None else dalignment.gather(1, kept)
            dlogits = posterior * dposterior * share
            djoint.add_(dlogits).addcmul_(posterior, dlogits.sum(1, keepdim=True), value=-1)
        if kept is None:
            dlog.add_(djoint)
        else:
            dlog.scatter_add_(1, kept, djoint)
        dviewed = self.dviewed[t].copy_(self.likelihood.back(t, djoint))
        return dlog, dviewed @ self.of_query

    def finish(self) -> list[Tensor | None]:
        """Gradients of all tensors, in the order of `recur`'s `single` and `layers`."""
        by_layer: list[Tensor | None] = []
        for index, layer in enumerate(self.layers):
            before, *rest = layer.finish(self.all_inputs[index])
            if index == 0:
                dgates = before
                by_layer += rest
            else:
                by_layer += [*rest, before]
        queries = self.all_queries.transpose(0, 1)
        dkeys = torch.bmm(self.all_dscores.permute(1, 2, 0), queries)
        dvalues = torch.bmm(self.all_alignment.permute(1, 2, 0), self.all_dcontext.transpose(0, 1))
        readout: list[Tensor | None] = [None] * 4
        if self.posterior is not None:
            dviews, dweight, dbias = self.likelihood.finish()
            dof_query = self.all_dviewed.flatten(0, 1).t() @ self.all_queries.flatten(0, 1)
            readout = [dviews, dof_query, dweight, dbias]
        return [dgates, dkeys, dvalues, *self.aligner.finish(), *readout, *by_layer]


def _layers(
    gates: Tensor,
    sizes: tuple[int, ...],
    tensors: list[Tensor | None],
    dropout: Tensor | None,
    counts: list[int],
) -> list[Layer]:
    """Layers from their tensors, `sizes` of them each: wx, wh, h, c and, if not first, a bias."""
    layers = []
    for index, size in enumerate(sizes):
        own = [tensor for tensor in tensors[:size] if tensor is not None]
        tensors = tensors[size:]
        before = own[4] if index else gates
        masks = None if dropout is None else dropout[index]
        layers.append(Layer(before, own[0], own[1], own[2], own[3], masks, counts))
    return layers
