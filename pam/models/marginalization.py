"""Where the alignment is marginalized: at the decoder's input, or at its output."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.models import options
from pam.models.copying import CopyMixture, Switch
from pam.models.interfaces import Attention, Component, Emission, Estimator, Memory, Origin, Sizes, taken
from pam.models.logspace import ZERO, is_most_probable, is_nucleus, is_possible
from pam.models.posterior import Observation, normalized, posterior
from pam.models.readout import TokenGold
from pam.models.search_layer import SearchedMixture, SearchLayer


class Marginalization(Component):
    """Where the position is summed out."""

    gives_positions = False  # whether it computes p(y | s, h_a) of every position
    needs_context = False  # whether it reads the context of the prior
    needs_inference = False  # whether its objective is a bound, by alignments that an inference network gives

    @abstractmethod
    def emission(
        self, attention: Attention, projected: Tensor, memory: Memory, switch: Switch | None, of_shift: Tensor | None
    ) -> Emission:
        """What one step says of its symbol; `projected` (n, R) is the readout's view of the query, `of_shift` (n,) what
        the context's shift adds to the logit of the switch."""

    @abstractmethod
    def log_likelihood(self, gold: TokenGold) -> Tensor:
        """log p(y_t | y_<t, x) of all tokens of a batch, (N,)."""

    def positions(self, log_prior: Tensor) -> Tensor:
        """How many positions are summed over, (n,), of priors (n, m); 1 where there is a single context."""
        return torch.ones_like(log_prior[:, 0], dtype=torch.long)


class Input(Marginalization):
    """p(y_t) = p(y_t | s_t, sum_a prior_t(a) h_a) (equations 2 and 8)."""

    needs_context = True

    def emission(
        self, attention: Attention, projected: Tensor, memory: Memory, switch: Switch | None, of_shift: Tensor | None
    ) -> Emission:
        if memory.viewed is not None:
            projected = projected + memory.viewed.read(attention.prior, attention.shift)
        assert memory.layer is not None
        if switch is None:
            return SingleEmission(projected, memory.layer)
        logit = switch.logit + (attention.prior * switch.of_values).sum(1)
        logit = logit if of_shift is None else logit + of_shift
        return SingleEmission(projected, memory.layer, CopyMixture.of(switch, logit[:, None], attention.log_prior))

    def log_likelihood(self, gold: TokenGold) -> Tensor:
        return gold.of_context()


class NoAttention(Input):
    """p(y_t) = p(y_t | s_t), with the encoder's last state passed on as the decoder's first one (Sutskever et al.
    2014)."""

    needs_context = False


@dataclass(frozen=True)
class SingleEmission(Emission):
    """That of one context, from the readout's hidden layer (n, R)."""

    hidden: Tensor
    layer: SearchLayer
    copies: CopyMixture | None = None

    @cached_property
    def log_probs(self) -> Tensor:
        log_probs = self.layer.log_probs(torch.tanh(self.hidden))
        if self.copies is None:
            return log_probs
        return self.copies.log_probs((log_probs + F.logsigmoid(self.copies.logit)).exp())

    def origin(self, symbol: Tensor) -> Origin | None:
        return None if self.copies is None else self.copies.origin(symbol)

    def select(self, rows: Tensor) -> Emission:
        copies = None if self.copies is None else self.copies.select(rows)
        return SingleEmission(self.hidden.index_select(0, rows), self.layer, copies)


class Output(Marginalization):
    """p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a) (equations 3 and 11).

    With `top_k`, only the K most probable positions are summed (equation 7). With `mass`, they are the fewest of which
    the prior is at least `mass`: a nucleus; with both, at most K of them. The sum is not renormalized, so that the
    likelihood is a lower bound of the exact one. As p(y | s, h_a) is at most 1, a whole nucleus takes at most 1 - mass
    from p(y_t).

    In training, where positions know too little yet to be told apart, such a bound pays for nothing but less spread:
    attention ends on one position. So what is trained with a `mass` is the sum renormalized, log p - log sum prior; it
    has no gradient where all positions explain y_t alike, and is at most -log mass above the bound of a whole nucleus.
    """

    gives_positions = True

    def __init__(self, options: options.Output | options.Bound, sizes: Sizes) -> None:
        super().__init__()
        self.top_k, self.mass = options.top_k, options.mass
        self.renormalized = options.mass is not None and (options.mass < 1 or options.top_k is not None)

    def nucleus(self, log_prior: Tensor) -> Tensor:
        """The positions (n, m) that have `mass`, none of which is impossible."""
        possible = is_possible(log_prior)
        return possible if self.mass is None or self.mass == 1 else possible & is_nucleus(log_prior.exp(), self.mass)

    def kept(self, log_prior: Tensor, nucleus: Tensor) -> Tensor:
        """The positions (n, m) that are summed over: at most K of the nucleus."""
        if self.top_k is None:
            return nucleus
        return nucleus & is_most_probable(log_prior.masked_fill(~nucleus, -torch.inf), self.top_k)

    def positions(self, log_prior: Tensor) -> Tensor:
        return self.kept(log_prior, self.nucleus(log_prior)).sum(1)

    def weights(self, log_prior: Tensor, kept: Tensor, copies: CopyMixture | None) -> Tensor:
        """Log weights (n, m) of what is summed, `ZERO` elsewhere. Renormalized, the kept positions generate as much as
        all of them do: what is not copied."""
        weights = log_prior.masked_fill(~kept, ZERO)
        if not (self.renormalized and self.training):
            return weights
        gate = 0.0 if copies is None else F.logsigmoid(copies.logit)
        of_kept, of_all = (torch.logsumexp(part + gate, dim=1, keepdim=True) for part in (weights, log_prior))
        return weights + of_all - of_kept

    def emission(
        self, attention: Attention, projected: Tensor, memory: Memory, switch: Switch | None, of_shift: Tensor | None
    ) -> Emission:
        nucleus = self.nucleus(attention.log_prior)
        kept = self.kept(attention.log_prior, nucleus)
        truncated = None if self.top_k is None else (kept != nucleus).any(1)
        copies = None if switch is None else self.copies(switch, attention.log_prior)
        weights = self.weights(attention.log_prior, kept, copies)
        return MixtureEmission(attention.log_prior, weights, projected, kept, truncated, memory, copies)

    def log_likelihood(self, gold: TokenGold) -> Tensor:
        log_prior, switch = gold.tokens.log_prior, gold.tokens.switch
        kept = self.kept(log_prior, self.nucleus(log_prior))
        copies = None if switch is None else self.copies(switch, log_prior)
        return gold.mixture(self.weights(log_prior, kept, copies), kept, copies=copies)

    def copies(self, switch: Switch, log_prior: Tensor) -> CopyMixture:
        """How n rows generate and copy, by log priors (n, m)."""
        return CopyMixture.of(switch, switch.by_position, log_prior)


