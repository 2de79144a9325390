"""The posterior alignment is fed back."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.io import UserError
from pam.models.parts import Attention, Feedback, Marginal
from pam.models.sizes import Sizes, check_flag


class Posterior(Feedback):
    """c_t = sum_a postr_t(a) h_a, postr_t(a) ~ prior_t(a) p(y_t | s_t, h_a) (equations 12, 13).

    Args:
        mix: share of the posterior in what is fed back; the rest is the prior (section 2.4).
            None (default): 1/2 where the marginal sums over the top K only, because the
            posterior is then too sparse, and 1 where it is exact. The paper states the half for
            its top-K runs and nothing for exact sums.
        gradient: whether gradients flow through the posterior. The paper does not say; true by
            default, as it is an ordinary node of the computation.
    """

    needs_positions = True

    def __init__(self, sizes: Sizes, mix: float | None = None, gradient: bool = True) -> None:
        super().__init__()
        if mix is not None and not (isinstance(mix, int | float) and 0 <= mix <= 1):
            raise UserError(
                f"feedback option `mix` is {mix!r}", hint="use a number from 0 to 1, or null"
            )
        self.mix = mix
        self.gradient = check_flag("feedback option `gradient`", gradient)

    def share(self, truncated: Tensor) -> Tensor:
        """The share of the posterior, (B, 1), where `truncated` (B,) tells the sums cut short."""
        whole, cut = (1.0, 0.5) if self.mix is None else (self.mix, self.mix)
        return torch.where(truncated, cut, whole)[:, None]

    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        assert marginal is not None and marginal.positions is not None
        assert marginal.weights is not None and marginal.truncated is not None
        index = symbol[:, None, None].expand(-1, attention.log_prior.shape[1], 1)
        likelihood = marginal.positions.gather(2, index).squeeze(2)  # (B, m)
        posterior = torch.softmax(marginal.weights + likelihood, dim=1)
        if not self.gradient:
            posterior = posterior.detach()
        share = self.share(marginal.truncated).to(posterior)
        return share * posterior + (1 - share) * attention.log_prior.exp()


COMPONENT = Posterior
