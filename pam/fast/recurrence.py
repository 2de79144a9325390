"""The attentional recurrence over time as one differentiable function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pam.fast.alignment import Coupled, Free
from pam.fast.cell import Layer
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
    inputs: Inputs, mask: Tensor, dropout: Tensor | None, posterior: Posterior | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs the decoder over given targets.

    Args:
        inputs: see `Inputs`.
        mask: (B, m) true at real positions.
        dropout: (layers, T, B, H) masks, or None.
        posterior: how the posterior is fed back; None feeds back the prior.

    Returns:
        Queries (T, B, H), log priors (T, B, m), and gold log-likelihoods (T, B), zeros unless a
        posterior is fed back.
    """
    layers = [tensor for layer in inputs.layers for tensor in layer]
    single = (
        inputs.gates, inputs.keys, inputs.values, inputs.coupling, inputs.first,
        inputs.views, inputs.of_query, inputs.weight, inputs.bias,
    )  # fmt: skip
    sizes = tuple(len(layer) for layer in inputs.layers)
    outputs: tuple[Tensor, Tensor, Tensor] = _Recurrence.apply(
        sizes, mask, dropout, posterior, *single, *layers
    )
    return outputs


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        sizes: tuple[int, ...],
        mask: Tensor,
        dropout: Tensor | None,
        posterior: Posterior | None,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tape = _Tape(sizes, mask, dropout, posterior, tensors, any(ctx.needs_input_grad))
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
        return None, None, None, None, *tape.finish()


