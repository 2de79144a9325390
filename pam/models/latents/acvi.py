"""Contexts as latent vectors: amortized context vector inference."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from pam.models.memory import Memory, Noise, relaxed
from pam.models.parts import Glimpse, Latent
from pam.models.sizes import Sizes, check_number, check_size


class Acvi(Latent):
    """c_t ~ sum_a prior_t(a) N(h_a, diag sigma^2(h_a)), log sigma^2 = ReLU(W h_a + b)
    ('Amortized Context Vector Inference for Sequence-to-Sequence Networks', equations 14 to 25).

    Training maximizes log p(y_t | s_t, c_t) - KL (equation 22), with the prior N(0, I) (21). For
    most of the training c_t is the mean of one draw from every component, weighted by the attention
    (25), and Gumbel-Softmax's choice of one (23) at its end. The divergence of the mixture has no
    closed form; as in the paper, it is estimated from draws, here one from every component,
    c_a = h_a + sigma(h_a) eps_a, once for the sentence, so that its steps share their densities:

        sum_a prior_t(a) [log sum_b prior_t(b) N(c_a; h_b, sigma^2(h_b)) - log N(c_a; 0, I)],

    whose value and gradient are unbiased. At (25), which is no draw of the mixture, the bracket is
    no divergence: it falls below zero without meaning, and a training follows it there.

    sum_a w(a) sigma(h_a) eps_a, with the weights w of either kind, is a Gaussian of variance
    sum_a w(a)^2 sigma^2(h_a): it is drawn as such, once instead of for each position.

    Without noise, the context is its mean under the weights of the attention: soft attention's.

    Args:
        samples: draws of a whole sentence over which the objective is averaged.
        temperature: of Gumbel-Softmax.
        last: share of the training, at its end, in which one component is chosen.
        weight: of the divergence.
    """

    def __init__(
        self,
        sizes: Sizes,
        samples: int = 1,
        temperature: float = 0.5,
        last: float = 0.1,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        check_size("latent option `samples`", samples, most=1000)
        self.samples = samples
        self.temperature = check_number(
            "latent option `temperature`", temperature, least=1e-3, most=1e3
        )
        self.last = check_number("latent option `last`", last, most=1.0)
        self.weight = check_number("latent option `weight`", weight)
        self.of_values = nn.Linear(sizes.values, sizes.values)

    def of_sentence(self, memory: Memory, final: Tensor) -> Memory:
        log_variance = torch.relu(self.of_values(memory.values))
        ratios = _log_ratios(memory.values, log_variance) if self.training else None
        return replace(memory, variance=log_variance.exp(), log_ratios=ratios)

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> Glimpse:
        if noise is None:
            return Glimpse(log_prior)
        assert memory.variance is not None
        log_weights = log_prior
        if self.share >= 1 - self.last:
            log_weights = relaxed(log_prior, noise.gumbel, self.temperature)
        weights = log_weights.exp()
        variance = torch.einsum("bm,bmd->bd", weights**2, memory.variance)
        shift = variance.sqrt() * noise.normal
        return Glimpse(log_weights, shift, self.divergence(log_prior, memory))

    def divergence(self, log_prior: Tensor, memory: Memory) -> Tensor | None:
        """KL of the mixture with log weights (B, m) from N(0, I), weighted: (B,) nats; None where
        nothing was drawn for it."""
        if memory.log_ratios is None:
            return None
        of_each = torch.logsumexp(log_prior[:, None] + memory.log_ratios, dim=2)
        return self.weight * (log_prior.exp() * of_each).sum(1)


def _log_ratios(values: Tensor, log_variance: Tensor) -> Tensor:
    """log N(c_a; h_b, sigma_b^2) - log N(c_a; 0, I) at a draw c_a around each h_a: (B, m, m)."""
    wide = torch.promote_types(values.dtype, torch.float32)
    values, log_variance = values.to(wide), log_variance.to(wide)
    # Sums over hundreds of dimensions, whose differences count: not in bfloat16.
    with torch.autocast(values.device.type, enabled=False):
        precision = torch.exp(-log_variance)
        drawn = values + torch.exp(log_variance / 2) * torch.randn_like(values)
        # (c_a - h_b)^2 / sigma_b^2, multiplied out: products of matrices, not (B, m, m, D).
        squares = drawn**2 @ precision.mT - 2 * drawn @ (values * precision).mT
        own = (values**2 * precision + log_variance).sum(2)
        return ((drawn**2).sum(2)[:, :, None] - squares - own[:, None]) / 2


COMPONENT = Acvi
