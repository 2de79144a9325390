"""Couplings of the alignment distribution to the previous alignment.

Shankar & Sarawagi (2019), section 2.3.1: prior_t(a) = sum_a' postr_{t-1}(a') softmax_a(e_t(a) +
k(a, a')).
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.distributions import Softmax
from pam.models.interfaces import AttentionHistory, Coupling, Distribution, Memory, Sizes
from pam.models.logspace import ZERO, safe_log

BOUND = 10.0  # energies of `proximity` are within +-BOUND, so that exp(k) cannot overflow


class NoCoupling(Coupling):
    """k = 0, so that prior_t = softmax(e_t) (equation 6: the query carries the past)."""

    def forward(
        self,
        scores: Tensor,
        mask: Tensor,
        distribution: Distribution,
        memory: Memory,
        history: AttentionHistory,
    ) -> Tensor:
        log_prior: Tensor = distribution(scores, mask)
        return log_prior


class RelativeCoupling(Coupling):
    """prior_t(a) = sum_a' previous(a') softmax_a(e_t(a) + k(a - a')) (section 2.3.1): the energy
    depends on the distance alone.

    The paper does not say what the first step is coupled to. `first` is `free`: nothing, k = 0, as
    there is no previous alignment; or `before`: a position just before the source, a' = -1.
    """

    def __init__(self, options: options.Proximity | options.Monotone) -> None:
        super().__init__()
        self.starts_before = options.first == "before"

    @abstractmethod
    def energies(self, distances: Tensor) -> Tensor:
        """k(d) of integer distances d = a - a', of any shape."""

    def transitions(self, length: int) -> Tensor:
        """k(a - a') as a matrix (a', a)."""
        positions = torch.arange(length, device=next(self.parameters()).device)
        return self.energies(positions[None, :] - positions[:, None])

    def forward(
        self,
        scores: Tensor,
        mask: Tensor,
        distribution: Distribution,
        memory: Memory,
        history: AttentionHistory,
    ) -> Tensor:
        if history.alignment is None:
            if self.starts_before:
                scores = scores + self.energies(
                    torch.arange(scores.shape[-1], device=scores.device) + 1
                )
            log_prior: Tensor = distribution(scores, mask)
            return log_prior
        assert memory.transitions is not None
        if isinstance(distribution, Softmax):
            return coupled_softmax(scores, mask, memory.transitions, history.alignment)
        return coupled(scores, mask, memory.transitions, history.alignment, distribution)


def coupled(
    scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor, distribution: Distribution
) -> Tensor:
    """log sum_a' previous(a') distribution_a(e(a) + k(a', a)), (n, m), the definition: O(m^2) for
    each row. Energies are (m, m), from the first index to the second, all else (n, m).
    """
    log_transition = distribution(scores[:, None, :] + energies, mask[:, None, :])
    return torch.logsumexp(safe_log(previous)[:, :, None] + log_transition, dim=1)


def coupled_softmax(scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
    """`coupled` of a softmax, in two products with M = exp(k), (a', a).

    With u = softmax(e), the softmax from a' is u(a) M(a', a) / z(a') with z = M u, so that prior =
    u * M^T (previous / z). As z is at least the smallest of M, nothing is divided by zero.
    """
    weights = energies.exp()
    log_u = torch.log_softmax(scores.masked_fill(~mask, -torch.inf), dim=1)
    z = log_u.exp() @ weights.t()
    found = (previous / z) @ weights
    return (log_u + found.log()).clamp_min(ZERO)


class Monotone(RelativeCoupling):
    """k(a, a') = delta^(a - a' - 1) where a > a', else 0, with 0 < delta < 1 (section 2.3.1)."""

    def __init__(self, options: options.Monotone, sizes: Sizes) -> None:
        super().__init__(options)
        self.raw = nn.Parameter(torch.zeros(()))

    @property
    def delta(self) -> Tensor:
        """The learned decay, a scalar strictly between 0 and 1."""
        return torch.sigmoid(self.raw)

    def energies(self, distances: Tensor) -> Tensor:
        # delta^(d-1) as exp((d-1) log delta); distances at most 0 are replaced before the power,
        # so that no gradient passes through a value that is not used.
        steps = (distances - 1).clamp_min(0).to(self.raw.dtype)
        power = torch.exp(steps * nn.functional.logsigmoid(self.raw))
        return torch.where(distances > 0, power, 0.0)


class Proximity(RelativeCoupling):
    """k(a, a') = delta_{a - a'} where |a - a'| < width, else 0 (section 2.3.1). The paper has a
    width of 3, hence five learned energies, from -2 to +2.
    """

    def __init__(self, options: options.Proximity, sizes: Sizes) -> None:
        super().__init__(options)
        self.width = options.width
        self.raw = nn.Parameter(torch.zeros(2 * self.width - 1))

    def energies(self, distances: Tensor) -> Tensor:
        delta = BOUND * torch.tanh(self.raw / BOUND)
        near = distances.abs() < self.width
        index = (distances + self.width - 1).clamp(0, 2 * self.width - 2)
        return torch.where(near, delta[index], 0.0)


class Chain(Coupling):
    """p(a_1, ..., a_t) ~ exp(sum_t e_t(a_t) + sum_t k(a_t - a_{t-1})), a first-order Markov chain.

    It is structured attention (Kim et al. 2017) in the form that 'Amortized Context Vector
    Inference' gives it in equation 20. Scores of later steps depend on symbols not yet written, so
    at step t the chain ends there, and the marginal of a_t, which forward-backward gives, is the
    forward message alone:

        prior_t(a) ~ exp(e_t(a)) sum_a' prior_{t-1}(a') exp(k(a - a')).

    Where the whole target is given, as for word alignments, the backward pass is taken too
    (`smoothed`).

    With k = 0 it is the distribution of the scores. What is handed on should be the prior
    (`input_feeding: prior`); with the posterior it is the filter of a hidden Markov model.

    k has a learned value for each distance of at most `reach` positions, one for all jumps further
    on and one for all further back.
    """

    def __init__(self, options: options.Chain, sizes: Sizes) -> None:
        super().__init__()
        self.reach = options.reach
        self.energy = nn.Parameter(torch.zeros(2 * self.reach + 3))

    def energies(self, distances: Tensor) -> Tensor:
        """k(d) of integer distances d = a - a', of any shape."""
        furthest = self.reach + 1
        return self.energy[distances.clamp(-furthest, furthest) + furthest]

    def transitions(self, length: int) -> Tensor:
        """exp(k(a - a')) as a matrix (a', a)."""
        positions = torch.arange(length, device=self.energy.device)
        return self.energies(positions[None, :] - positions[:, None]).exp()

    def forward(
        self,
        scores: Tensor,
        mask: Tensor,
        distribution: Distribution,
        memory: Memory,
        history: AttentionHistory,
    ) -> Tensor:
        if history.alignment is not None:
            assert memory.transitions is not None
            scores = scores + safe_log(onward(history.alignment, memory.transitions))
        log_prior: Tensor = distribution(scores, mask)
        return log_prior

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """Marginals given all scores, by the backward pass."""
        return smoothed(alignments, self.transitions(alignments.shape[2]), lengths)


class PointerCoupling(Coupling):
    """prior_t = the alignment handed on (Aharoni & Goldberg 2017): nothing is left to chance.

    It goes with the input feeding `pointer`, which moves the alignment at each step action.
    """

    def forward(
        self,
        scores: Tensor,
        mask: Tensor,
        distribution: Distribution,
        memory: Memory,
        history: AttentionHistory,
    ) -> Tensor:
        assert history.alignment is not None
        return safe_log(history.alignment)


def onward(marginal: Tensor, transitions: Tensor) -> Tensor:
    """The forward message that reaches each position, (B, m), unnormalized, from the marginal (B,
    m) of the step before, given the scores up to it, by weights exp(k) (m, m), from the first index
    to the second.
    """
    return marginal @ transitions


def smoothed(filtered: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """Marginals of every step given all scores, from those given the scores so far.

    The backward pass, in the form that needs no scores: with f_t the filtered marginals,

        g_t(a) = f_t(a) sum_b exp(k(a, b)) g_{t+1}(b) / sum_a' f_t(a') exp(k(a', b)),    g_n = f_n.

    Time goes with n m^2, over the whole batch at once. Marginals are (B, n, m); steps beyond a
    row's length, of `lengths` (B,), are left as they are.
    """
    tiny = torch.finfo(filtered.dtype).tiny
    found = [filtered[:, -1]]
    for t in range(filtered.shape[1] - 2, -1, -1):
        now = filtered[:, t]
        ratio = found[-1] / onward(now, transitions).clamp_min(tiny)
        ahead = now * (ratio @ transitions.t())
        found.append(torch.where((t + 1 < lengths)[:, None], ahead, now))
    return torch.stack(found[::-1], 1)