class _Tape:
    """The recurrence with all that its gradient needs."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        mask: Tensor,
        dropout: Tensor | None,
        posterior: Posterior | None,
        tensors: tuple[Tensor | None, ...],
        differentiable: bool,
    ) -> None:
        gates, keys, values, coupling, first, views, of_query, weight, bias = tensors[:9]
        assert gates is not None and keys is not None and values is not None
        self.keys, self.values, self.of_query = keys, values, of_query
        self.steps, batch = gates.shape[:2]
        length = keys.shape[1]
        self.posterior = posterior
        self.padding = torch.zeros_like(keys[:, :, 0]).masked_fill(~mask, -torch.inf)
        self.layers, rest = [], list(tensors[9:])
        for index, size in enumerate(sizes):
            wx, wh, h, c, *biases = rest[:size]
            rest = rest[size:]
            masks = None if dropout is None else dropout[index]
            before = biases[0] if biases else gates
            self.layers.append(Layer(before, wx, wh, h, c, masks, self.steps))  # type: ignore[arg-type]
        # The inputs of each layer at each step; the first layer's is the context.
        self.inputs = [keys.new_empty(self.steps, batch, x.wx.shape[1]) for x in self.layers]
        self.inputs[0][0] = 0
        self.queries = keys.new_empty(self.steps, batch, keys.shape[2])
        self.log_prior = keys.new_empty(self.steps, batch, length)
        self.alignment = keys.new_empty(self.steps, batch, length)
        self.gold = keys.new_zeros(self.steps, batch)
        self.aligner = Free(self.steps) if coupling is None else Coupled(coupling, first)
        self.coupled, self.has_first = coupling is not None, first is not None
        if posterior is not None:
            assert views is not None and weight is not None and bias is not None
            top_k = posterior.top_k
            self.top_k = None if top_k is None or top_k >= length else top_k
            positions = self.top_k or length
            self.likelihood = PositionLikelihood(
                views, weight, bias, posterior.targets, positions, differentiable
            )
            self.posteriors = keys.new_empty(self.steps, batch, positions)

    def step(self, t: int) -> None:
        below = self.inputs[0][t]
        for index, layer in enumerate(self.layers):
            if index > 0:
                self.inputs[index][t] = below
            below = layer.step(t, below)
        query = self.queries[t].copy_(below)
        scores = torch.mul(self.keys, query[:, None]).sum(2).add_(self.padding)
        previous = self.alignment[t - 1] if t > 0 else None
        log_prior = self.log_prior[t].copy_(self.aligner.step(t, scores, previous))
        alignment = torch.exp(log_prior, out=self.alignment[t])
        if self.posterior is not None:
            self._observe(t, query, log_prior, alignment, self.posterior)
        if t + 1 < self.steps:
            self.inputs[0][t + 1] = torch.bmm(alignment[:, None], self.values).squeeze(1)

    def _observe(
        self, t: int, query: Tensor, log_prior: Tensor, alignment: Tensor, how: Posterior
    ) -> None:
        """Bayes' rule: turns the prior in `alignment` into what is handed on, in place."""
        assert self.of_query is not None
        kept = None if self.top_k is None else log_prior.topk(self.top_k, dim=1).indices
        weights = log_prior if kept is None else log_prior.gather(1, kept)
        joint = self.likelihood.step(t, query @ self.of_query.t(), kept).add_(weights)
        gold = torch.logsumexp(joint, dim=1, out=self.gold[t])
        posterior = torch.exp(joint.sub_(gold[:, None]), out=self.posteriors[t])
        alignment.mul_(1 - how.share)
        if kept is None:
            alignment.addcmul_(posterior, how.share)
        else:
            alignment.scatter_add_(1, kept, posterior * how.share)

    def outputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """What autograd sees. The tape keeps aliases: an output that it held itself would hold
        the tape, and the cycle would keep every step's memory until the garbage collector runs."""
        outputs = self.queries, self.log_prior, self.gold
        self.queries, self.log_prior = self.queries.detach(), self.log_prior.detach()
        self.gold = self.gold.detach()
        return outputs

    def begin_backward(self, dqueries: Tensor, dlog_prior: Tensor, dgold: Tensor) -> None:
        self.dqueries, self.dlog_prior, self.dgold = dqueries, dlog_prior, dgold
        self.prior = self.log_prior.exp()
        self.dscores = torch.empty_like(self.log_prior)
        self.dcontext = torch.zeros_like(self.inputs[0])  # gradient of the context made at step t
        self.dalignment: Tensor | None = None  # gradient of step t's alignment by the coupling
        for layer in self.layers:
            layer.begin_backward()
        if self.posterior is not None:
            self.dviewed = (
                torch.empty_like(self.queries[..., :1])
                .expand(-1, -1, self.likelihood.views.shape[2])
                .contiguous()
            )

    def back(self, t: int) -> None:
        dalignment = torch.bmm(self.values, self.dcontext[t][:, :, None]).squeeze(2)
        if self.dalignment is not None:
            dalignment.add_(self.dalignment)
        prior, dquery = self.prior[t], self.dqueries[t]
        if self.posterior is None:
            dlog = torch.addcmul(self.dlog_prior[t], prior, dalignment)
        else:
            dlog, by_readout = self._back_observe(t, prior, dalignment, self.posterior)
            dquery = dquery + by_readout
        dscores, self.dalignment = self.aligner.back(t, dlog, prior)
        self.dscores[t] = dscores
        below = torch.baddbmm(dquery[:, None], dscores[:, None], self.keys).squeeze(1)
        for layer in reversed(self.layers):
            below = layer.back(t, below)
        if t > 0:
            self.dcontext[t - 1] = below

    def _back_observe(
        self, t: int, prior: Tensor, dalignment: Tensor, how: Posterior
    ) -> tuple[Tensor, Tensor]:
        """Gradients of log prior_t and of the query, through Bayes' rule and the likelihood."""
        assert self.of_query is not None
        dlog = torch.addcmul(self.dlog_prior[t], prior * (1 - how.share), dalignment)
        kept = None if self.top_k is None else self.likelihood.kept[t]
        posterior = self.posteriors[t]
        djoint = posterior * self.dgold[t][:, None]
        if how.gradient:
            dposterior = dalignment if kept is None else dalignment.gather(1, kept)
            dlogits = posterior * dposterior * how.share
            djoint.add_(dlogits).addcmul_(posterior, dlogits.sum(1, keepdim=True), value=-1)
        if kept is None:
            dlog.add_(djoint)
        else:
            dlog.scatter_add_(1, kept, djoint)
        dviewed = self.dviewed[t].copy_(self.likelihood.back(t, djoint))
        return dlog, dviewed @ self.of_query

    def finish(self) -> list[Tensor | None]:
        grads: list[Tensor | None] = []
        dgates: Tensor | None = None
        for index, layer in enumerate(self.layers):
            before, wx, wh, h, c = layer.finish(self.inputs[index])
            if index == 0:
                dgates = before
                grads += [wx, wh, h, c]
            else:
                grads += [wx, wh, h, c, before]
        dkeys = torch.bmm(self.dscores.permute(1, 2, 0), self.queries.transpose(0, 1))
        dvalues = torch.bmm(self.alignment.permute(1, 2, 0), self.dcontext.transpose(0, 1))
        dcoupling = self.aligner.finish()
        dfirst = getattr(self.aligner, "dfirst", None) if self.has_first else None
        readout: list[Tensor | None] = [None, None, None, None]
        if self.posterior is not None:
            dviews, dweight, dbias = self.likelihood.finish()
            dof_query = self.dviewed.flatten(0, 1).t() @ self.queries.flatten(0, 1)
            readout = [dviews, dof_query, dweight, dbias]
        return [dgates, dkeys, dvalues, dcoupling, dfirst, *readout, *grads]
