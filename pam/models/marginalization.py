"""Where the alignment is marginalized: at the decoder's input, or at its output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.interfaces import Attention, Emission, Estimator, Memory, Sizes
from pam.models.logspace import ZERO, most_probable, tanh_
from pam.models.output_kernels import mixture_log_probs
from pam.models.posterior import Observation
from pam.models.readout import Readout, TokenGold


class Marginalization(nn.Module, ABC):
    """Where the position is summed out."""

    gives_positions = False
    """Whether it computes p(y | s, h_a) of every position."""

    needs_context = False
    """Whether it reads the context of the prior."""

    needs_inference = False
    """Whether its objective is a bound, by alignments that an inference network gives."""

    @abstractmethod
    def emission(self, attention: Attention, projected: Tensor, memory: Memory, readout: Readout) -> Emission:
        """What one step says of its symbol.

        Args:
            projected: (n, R) the readout's view of the query.
        """

    @abstractmethod
    def log_likelihood(self, gold: TokenGold) -> Tensor:
        """log p(y_t | y_<t, x) of all tokens of a batch, (N,)."""


class Input(Marginalization):
    """p(y_t) = p(y_t | s_t, sum_a prior_t(a) h_a) (equations 2 and 8)."""

    needs_context = True

    def __init__(self, options: options.Input | options.NoAttention, sizes: Sizes) -> None:
        super().__init__()

    def emission(self, attention: Attention, projected: Tensor, memory: Memory, readout: Readout) -> Emission:
        hidden = projected if attention.context is None else projected + readout.of_values(attention.context)
        return SingleEmission(hidden, readout)

    def log_likelihood(self, gold: TokenGold) -> Tensor:
        return gold.of_context()


class NoAttention(Input):
    """p(y_t) = p(y_t | s_t), with the encoder's last state passed on as the decoder's first one
    (Sutskever et al. 2014)."""

    needs_context = False


@dataclass(frozen=True)
class SingleEmission(Emission):
    """That of one context, from the readout's hidden layer (n, R)."""

    hidden: Tensor
    readout: Readout

    @cached_property
    def log_probs(self) -> Tensor:
        log_probs: Tensor = self.readout(self.hidden)
        return log_probs

    def select(self, rows: Tensor) -> Emission:
        return SingleEmission(self.hidden[rows], self.readout)


class Output(Marginalization):
    """p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a) (equations 3 and 11).

    With `top_k`, only the K most probable positions are summed (equation 7). The sum is not
    renormalized, so that the likelihood is a lower bound of the exact one.
    """

    gives_positions = True

    def __init__(self, options: options.Output | options.Bound, sizes: Sizes) -> None:
        super().__init__()
        self.top_k = options.top_k

    def support(self, log_prior: Tensor) -> Tensor | None:
        """The positions (n, K) that are summed over; None: all."""
        if self.top_k is None or self.top_k >= log_prior.shape[1]:
            return None
        return log_prior.topk(self.top_k, dim=1).indices

    def emission(self, attention: Attention, projected: Tensor, memory: Memory, readout: Readout) -> Emission:
        kept = self.support(attention.log_prior)
        return MixtureEmission(attention.log_prior, projected, kept, memory)

    def log_likelihood(self, gold: TokenGold) -> Tensor:
        log_prior = gold.tokens.log_prior
        kept = self.support(log_prior)
        if kept is not None:
            log_prior = log_prior.gather(1, kept)
        return gold.mixture(log_prior, kept)


