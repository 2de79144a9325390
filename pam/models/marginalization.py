"""Where the alignment is marginalized: at the decoder's input, or at its output."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from pam.models import options
from pam.models.interfaces import Component, Estimator, Sizes
from pam.models.logspace import ZERO, is_most_probable
from pam.models.outputs import (
    AttentionMixture,
    ContextDistribution,
    Cut,
    OutputRows,
    PositionDistribution,
    SingleContext,
    TokenDistribution,
)


class Marginalization(Component):
    """Where the position is summed out."""

    gives_positions = False  # whether it computes p(y | s, h_a) of every position
    is_exact = True  # whether it leaves no position out
    needs_context = False  # whether it reads the context of the prior
    # whether its objective is a bound, by alignments that an inference network gives
    needs_inference = False

    @abstractmethod
    def output(self, rows: OutputRows) -> ContextDistribution:
        """Return the distribution of the symbols of a step, or of tokens."""

    def bound(
        self, output: TokenDistribution, symbols: Tensor, log_q: Tensor | None, estimator: Estimator
    ) -> Tensor | None:
        """Return what training maximizes in place of log p of symbols (N,), before costs: (N,).

        It is a bound of it by `log_q` (N, m); None: q is the prior, or there is none. Without a
        bound training maximizes log p itself.
        """
        return None


class Input(Marginalization):
    """p(y_t) = p(y_t | s_t, sum_a prior_t(a) h_a) (equations 2 and 8)."""

    needs_context = True

    def output(self, rows: OutputRows) -> SingleContext:
        return SingleContext(rows, rows.attention.context)


class NoAttention(Input):
    """p(y_t) = p(y_t | s_t): no attention (Sutskever et al. 2014).

    The encoder's last state is passed on as the decoder's first one.
    """

    needs_context = False


class Output(Marginalization):
    """p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a) (equations 3 and 11).

    With `top_k`, only the K most probable positions are summed (equation 7). With `mass`, it is a
    nucleus: the fewest positions whose prior is at least `mass`. With both, it is at most K of the
    nucleus. The sum is not renormalized, so that the likelihood is a lower bound of the exact one.
    As p(y | s, h_a) is at most 1, a whole nucleus takes at most 1 - mass from p(y_t).

    Early in training positions explain y_t alike, and such a bound rewards nothing but less spread:
    attention ends on one position. So with a `mass` the renormalized sum is trained, log p - log
    sum prior. It has no gradient where all positions explain y_t alike. It is no lower bound: it is
    above the bound of a whole nucleus, and above the exact log p, by at most -log mass.
    """

    gives_positions = True

    def __init__(self, options: options.Output | options.Bound, sizes: Sizes) -> None:
        super().__init__()
        self.top_k = options.top_k
        self.mass = options.mass
        self.is_exact = options.top_k is None and (options.mass is None or options.mass == 1)
        self.renormalized = options.mass is not None and (
            options.mass < 1 or options.top_k is not None
        )

    def output(self, rows: OutputRows) -> AttentionMixture:
        cut = Cut(self.top_k, self.mass, self.renormalized and self.training)
        return AttentionMixture(rows, cut)


class Bound(Output):
    """Attention trained by a bound (Deng et al. 2018).

    Training maximizes, at each step,

        E_q[log p(y_t | s_t, h_a)] - weight KL(q_t || prior_t) <= log p(y_t | y_<t, x),

    where q_t(a | x, y) comes from the inference network, or is the prior: then the divergence is
    zero, and the bound is Jensen's, that of hard attention (Xu et al. 2015). The estimator computes
    the expectation; the divergence is always enumerated. Without the target there is no q: the
    likelihood sums the prior out, as `output` does.

    With `q_top_k`, the bound enumerates the K most probable positions of q. Restricted to them and
    renormalized q is a distribution too, so that the bound stays one. That is cheaper, but other
    positions get no gradient: it is for a q that knows where to look.

    With a `weight` below 1 the objective is no bound. A whole divergence can hold q to a prior that
    has learned nothing yet.
    """

    needs_inference = True
    weight: float

    def __init__(self, options: options.Bound, sizes: Sizes) -> None:
        super().__init__(options, sizes)
        self.q_top_k = options.q_top_k
        self.follow("weight", options.weight)

    def bound(
        self, output: TokenDistribution, symbols: Tensor, log_q: Tensor | None, estimator: Estimator
    ) -> Tensor:
        assert isinstance(output, PositionDistribution)
        log_prior = output.attention.log_prior.clamp_min(ZERO)
        log_q = log_prior if log_q is None else self.restrict(log_q)

        # KL(q_t || prior_t)
        divergence = (log_q.exp() * (log_q - log_prior)).sum(1)

        expected: Tensor = estimator(output, symbols, log_q)
        return expected - self.weight * divergence

    def restrict(self, log_q: Tensor) -> Tensor:
        """Restrict q to its K most probable positions: log probabilities (n, m), renormalized."""
        if self.q_top_k is None:
            return log_q

        chosen = log_q.masked_fill(~is_most_probable(log_q, self.q_top_k), ZERO)
        return torch.log_softmax(chosen, dim=1)