@dataclass(frozen=True)
class MixtureEmission(Emission):
    """That of every position, weighted by the prior."""

    log_prior: Tensor  # (n, m)
    weights: Tensor  # (n, m) by `Output.weights`
    projected: Tensor  # (n, R)
    kept: Tensor  # (n, m) positions that are summed over
    truncated: Tensor | None  # (n,) which sums are cut to K positions of more, or None: none is
    memory: Memory
    copies: CopyMixture | None = None
    chosen: tuple[SearchedMixture, Tensor] | None = None  # what search chose from, and the rows that it chose

    @cached_property
    def mixture(self) -> SearchedMixture:
        """What is known of every symbol, for search."""
        views, layer = self.memory.views, self.memory.layer
        assert views is not None and layer is not None
        sentences = torch.arange(len(self.kept), device=self.kept.device) // self.memory.beam
        weights = self.log_prior if self.copies is None else self.log_prior + F.logsigmoid(self.copies.logit)
        return SearchedMixture(views, self.projected, weights.exp(), self.kept, sentences, layer)

    @cached_property
    def log_probs(self) -> Tensor:
        return self.mixture.log_probs() if self.copies is None else self.copies.log_probs(self.mixture.sums)

    def observe(self, symbol: Tensor) -> Observation:
        known = symbol if self.copies is None else self.copies.switch.known(symbol)
        if self.memory.likelihood is not None:
            log_likelihood = self.memory.likelihood(self.projected, known, self.kept)
        else:
            mixture, rows = self.chosen or (self.mixture, torch.arange(len(symbol), device=symbol.device))
            log_likelihood = mixture.log_likelihood(rows, known)
        if self.copies is None:
            return posterior(self.weights, log_likelihood, self.truncated)
        generated = self.weights + self.copies.gate(symbol) + log_likelihood
        return normalized(torch.logaddexp(generated, self.copies.by_position(symbol)), self.truncated)

    def exact(self, symbol: Tensor) -> Tensor | None:
        possible = is_possible(self.log_prior)
        if torch.equal(possible, self.kept):
            return None
        given = self.projected, possible, None, self.memory, self.copies
        whole = MixtureEmission(self.log_prior, self.log_prior, *given)
        return whole.log_probs.gather(1, symbol[:, None]).squeeze(1)

    def origin(self, symbol: Tensor) -> Origin | None:
        return None if self.copies is None else self.copies.origin(symbol)

    def select(self, rows: Tensor) -> Emission:
        parts = self.log_prior, self.weights, self.projected, self.kept
        log_prior, weights, projected, kept = (part.index_select(0, rows) for part in parts)
        truncated, chosen = taken(self.truncated, rows), (self.mixture, rows)
        copies = None if self.copies is None else self.copies.select(rows)
        return MixtureEmission(log_prior, weights, projected, kept, truncated, self.memory, copies, chosen)


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
    weight: float

    def __init__(self, options: options.Bound, sizes: Sizes) -> None:
        super().__init__(options, sizes)
        self.q_top_k = options.q_top_k
        self.follow("weight", options.weight)

    def objective(self, gold: TokenGold, log_q: Tensor | None, estimator: Estimator, gumbel: Tensor | None) -> Tensor:
        """The bound of all tokens, (N,), for `log_q` (N, m), None: it is the prior; `gumbel` (N, m) is of a draw."""
        log_prior = gold.tokens.log_prior.clamp_min(ZERO)
        log_q = log_prior if log_q is None else self.restrict(log_q)
        divergence = (log_q.exp() * (log_q - log_prior)).sum(1)
        expected: Tensor = estimator(gold, log_q, log_prior, gumbel)
        return expected - self.weight * divergence

    def copies(self, switch: Switch, log_prior: Tensor) -> CopyMixture:
        """What is copied follows the attention, whatever the latent position; see `PointerGenerator`."""
        logit = switch.by_position
        of_each = log_prior + F.logsigmoid(-logit)
        total = torch.logsumexp(of_each, 1, keepdim=True)
        return CopyMixture(switch, logit, log_prior + total, of_each - total)

    def restrict(self, log_q: Tensor) -> Tensor:
        """q (n, m) over its K most probable positions, renormalized: log probabilities (n, m)."""
        if self.q_top_k is None:
            return log_q
        chosen = log_q.masked_fill(~is_most_probable(log_q, self.q_top_k), ZERO)
        return torch.log_softmax(chosen, dim=1)
