"""Decoding steps at full speed: k hypotheses of each sentence over one copy of its source.

What the context adds to the gates is computed from the alignment directly, as a weighted sum of
the gates of each encoder state, which are computed once per sentence.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.fast.cell import doubled_candidate
from pam.fast.coverage import attends, mirror
from pam.fast.output import CHUNK, OutputLayer
from pam.fast.readout import sigmoid_readout
from pam.fast.teacher import coupling_tensors
from pam.fast.toeplitz import Toeplitz
from pam.models.input_feedings.posterior import Posterior
from pam.models.input_feedings.prior import Prior
from pam.models.input_feedings.sample import Sample
from pam.models.marginalizations.input import Input
from pam.models.marginalizations.output import Output
from pam.models.memory import Memory
from pam.models.model import Model
from pam.models.projection import Projection
from pam.models.seq2seq import Seq2Seq


def steps_fast(model: Model) -> TypeGuard[Seq2Seq]:
    """Whether `FastStepper` computes this model."""
    return (
        isinstance(model, Seq2Seq)
        and isinstance(model.feedback, Prior | Posterior | Sample)
        and attends(model, draws=False)
        and isinstance(model.marginalization, Input | Output)
        and not model.latent.sampling
    )


class FastStepper:
    """The same steps as `pam.decoding.stepper.ReferenceStepper`, whose docstrings hold here."""

    def __init__(self, model: Seq2Seq, memory: Memory, beam: int) -> None:
        self.model, self.beam = model, beam
        marginal = model.marginalization
        self.joint = isinstance(marginal, Output)
        self.top_k = marginal.top_k if isinstance(marginal, Output) else None
        cells = model.recurrence.stack
        width = memory.values.shape[2]
        self.of_embedding = doubled_candidate(cells[0].weight_ih[:, :-width])
        self.wx = [doubled_candidate(cell.weight_ih) for cell in cells[1:]]
        self.wh = [doubled_candidate(cell.weight_hh) for cell in cells]
        self.biases = [doubled_candidate(cell.bias_ih + cell.bias_hh) for cell in cells]
        # Per sentence, (B, m, .); everything below that starts with B is cut by `keep`.
        self.gates = F.linear(memory.values, doubled_candidate(cells[0].weight_ih[:, -width:]))
        score = mirror(model.score)
        assert score is not None
        self.of_hypotheses = score.of_hypotheses
        self.keys, *self.score = score.tensors(model.score, memory)
        self.mask = memory.mask
        self.padding = torch.zeros_like(memory.keys[:, :, 0]).masked_fill(~memory.mask, -torch.inf)
        self.views, self.of_query, weight, bias = sigmoid_readout(model, memory)
        self.output = OutputLayer(weight, bias)
        weights, self.first = (*coupling_tensors(model, memory), None, None)[:2]
        self.matrix = None if weights is None else Toeplitz(weights)
        self.h = [h[:, None].expand(-1, beam, -1) for h, _ in memory.start]
        self.c = [c[:, None].expand(-1, beam, -1) for _, c in memory.start]
        self.alignment: Tensor | None = None

    def step(self, symbol: Tensor) -> Tensor:
        embedded = self.model.recurrence.embedding(symbol)
        gates = F.linear(embedded, self.of_embedding)
        if self.alignment is not None:
            gates = gates + torch.bmm(self.alignment, self.gates)
        for layer in range(len(self.wh)):
            if layer:
                gates = F.linear(self.h[layer - 1], self.wx[layer - 1])
            gates = gates + F.linear(self.h[layer], self.wh[layer], self.biases[layer])
            i, f, g, o = gates.sigmoid_().chunk(4, dim=2)
            self.c[layer] = f * self.c[layer] + i * (2 * g - 1)
            self.h[layer] = o * (2 * torch.sigmoid(2 * self.c[layer]) - 1)
        query = self.h[-1]
        scores = self.of_hypotheses(query, self.keys, *self.score) + self.padding[:, None]
        self.prior = self._prior(scores)
        viewed = F.linear(query, self.of_query)
        if not self.joint:
            z = torch.sigmoid(torch.bmm(self.prior, self.views) + viewed)
            logits = F.linear(z, self.output.weight, self.output.bias)
            return torch.log_softmax(logits, dim=2)
        return self._observe(viewed)

    @property
    def query(self) -> Tensor:
        return self.h[-1]

    def _prior(self, scores: Tensor) -> Tensor:
        """prior_t (B, k, m); see `pam.fast.alignment`."""
        distribution = self.model.distribution
        if isinstance(distribution, Projection):
            return distribution.project(scores, self.mask[:, None])
        if self.matrix is None or self.alignment is None:
            if self.matrix is not None and self.first is not None:
                scores = scores + self.first
            return torch.softmax(scores, dim=2)
        u = torch.softmax(scores, dim=2)
        flat, previous = u.flatten(0, 1), self.alignment.flatten(0, 1)
        w = previous / self.matrix.apply_transposed(flat)
        return u * self.matrix.apply(w).view_as(u)

    def _observe(self, viewed: Tensor) -> Tensor:
        """log p(y_t) by summing over positions; keeps what `advance` needs of each.

        Distributions of positions are made and summed a few hypotheses at a time, as all of them
        together are many times larger than any cache.
        """
        top_k = self.top_k
        views, weights, self.kept = self.views[:, None], self.prior, None
        if top_k is not None and top_k < weights.shape[2]:
            weights, self.kept = weights.topk(top_k, dim=2)
            index = self.kept[..., None].expand(-1, -1, -1, views.shape[3])
            views = views.expand(-1, self.beam, -1, -1).gather(2, index)
        self.z, self.weights = torch.sigmoid(views + viewed[:, :, None]), weights
        z, weights = self.z.flatten(0, 1), weights.flatten(0, 1)
        vocabulary = len(self.output.bias)
        self.norms = torch.empty_like(weights)
        probs = weights.new_empty(len(weights), vocabulary)
        size = max(1, CHUNK // (z.shape[1] * vocabulary))
        for first in range(0, len(z), size):
            piece = slice(first, first + size)
            log_probs = self.output.log_probs(z[piece].flatten(0, 1))
            # log p = logit - norm for every symbol; the first one tells the norm.
            logits = self.output.logits_of(z[piece], torch.zeros_like(z[piece, :, 0]).long())
            self.norms[piece] = logits - log_probs[:, 0].view_as(logits)
            each = log_probs.exp_().view(*z[piece].shape[:2], -1)
            torch.bmm(weights[piece, None], each, out=probs[piece, None])
        self.norms = self.norms.view_as(self.weights)
        tiny = torch.finfo(probs.dtype).tiny
        return probs.clamp_min_(tiny).log_().view(*viewed.shape[:2], -1)

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        self.alignment = self._fed_back(rows, parents, symbol)
        self.h = [h[rows, parents] for h in self.h]
        self.c = [c[rows, parents] for c in self.c]

    def _fed_back(self, rows: Tensor, parents: Tensor, symbol: Tensor) -> Tensor:
        """The alignment (B, k, m) that the next step is fed, if the parents write these symbols."""
        prior, feedback = self.prior[rows, parents], self.model.feedback
        if isinstance(feedback, Sample):
            return feedback.draw(prior.log(), None)
        if not isinstance(feedback, Posterior):
            return prior
        weights = self.weights[rows, parents]
        chosen = symbol[:, :, None].expand_as(weights)
        logits = self.output.logits_of(self.z[rows, parents], chosen)
        joint = weights * (logits - self.norms[rows, parents]).exp()
        tiny = torch.finfo(joint.dtype).tiny
        posterior = joint / joint.sum(2, keepdim=True).clamp_min(tiny)
        if self.kept is not None:
            posterior = torch.zeros_like(prior).scatter(2, self.kept[rows, parents], posterior)
        share = self._share(feedback)
        return share * posterior + (1 - share) * prior

    def _share(self, feedback: Posterior) -> Tensor:
        sizes = self.mask.sum(1)
        share = feedback.share(sizes > (sizes if self.top_k is None else self.top_k))
        return share[:, None].to(self.prior)

    def keep(self, rows: Tensor) -> None:
        self.gates, self.keys, self.mask = self.gates[rows], self.keys[rows], self.mask[rows]
        self.padding, self.views = self.padding[rows], self.views[rows]
        self.h = [h[rows] for h in self.h]
        self.c = [c[rows] for c in self.c]
        if self.alignment is not None:
            self.alignment = self.alignment[rows]
