"""Couplings of the alignment distribution to the previous alignment.

Shankar & Sarawagi (2019), section 2.3.1, with energies k(a, a') from position a' to a:

    prior_t(a) = sum_a' postr_{t-1}(a') softmax_a(e_t(a) + k(a, a')).
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.distributions import Softmax
from pam.models.interfaces import AttentionHistory, Coupling, Distribution, Memory, Sizes
from pam.models.logspace import ZERO, safe_log

BOUND = 10.0
"""Energies of `proximity` stay within +-BOUND, so that exp(k) cannot overflow."""


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
    """prior_t(a) = sum_a' previous(a') softmax_a(e_t(a) + k(a - a')) (section 2.3.1).

    The energy k depends on the distance alone. The paper does not say what the first step is
    coupled to, as it has no previous alignment. With `first: free` it is coupled to nothing, k = 0;
    with `first: before` to a position just before the source, a' = -1.
    """

    is_chain = True

    def __init__(self, options: options.Proximity | options.Monotone) -> None:
        super().__init__()
        self.starts_before = options.first == "before"

    @abstractmethod
    def energies(self, distances: Tensor) -> Tensor:
        """Compute k(d) of integer distances d = a - a', of any shape."""

    def transitions(self, length: int) -> Tensor:
        """Compute k(a - a') as a matrix (a', a)."""
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
        # The first step.
        if history.alignment is None:
            if self.starts_before:
                distances = torch.arange(scores.shape[-1], device=scores.device) + 1
                scores = scores + self.energies(distances)
            log_prior: Tensor = distribution(scores, mask)
            return log_prior

        energies = memory.transitions
        assert energies is not None
        if isinstance(distribution, Softmax):
            return coupled_softmax(scores, mask, energies, previous=history.alignment)
        return coupled(
            scores, mask, energies, previous=history.alignment, distribution=distribution
        )

    def weights(
        self, scores: Tensor, mask: Tensor, distribution: Distribution, memory: Memory
    ) -> Tensor:
        assert memory.transitions is not None
        moved_scores = scores[:, None, :] + memory.transitions
        log_transition: Tensor = distribution(moved_scores, mask[:, None, :])
        return log_transition.exp()


def coupled(
    scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor, distribution: Distribution
) -> Tensor:
    """Compute log sum_a' previous(a') distribution_a(e(a) + k(a', a)), by its definition.

    Energies are (m, m), from the first index to the second; all else is (n, m), the result too. The
    cost is O(m^2) for each row.
    """
    # log softmax_a(e(a) + k(a', a)), (n, a', a)
    log_transition = distribution(scores[:, None, :] + energies, mask[:, None, :])
    return torch.logsumexp(safe_log(previous)[:, :, None] + log_transition, dim=1)


def coupled_softmax(scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
    """Compute `coupled` of a softmax, as two matrix products.

    With M = exp(k), (a', a), and u = softmax(e), the softmax from a' is u(a) M(a', a) / z(a') with
    z = M u. So prior = u * M^T (previous / z). As z is at least the smallest entry of M, nothing is
    divided by zero.
    """
    weights = energies.exp()  # M
    log_u = torch.log_softmax(scores.masked_fill(~mask, -torch.inf), dim=1)
    z = log_u.exp() @ weights.t()

    factor = (previous / z) @ weights
    return (log_u + factor.log()).clamp_min(ZERO)


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
        # delta^(d-1) is exp((d-1) log delta). Distances of at most 0 are replaced before the power,
        # so that no gradient passes through an unused value.
        steps = (distances - 1).clamp_min(0).to(self.raw.dtype)
        power = torch.exp(steps * nn.functional.logsigmoid(self.raw))
        return torch.where(distances > 0, power, 0.0)


class Proximity(RelativeCoupling):
    """k(a, a') = delta_{a - a'} where |a - a'| < width, else 0 (section 2.3.1).

    The paper has a width of 3, hence five learned energies, for distances from -2 to +2.
    """

    def __init__(self, options: options.Proximity, sizes: Sizes) -> None:
        super().__init__(options)
        self.width = options.width
        self.raw = nn.Parameter(torch.zeros(2 * self.width - 1))

    def energies(self, distances: Tensor) -> Tensor:
        delta = BOUND * torch.tanh(self.raw / BOUND)

        is_near = distances.abs() < self.width
        index = (distances + self.width - 1).clamp(0, 2 * self.width - 2)
        return torch.where(is_near, delta[index], 0.0)


class Chain(Coupling):
    """p(a_1, ..., a_t) ~ exp(sum_t e_t(a_t) + sum_t k(a_t - a_{t-1})), a first-order Markov chain.

    This is structured attention (Kim et al. 2017) in the form of equation 20 of 'Amortized Context
    Vector Inference'. Scores of later steps depend on symbols that are not written yet, so at step
    t the chain ends there. The marginal of a_t is then the forward message alone:

        prior_t(a) ~ exp(e_t(a)) sum_a' prior_{t-1}(a') exp(k(a - a')).

    Given the whole target, as for word alignments, `given_all` takes the backward pass too.

    With k = 0 the prior is the distribution of the scores. The alignment handed on should be the
    prior (`input_feeding: prior`); with the posterior this is the filter of a hidden Markov model.

    k has a learned value for each distance of at most `reach` positions, one for all longer jumps
    forwards and one for all longer jumps backwards.
    """

    is_chain = True

    def __init__(self, options: options.Chain, sizes: Sizes) -> None:
        super().__init__()
        self.reach = options.reach
        self.energy = nn.Parameter(torch.zeros(2 * self.reach + 3))

    def energies(self, distances: Tensor) -> Tensor:
        """Compute k(d) of integer distances d = a - a', of any shape."""
        furthest = self.reach + 1
        return self.energy[distances.clamp(-furthest, furthest) + furthest]

    def transitions(self, length: int) -> Tensor:
        """Compute exp(k(a - a')) as a matrix (a', a)."""
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

    def weights(
        self, scores: Tensor, mask: Tensor, distribution: Distribution, memory: Memory
    ) -> Tensor:
        assert memory.transitions is not None
        return memory.transitions.expand(len(scores), -1, -1)

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """Compute the marginals given all scores, by the backward pass."""
        return smoothed(alignments, self.transitions(alignments.shape[2]), lengths)


class PointerCoupling(Coupling):
    """prior_t = the alignment handed on, a single position (Aharoni & Goldberg 2017).

    It needs the input feeding `pointer`, which moves the position at each step action.
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
    """Compute the forward message that reaches each position, (B, m), unnormalized.

    `marginal` (B, m) is that of the previous step, given the scores up to it. `transitions` (m, m)
    are the weights exp(k), from the first index to the second.
    """
    return marginal @ transitions


def smoothed(filtered: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """Compute the marginals of every step given all scores.

    `filtered` are the marginals f_t given the scores so far, (B, n, m), as is the result. This is
    the backward pass, in the form that needs no scores:

        g_t(a) = f_t(a) sum_b exp(k(a, b)) g_{t+1}(b) / sum_a' f_t(a') exp(k(a', b)),    g_n = f_n.

    Steps beyond a row's length, of `lengths` (B,), are left as they are. The cost is O(n m^2) for
    each row.
    """
    # From the last step to the first.
    backwards = [filtered[:, -1]]

    for t in range(filtered.shape[1] - 2, -1, -1):
        now = filtered[:, t]
        marginal = smoothed_step(now, backwards[-1], transitions)
        has_next = (t + 1 < lengths)[:, None]
        backwards.append(torch.where(has_next, marginal, now))

    return torch.stack(backwards[::-1], 1)


def smoothed_step(now: Tensor, following: Tensor, weights: Tensor) -> Tensor:
    """Compute the marginal of a step given all symbols, (n, m): one step of the backward pass.

    Args:
        now: (n, m) f_t, the marginal given the symbols so far.
        following: (n, m) g_{t+1}, that of the next step given all symbols.
        weights: (m, m) or (n, m, m) of moves from the first index to the second; a factor of the
            second index makes no difference.
    """
    tiny = torch.finfo(now.dtype).tiny
    ratio = following / _moved(now, weights).clamp_min(tiny)
    return now * _moved(ratio, weights.transpose(-2, -1))


def _moved(marginal: Tensor, weights: Tensor) -> Tensor:
    """Multiply each row (n, m) with the weights (m, m) that all rows share, or with its own."""
    if weights.dim() == 2:
        return onward(marginal, weights)
    return torch.bmm(marginal[:, None], weights)[:, 0]
