"""The attentional recurrence over time as one differentiable function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor

from pam.fast.alignment import Aligner
from pam.fast.cell import Layer, prefixes
from pam.fast.likelihood import PositionLikelihood
from pam.fast.output import OutputLayer


class Scorer(Protocol):
    """Scores of positions over time, with their gradient; see `pam.fast.scores`."""

    def step(self, t: int, query: Tensor) -> Tensor: ...

    def begin_backward(self) -> None: ...

    def back(self, t: int, dscores: Tensor, dquery: Tensor) -> Tensor: ...

    def finish(self, queries: Tensor, dscores: Tensor) -> list[Tensor]: ...


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


@dataclass(frozen=True)
class Plan:
    """What the recurrence does, apart from the numbers that it does it with.

    Attributes:
        counts: per step, how many rows from the first on take part, at least 1; they never grow
            in number, as rows are sorted by the length of their targets.
        mask: (B, m) true at real positions.
        dropout: (layers, T, B, H) masks, or None.
        scorer: made from `counts` and the score's tensors.
        aligner: made from the aligner's tensors.
        posterior: how the posterior is fed back; None feeds back the prior.
        narrow: whether large products are taken in bfloat16.
    """

    counts: list[int]
    mask: Tensor
    dropout: Tensor | None
    scorer: Callable[..., Scorer]
    aligner: Callable[..., Aligner]
    posterior: Posterior | None
    narrow: bool = False


@dataclass(frozen=True)
class Inputs:
    """What the recurrence is computed from; every tensor here may need a gradient.

    Attributes:
        gates: (T, B, 4H) what embeddings and biases give the first layer's gates.
        values: (B, m, D).
        score: the scorer's tensors.
        aligner: the aligner's tensors.
        readout: views, of_query (R, H), weight, bias, as `PositionLikelihood` wants them; empty
            where the prior is fed back.
        layers: per layer wx, wh, h_0, c_0, and above the first layer a bias (4H,); candidate rows
            doubled (`cell.doubled_candidate`).
    """

    gates: Tensor
    values: Tensor
    score: tuple[Tensor, ...]
    aligner: tuple[Tensor, ...]
    readout: tuple[Tensor, ...]
    layers: tuple[tuple[Tensor, ...], ...]


def recur(plan: Plan, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Runs the decoder over given targets.

    Returns:
        Queries (T, B, H), log priors (T, B, m), and gold log-likelihoods (T, B), the latter zeros
        unless a posterior is fed back. Zeros where a row takes no part.
    """
    groups = [(inputs.gates, inputs.values), inputs.score, inputs.aligner, inputs.readout]
    groups += inputs.layers
    sizes = tuple(len(group) for group in groups)
    outputs: tuple[Tensor, Tensor, Tensor] = _Recurrence.apply(
        plan, sizes, *(tensor for group in groups for tensor in group)
    )
    return outputs


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Plan, sizes: tuple[int, ...], *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        tape = _Tape(plan, _grouped(tensors, sizes), any(ctx.needs_input_grad))
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
        return None, None, *tape.finish()


def _grouped(tensors: tuple[Tensor, ...], sizes: tuple[int, ...]) -> list[tuple[Tensor, ...]]:
    """Tensors in groups of the given sizes."""
    ends = list(accumulate(sizes))
    return [tensors[end - size : end] for end, size in zip(ends, sizes, strict=True)]


