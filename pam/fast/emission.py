"""From the steps of a batch to what its symbols are worth, all tokens at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pam.fast.joint import log_likelihood
from pam.fast.readout import SigmoidReadout, Tokens
from pam.fast.steps import Batch, Steps
from pam.models.estimators.exact import Exact
from pam.models.logspace import ZERO
from pam.models.marginalizations.bound import Bound
from pam.models.marginalizations.none import NoAttention
from pam.models.marginalizations.output import Output
from pam.models.seq2seq import Seq2Seq


def log_probs(model: Seq2Seq, batch: Batch, steps: Steps, readout: SigmoidReadout) -> Tensor:
    """log p(y_t | y_<t, x), (B, n), without meaning at padding."""
    if steps.gold is not None:
        return steps.gold
    tokens, marginal = Tokens.of(batch.target), model.marginalization
    if not isinstance(marginal, Output):
        contexts = _contexts(model, steps, readout)
        return tokens.softly(readout, steps.queries, contexts, batch.narrow)
    log_prior, kept = steps.log_prior, None
    if marginal.top_k is not None and marginal.top_k < log_prior.shape[2]:
        kept = log_prior.topk(marginal.top_k, dim=2).indices
        log_prior = log_prior.gather(2, kept)
    z, weights = tokens.hidden(readout, steps.queries, kept), tokens.pick(log_prior)
    output = readout.weight, readout.bias, tokens.symbols
    return tokens.spread(log_likelihood(z, weights, *output, narrow=batch.narrow))


def _contexts(model: Seq2Seq, steps: Steps, readout: SigmoidReadout) -> Tensor:
    """The readout's doubled view of every step's context, (n, B, R)."""
    if isinstance(model.marginalization, NoAttention):
        bias: Tensor = 2 * model.readout.of_query.bias
        return bias.expand(*steps.queries.shape[:2], -1)
    contexts = torch.bmm(steps.log_prior.exp().transpose(0, 1), readout.views).transpose(0, 1)
    if steps.shifts is not None:
        contexts = contexts + 2 * model.readout.of_values(steps.shifts)
    return contexts


def bounds(
    model: Seq2Seq, batch: Batch, steps: Steps, readout: SigmoidReadout, log_q: Tensor | None
) -> Tensor:
    """What `pam.models.marginalizations.bound` maximizes, (B, n); `log_q` (B, n, m) or None: the prior."""
    marginal, tokens = model.marginalization, Tokens.of(batch.target)
    assert isinstance(marginal, Bound)
    if isinstance(model.estimator, Exact):
        q = steps.log_prior if log_q is None else log_q.transpose(0, 1)
        top_k = None if log_q is None else marginal.q_top_k
        return _enumerated(tokens, batch, steps, readout, q, top_k, marginal.weight)
    gold = _TokenGold(tokens, steps.queries, readout, batch.narrow)
    assert batch.noise is not None
    value = marginal.objective(
        gold,
        tokens.pick(steps.log_prior).clamp_min(ZERO),
        None if log_q is None else tokens.pick(log_q.transpose(0, 1)),
        model.estimator,
        tokens.pick(batch.noise.gumbel),
    )
    return tokens.spread(value)


def _enumerated(
    tokens: Tokens,
    batch: Batch,
    steps: Steps,
    readout: SigmoidReadout,
    log_q: Tensor,
    top_k: int | None,
    weight: float,
) -> Tensor:
    """E_q[log p(y_t | s_t, h_a)] - weight KL(q || prior), (B, n), over the K likeliest of q."""
    log_prior, kept = steps.log_prior, None
    if top_k is not None and top_k < log_q.shape[2]:
        kept = log_q.topk(top_k, dim=2).indices
        log_q = torch.log_softmax(log_q.gather(2, kept), dim=2)
        log_prior = log_prior.gather(2, kept)
    log_q, log_prior = tokens.pick(log_q), tokens.pick(log_prior).clamp_min(ZERO)
    z, q = tokens.hidden(readout, steps.queries, kept), log_q.exp()
    output = readout.weight, readout.bias, tokens.symbols
    expected = log_likelihood(z, q, *output, summed=False, narrow=batch.narrow)
    return tokens.spread(expected + weight * (q * (log_prior - log_q)).sum(1))


@dataclass(frozen=True)
class _TokenGold:
    """`pam.models.readout.Gold` of all tokens of a batch, a row each."""

    tokens: Tokens
    queries: Tensor
    readout: SigmoidReadout
    narrow: bool

    def each(self) -> Tensor:
        length = self.readout.views.shape[1]
        z = self.tokens.hidden(self.readout, self.queries, None).flatten(0, 1)[:, None]
        symbols = self.tokens.symbols[:, None].expand(-1, length).flatten()
        output = self.readout.weight, self.readout.bias, symbols
        found = log_likelihood(z, torch.zeros_like(z[:, :, 0]), *output, narrow=self.narrow)
        return found.view(-1, length)

    def at(self, weights: Tensor) -> Tensor:
        whole = weights.new_zeros(self.tokens.shape.numel(), weights.shape[1])
        spread = whole.index_copy(0, self.tokens.places, weights).view(*self.tokens.shape, -1)
        contexts = torch.bmm(spread.transpose(0, 1), self.readout.views).transpose(0, 1)
        return self.tokens.pick(
            self.tokens.softly(self.readout, self.queries, contexts, self.narrow).t()
        )
