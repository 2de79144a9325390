"""Input feeding: the alignment from which the next state's context is computed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import STEP
from pam.models import options
from pam.models.interfaces import InputFeeding, Memory, Sizes
from pam.models.logspace import draw
from pam.models.outputs import PositionDistribution, TokenDistribution
from pam.models.posterior import Observed


class PriorFeeding(InputFeeding):
    """c_t = sum_a prior_t(a) h_a, whichever symbol was written (equation 9)."""

    keeps_prior = True

    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Observed:
        return Observed(output.attention.prior)


class PosteriorFeeding(InputFeeding):
    """c_t = sum_a postr_t(a) h_a (equations 12, 13).

    `mix` is the share of the posterior in what is fed back; the rest is the prior (section 2.4). By
    default it is 1/2 where `top_k` leaves positions out, because the posterior is then too sparse,
    and 1 where it is exact or a nucleus. The paper states the half for its top-K runs and nothing
    for exact sums. Nor does it say whether gradients flow through the posterior; they do by
    default, as it is an ordinary node of the computation.

    Without `context` no c_t is fed, and the posterior is what the next step's coupling follows.
    """

    needs_positions = True

    def __init__(self, options: options.PosteriorFeeding, sizes: Sizes) -> None:
        super().__init__()
        self.mix = options.mix
        self.is_posterior = options.mix is None or options.mix == 1
        self.gradient = options.gradient
        self.feeds = options.context

    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Observed:
        assert isinstance(output, PositionDistribution)
        observed = output.observe(symbol)
        alignment = observed.alignment
        if not self.gradient:
            alignment = alignment.detach()

        share = self.share(output.truncated())
        if share is not None:
            alignment = share * alignment + (1 - share) * output.attention.prior
        return Observed(alignment, observed.log_prob)

    def hands_on_posterior(self, output: TokenDistribution) -> bool:
        return self.share(output.truncated()) is None

    def share(self, truncated: Tensor | None) -> Tensor | float | None:
        """Return the share of the posterior in what is fed back, (n, 1); None: it is 1.

        `truncated` (n,) is whether a sum is cut to K positions; None: no sum is.
        """
        if self.mix is not None:
            return self.mix
        if truncated is None:
            return None

        return torch.where(truncated, 0.5, 1.0)[:, None]


class SampleFeeding(InputFeeding):
    """c_t = h_a with a drawn from prior_t: hard attention (Xu et al. 2015).

    The estimator makes the same draw, as it reads the same noise. At test time, where nothing is
    drawn, a is the most probable position. No gradient flows through the choice.
    """

    draws = True

    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Observed:
        log_prior = output.attention.log_prior.detach()
        gumbel = output.attention.gumbel
        if gumbel is None:
            gumbel = torch.zeros_like(log_prior)

        return Observed(draw(log_prior, gumbel))


class PointerFeeding(InputFeeding):
    """c_t = h at the pointer, which starts at position 0 (Aharoni & Goldberg 2017).

    It moves by one position at each step action; at the last position it stays.
    """

    def first(self, memory: Memory) -> Tensor:
        alignment = memory.values.new_zeros(memory.mask.shape)
        alignment[:, 0].fill_(1.0)

        return alignment

    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Observed:
        alignment = output.attention.prior

        # Every position moves to the next one, but for the last real one of each row.
        is_last = F.pad(~mask[:, 1:], (0, 1), value=True) & mask
        moved = F.pad(alignment[:, :-1] * ~is_last[:, :-1], (1, 0)) + alignment * is_last

        return Observed(torch.where((symbol == STEP)[:, None], moved, alignment))


class NoFeeding(PriorFeeding):
    """s_t = RNN(s_{t-1}, emb(y_{t-1})): attention without input feeding.

    See Luong et al. (2015), section 3.3. The prior is handed on to couplings and scores.
    """

    feeds = False