class _Tape:
    """The recurrence with all that its gradient needs.

    Lists hold one view per step, of the rows that take part in it; tensors named `all_` hold all
    steps, (T, B, ...), with zeros where a row takes no part, for the products over all steps.
    """

    def __init__(self, plan: Plan, groups: list[tuple[Tensor, ...]], differentiable: bool) -> None:
        (gates, values), score, aligner, readout, *layers = groups
        counts = self.counts = plan.counts
        self.steps, self.posterior = len(counts), plan.posterior
        self.scorer, self.aligner = plan.scorer(counts, *score), plan.aligner(*aligner)
        padding = torch.zeros_like(values[:, :, 0]).masked_fill(~plan.mask, -torch.inf)
        self.values, self.padding = (
            [whole[:count] for count in counts] for whole in (values, padding)
        )
        self.layers = _layers(gates, layers, plan)
        # The inputs of each layer at each step; the first layer's is the context, empty at first.
        batch, length = plan.mask.shape
        shape = (self.steps, batch)
        self.all_inputs = [values.new_zeros(*shape, layer.wx.shape[1]) for layer in self.layers]
        self.inputs = [prefixes(whole, counts) for whole in self.all_inputs]
        self.all_queries = values.new_zeros(*shape, self.layers[-1].wh.shape[1])
        self.all_log_prior = values.new_zeros(*shape, length)
        self.all_alignment = values.new_zeros(*shape, length)
        self.all_gold = values.new_zeros(*shape)
        self.queries, self.log_prior = (
            prefixes(whole, counts) for whole in (self.all_queries, self.all_log_prior)
        )
        self.alignment = prefixes(self.all_alignment, counts)
        self.gold = prefixes(self.all_gold, counts)
        if plan.posterior is not None:
            self._prepare(plan, plan.posterior, readout, differentiable)

    def _prepare(
        self, plan: Plan, posterior: Posterior, readout: tuple[Tensor, ...], differentiable: bool
    ) -> None:
        views, self.of_query, weight, bias = readout
        top_k, length = posterior.top_k, plan.mask.shape[1]
        self.top_k = None if top_k is None or top_k >= length else top_k
        self.likelihood = PositionLikelihood(
            views,
            OutputLayer(weight, bias, plan.narrow),
            posterior.targets,
            self.top_k or length,
            self.counts,
            differentiable,
        )
        self.posteriors: list[Tensor] = []
        self.shares = [posterior.share[:count] for count in self.counts]

    def step(self, t: int) -> None:
        below = self.inputs[0][t]
        for index, layer in enumerate(self.layers):
            if index > 0:
                self.inputs[index][t].copy_(below)
            below = layer.step(t, below)
        query = self.queries[t].copy_(below)
        scores = self.scorer.step(t, query).add_(self.padding[t])
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
        self.scorer.begin_backward()
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
        below = self.scorer.back(t, dscores, dquery)
        for layer in reversed(self.layers):
            below = layer.back(t, below)
        if t > 0:
            self.dcontext[t - 1][: len(below)].copy_(below)

    def _back_observe(
        self, t: int, prior: Tensor, dalignment: Tensor, through: bool
    ) -> tuple[Tensor, Tensor]:
        """Gradients of log prior_t and of the query, through Bayes' rule and the likelihood."""
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

    def finish(self) -> list[Tensor]:
        """Gradients of all tensors, in the order of `recur`."""
        by_layer: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            before, *rest = layer.finish(self.all_inputs[index])
            if index == 0:
                dgates = before
                by_layer += rest
            else:
                by_layer += [*rest, before]
        dvalues = torch.bmm(self.all_alignment.permute(1, 2, 0), self.all_dcontext.transpose(0, 1))
        by_score = self.scorer.finish(self.all_queries, self.all_dscores)
        readout: list[Tensor] = []
        if self.posterior is not None:
            dviews, dweight, dbias = self.likelihood.finish()
            dof_query = self.all_dviewed.flatten(0, 1).t() @ self.all_queries.flatten(0, 1)
            readout = [dviews, dof_query, dweight, dbias]
        return [dgates, dvalues, *by_score, *self.aligner.finish(), *readout, *by_layer]


def _layers(gates: Tensor, groups: list[tuple[Tensor, ...]], plan: Plan) -> list[Layer]:
    """Layers from their tensors: wx, wh, h, c and, if not first, a bias."""
    layers = []
    for index, (wx, wh, h, c, *bias) in enumerate(groups):
        masks = None if plan.dropout is None else plan.dropout[index]
        before = bias[0] if bias else gates
        layers.append(Layer(before, wx, wh, h, c, masks, plan.counts, plan.narrow))
    return layers
