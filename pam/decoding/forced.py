"""Teacher forcing through the steppers: what a model makes of given targets, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.dataset import Batch
from pam.data.vocabulary import BOS, PAD
from pam.decoding.stepper import Stepper, stepper
from pam.fast.joint import log_likelihood
from pam.fast.readout import sigmoid_readout
from pam.models.logspace import safe_log
from pam.models.marginalizations.output import Output
from pam.models.memory import Memory
from pam.models.model import Model
from pam.models.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Forced:
    """A batch under teacher forcing; entries at padded positions carry no meaning.

    Attributes:
        log_probs: (B, n) log p(y_t | y_<t, x).
        exact: (B, n) the same summed over all source positions, where the model sums over its top K
            only; what it feeds back is the same.
        correct: (B, n) whether y_t is the most probable symbol.
        prior: (B, n, m).
        alignment: (B, n, m) what was handed on; of a chain, its marginals given the whole target.
    """

    log_probs: Tensor
    exact: Tensor
    correct: Tensor
    prior: Tensor
    alignment: Tensor


@torch.no_grad()
def force(model: Model, batch: Batch) -> Forced:
    """Steps through the targets of a batch.

    Args:
        model: in evaluation mode.
    """
    memory = model.encode(batch.source, batch.lengths)
    steps = stepper(model, memory, 1)
    exactly = _Exact(model, memory) if truncates(model) else None
    symbol = torch.full_like(batch.target[:, :1], BOS)
    parents = torch.zeros_like(symbol)
    log_probs, exact, correct, priors, alignments = [], [], [], [], []
    for gold in batch.target.split(1, dim=1):
        found = steps.step(symbol)[:, 0]
        log_probs.append(found.gather(1, gold))
        correct.append(found.argmax(1, keepdim=True) == gold)
        priors.append(steps.prior)
        exact.append(log_probs[-1] if exactly is None else exactly(steps, gold))
        steps.advance(parents, gold)
        assert steps.alignment is not None
        alignments.append(steps.alignment)
        symbol = gold
    forced = Forced(*(torch.cat(p, 1) for p in (log_probs, exact, correct, priors, alignments)))
    if not isinstance(model, Seq2Seq):
        return forced
    known = model.coupling.given_all(forced.alignment, (batch.target != PAD).sum(1))
    return replace(forced, alignment=known)


def truncates(model: Model) -> TypeGuard[Seq2Seq]:
    """Whether the likelihood leaves source positions out."""
    if not isinstance(model, Seq2Seq) or not isinstance(model.marginalization, Output):
        return False
    return model.marginalization.top_k is not None


class _Exact:
    """log p(y_t) summed over all source positions (equation 11), of a model that truncates."""

    def __init__(self, model: Seq2Seq, memory: Memory) -> None:
        self.views, self.of_query, self.weight, self.bias = sigmoid_readout(model, memory)

    def __call__(self, steps: Stepper, gold: Tensor) -> Tensor:
        """(B, 1) for gold symbols (B, 1), at rows that have not ended."""
        rows = (gold.squeeze(1) != PAD).nonzero().squeeze(1)
        viewed = F.linear(steps.query[rows], self.of_query)
        z = torch.sigmoid(self.views[rows] + viewed)
        exact = self.views.new_zeros(gold.shape)
        exact[rows, 0] = log_likelihood(
            z, safe_log(steps.prior[rows, 0]), self.weight, self.bias, gold[rows, 0]
        )
        return exact