@dataclass(frozen=True)
class MixtureEmission(Emission):
    """That of every position, weighted by the prior.

    Attributes:
        log_prior: (n, m). projected: (n, R).
        kept: (n, K) positions that are summed over, or None for all.
        searched: of hypotheses that search has chosen, what `_mixture` found of them.
    """

    log_prior: Tensor
    projected: Tensor
    kept: Tensor | None
    memory: Memory
    searched: tuple[Tensor, Tensor] | None = None

    @property
    def weights(self) -> Tensor:
        """(n, K) log prior of the positions that are summed over."""
        return self.log_prior if self.kept is None else self.log_prior.gather(1, self.kept)

    @property
    def log_probs(self) -> Tensor:
        return self._mixture[0]

    @cached_property
    def _mixture(self) -> tuple[Tensor, Tensor, Tensor]:
        """log p of every symbol, and what that of a position follows from: z and normalizers."""
        views = self.memory.views
        assert views is not None
        of_beams = self.projected.view(len(views), -1, 1, self.projected.shape[1])
        hidden = (views[:, None] + of_beams).flatten(0, 1)
        if self.kept is not None:
            hidden = hidden.gather(1, self.kept[:, :, None].expand(-1, -1, hidden.shape[2]))
        z = tanh_(hidden)
        assert self.memory.layer is not None
        log_probs, norms = mixture_log_probs(z, self.weights.exp(), self.memory.layer)
        return log_probs, z, norms

    def observe(self, symbol: Tensor) -> Observation:
        if self.memory.likelihood is not None:
            log_likelihood = self.memory.likelihood(self.projected, symbol, self.kept)
        else:
            z, norms = self.searched or self._mixture[1:]
            assert self.memory.layer is not None
            log_likelihood = self.memory.layer.logits_of(z, symbol[:, None].expand_as(norms)) - norms
        truncated = None
        if self.kept is not None:
            truncated = self.memory.mask.sum(1) > self.kept.shape[1]
        return Observation(self.weights, log_likelihood, self.kept, truncated)

    def exact(self, symbol: Tensor) -> Tensor | None:
        if self.kept is None:
            return None
        whole = MixtureEmission(self.log_prior, self.projected, None, self.memory)
        return whole.log_probs.gather(1, symbol[:, None]).squeeze(1)

    def select(self, rows: Tensor) -> Emission:
        _, z, norms = self._mixture
        kept = None if self.kept is None else self.kept[rows]
        chosen = self.log_prior[rows], self.projected[rows], kept
        return MixtureEmission(*chosen, self.memory, (z[rows], norms[rows]))


class Bound(Output):
    """Attention trained by a bound (Deng et al. 2018).

    Training maximizes, at each step,

        E_q[log p(y_t | s_t, h_a)] - weight KL(q_t || prior_t) <= log p(y_t | y_<t, x),

    where q_t(a | x, y) comes from the inference network, or is the prior: then the divergence is zero, and the bound is
    Jensen's, that of hard attention (Xu et al. 2015). The estimator computes the expectation; the divergence is always
    enumerated. Without the target there is no q: the likelihood sums the prior out, as `output` does.

    `q_top_k` positions are enumerated by the bound: q restricted to its K most probable ones and renormalized, which is
    a distribution too, so that the bound stays one. That is cheaper, but the others get no gradient: it is for a q that
    knows where to look. With a `weight` below 1 the objective is no bound; the whole divergence can hold q to a prior
    that has found nothing yet.
    """

    needs_inference = True

    def __init__(self, options: options.Bound, sizes: Sizes) -> None:
        super().__init__(options, sizes)
        self.q_top_k, self.weight = options.q_top_k, options.weight

    def objective(self, gold: TokenGold, log_q: Tensor | None, estimator: Estimator, gumbel: Tensor | None) -> Tensor:
        """The bound of all tokens, (N,).

        Args:
            log_q: (N, m); None: q is the prior.
            gumbel: (N, m) noise, for an estimator that draws.
        """
        log_prior = gold.tokens.log_prior.clamp_min(ZERO)
        expected: Tensor
        if log_q is None:
            expected = estimator(gold, log_prior, log_prior, gumbel)
            return expected
        if not estimator.draws:
            return self._enumerated(gold, log_q, log_prior)
        log_q = self.restrict(log_q)
        divergence = (log_q.exp() * (log_q - log_prior)).sum(1)
        expected = estimator(gold, log_q, log_prior, gumbel)
        return expected - self.weight * divergence

    def _enumerated(self, gold: TokenGold, log_q: Tensor, log_prior: Tensor) -> Tensor:
        """The bound over the K likeliest positions of q alone."""
        kept = None
        if self.q_top_k is not None and self.q_top_k < log_q.shape[1]:
            kept = log_q.topk(self.q_top_k, dim=1).indices
            log_q = torch.log_softmax(log_q.gather(1, kept), dim=1)
            log_prior = log_prior.gather(1, kept)
        q = log_q.exp()
        expected = gold.mixture(q, kept, summed=False)
        return expected + self.weight * (q * (log_prior - log_q)).sum(1)

    def restrict(self, log_q: Tensor) -> Tensor:
        """q (n, m) over its K most probable positions, renormalized: log probabilities (n, m)."""
        return torch.log_softmax(most_probable(log_q, self.q_top_k), dim=1)


MARGINALIZATIONS: dict[str, type[Marginalization]] = {
    "input": Input,
    "output": Output,
    "bound": Bound,
    "none": NoAttention,
}
