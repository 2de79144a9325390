"""Contexts as latent vectors: amortized context vector inference."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from pam.models.memory import Memory, Noise, relaxed
from pam.models.parts import Glimpse, Latent
from pam.models.sizes import Sizes, check_number, check_size


class Acvi(Latent):
    """c_t ~ sum_a prior_t(a) N(h_a, diag sigma^2(h_a)), log sigma^2 = ReLU(W h_a + b)
    ('Amortized Context Vector Inference for Sequence-to-Sequence Networks', equations 14 to 25).

    Training maximises log p(y_t | s_t, c_t) - KL, both from a draw of c_t (equation 22), with the
    prior N(0, I) (21). A draw is, for most of the training, the mean of one draw from every
    component, weighted by the attention (25), and Gumbel-Softmax's choice of one (23) at its end.
    The divergence of the mixture has no closed form; as in the paper, it is taken at the draw:

        log sum_a prior_t(a) N(c_t; h_a, sigma^2(h_a)) - log N(c_t; 0, I).

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
        return replace(memory, log_variance=torch.relu(self.of_values(memory.values)))

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> Glimpse:
        if noise is None:
            return Glimpse(log_prior)
        assert memory.log_variance is not None
        log_weights = log_prior
        if self.share >= 1 - self.last:
            log_weights = relaxed(log_prior, noise.gumbel, self.temperature)
        weights = log_weights.exp()
        variance = torch.einsum("bm,bmd->bd", weights**2, memory.log_variance.exp())
        shift = variance.sqrt() * noise.normal
        cost = self.divergence(memory.context(weights) + shift, log_prior, memory)
        return Glimpse(log_weights, shift, self.weight * cost)

    def divergence(self, context: Tensor, log_prior: Tensor, memory: Memory) -> Tensor:
        """log of the mixture's density less that of N(0, I), at contexts (B, D): (B,)."""
        assert memory.log_variance is not None
        size = context.shape[1]
        square = (context[:, None] - memory.values) ** 2 * torch.exp(-memory.log_variance)
        each = -(square + memory.log_variance).sum(2) / 2  # (B, m)
        mixture = torch.logsumexp(log_prior + each, dim=1)
        shared = -size * math.log(2 * math.pi) / 2
        return (mixture + shared) - (shared - (context**2).sum(1) / 2)


COMPONENT = Acvi
