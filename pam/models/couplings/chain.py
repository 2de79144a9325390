"""A linear chain over the steps: structured attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.models.chains import onward, smoothed
from pam.models.logspace import safe_log
from pam.models.parts import Coupling, Distribution
from pam.models.sizes import Sizes, check_size


class Chain(Coupling):
    """p(a_1, ..., a_t) ~ exp(sum_t e_t(a_t) + sum_t k(a_t - a_{t-1})), a first-order Markov chain.

    It is structured attention (Kim et al. 2017) in the form that 'Amortized Context Vector
    Inference' gives it in equation 20. Scores of later steps depend on symbols not yet written, so
    at step t the chain ends there, and the marginal of a_t, which forward-backward gives, is the
    forward message alone:

        prior_t(a) ~ exp(e_t(a)) sum_a' prior_{t-1}(a') exp(k(a - a')).

    Where the whole target is given, as for word alignments, the backward pass is taken too
    (`pam.models.chains.smoothed`).

    With k = 0 it is the distribution of the scores. What is handed on should be the prior
    (`feedback: prior`); with the posterior it is the filter of a hidden Markov model.

    Args:
        reach: k has a learned value for each distance of at most so many positions, and one for
            all jumps further on and one for all further back.
    """

    def __init__(self, sizes: Sizes, reach: int = 5) -> None:
        super().__init__()
        check_size("coupling option `reach`", reach)
        self.reach = reach
        self.energy = nn.Parameter(torch.zeros(2 * reach + 3))

    def energies(self, distances: Tensor) -> Tensor:
        """k(d) of integer distances d = a - a', of any shape."""
        furthest = self.reach + 1
        return self.energy[distances.clamp(-furthest, furthest) + furthest]

    def transitions(self, length: int) -> Tensor:
        """exp(k(a - a')) as a matrix (a', a)."""
        positions = torch.arange(length, device=self.energy.device)
        return self.energies(positions[None, :] - positions[:, None]).exp()

    def forward(
        self, scores: Tensor, previous: Tensor | None, mask: Tensor, distribution: Distribution
    ) -> Tensor:
        if previous is not None:
            scores = scores + safe_log(onward(previous, self.transitions(scores.shape[1])))
        log_prior: Tensor = distribution(scores, mask)
        return log_prior

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """Marginals given all scores, by the backward pass."""
        return smoothed(alignments, self.transitions(alignments.shape[2]), lengths)


COMPONENT = Chain
