"""Latent vectors besides the alignment: in each context, or one for the sentence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.interfaces import Latent, LatentContext, Memory, Noise, SentenceLatent, Sizes
from pam.models.logspace import relax
from pam.models.schedules import Delayed

BOUND = 10.0  # the largest size of a bounded log variance


class NoLatent(Latent):
    """c_t = sum_a alignment_t(a) h_a, and nothing else."""

    draws = False


@dataclass(frozen=True, eq=False)
class Gaussians(SentenceLatent):
    """A Gaussian around each encoder state."""

    variance: Tensor | None = None  # (n, m, D)
    log_ratios: Tensor | None = None  # (n, m, m) the result of `_log_ratios`, in training


class Acvi(Latent):
    """c_t ~ sum_a prior_t(a) N(h_a, diag sigma^2(h_a)), with log sigma^2 = ReLU(W h_a + b).

    This is 'Amortized Context Vector Inference for Sequence-to-Sequence Networks', equations 14 to
    25. Training maximizes log p(y_t | s_t, c_t) - KL (equation 22), with the prior N(0, I) (21).
    For most of the training c_t is the mean of one draw from every component, weighted by the
    attention (25). At its end c_t is Gumbel-Softmax's choice of one component (23).

    The divergence of the mixture has no closed form. As in the paper, it is estimated from draws,
    here one from every component, c_a = h_a + sigma(h_a) eps_a, once for the sentence, so that its
    steps share their densities:

        sum_a prior_t(a) [log sum_b prior_t(b) N(c_a; h_b, sigma^2(h_b)) - log N(c_a; 0, I)],

    whose value and gradient are unbiased. At (25), which is no draw of the mixture, the bracket is
    no divergence: it falls below zero without meaning, and a training follows it there.

    sum_a w(a) sigma(h_a) eps_a, with the weights w of either kind, is a Gaussian of variance sum_a
    w(a)^2 sigma^2(h_a): it is drawn as such, once instead of for each position.

    Without noise, the context is its mean under the weights of the attention, as in soft attention.

    The ReLU is in equation 18: with it sigma is 1 or more, while LSTM states are within (-1, 1).
    `variance: linear` leaves W h_a + b as it is; `bounded` keeps it within +-10, by 10 tanh(./10).
    `start` is b before training.
    """

    temperature: float
    weight: float
    single: float  # 1: the context is one component, not the mean of all

    def __init__(self, options: options.Acvi, sizes: Sizes) -> None:
        super().__init__()
        self.samples = options.samples
        self.form = options.variance
        self.follow("temperature", options.temperature)
        self.follow("weight", options.weight)
        self.follow("single", Delayed(value=1.0, after=1 - options.last))
        self.single = 0.0  # draws at test time are of all components

        self.of_values = nn.Linear(sizes.values, sizes.values)
        if options.start is not None:
            nn.init.constant_(self.of_values.bias, options.start)

    def of_sentence(self, values: Tensor, final: Tensor) -> Gaussians:
        log_variance = self.log_variance(values)
        ratios = None
        if self.training:
            ratios = _log_ratios(values, log_variance)

        return Gaussians(variance=log_variance.exp(), log_ratios=ratios)

    def log_variance(self, values: Tensor) -> Tensor:
        """Return log sigma^2(h_a) of values h_a (B, m, D), of the same shape."""
        free: Tensor = self.of_values(values)
        if self.form == "bounded":
            return BOUND * torch.tanh(free / BOUND)
        if self.form == "relu":
            return torch.relu(free)
        return free

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> LatentContext:
        if noise is None:
            return LatentContext(log_prior)

        assert isinstance(memory.latent, Gaussians) and memory.latent.variance is not None
        log_weights = log_prior
        if self.single:
            log_weights = relax(log_prior, noise.gumbel, self.temperature)

        weights = log_weights.exp()
        variance = torch.einsum("bm,bmd->bd", weights**2, memory.latent.variance)
        shift = variance.sqrt() * noise.normal

        return LatentContext(log_weights, shift, self.divergence(log_prior, memory.latent))

    def divergence(self, log_prior: Tensor, latent: Gaussians) -> Tensor | None:
        """Estimate the weighted KL from N(0, I) of the mixture with log weights (B, m): (B,) nats.

        None where nothing was drawn for it.
        """
        if latent.log_ratios is None:
            return None

        log_ratio = torch.logsumexp(log_prior[:, None] + latent.log_ratios, dim=2)
        return self.weight * (log_prior.exp() * log_ratio).sum(1)


def _log_ratios(values: Tensor, log_variance: Tensor) -> Tensor:
    """Draw c_a around each h_a and return log N(c_a; h_b, sigma_b^2) - log N(c_a; 0, I).

    (B, m, m), by a and b.
    """
    wide = torch.promote_types(values.dtype, torch.float32)
    values = values.to(wide)
    log_variance = log_variance.to(wide)

    # Sums over hundreds of dimensions, whose differences count: not in bfloat16.
    with torch.autocast(values.device.type, enabled=False):
        precision = torch.exp(-log_variance)
        drawn = values + torch.exp(log_variance / 2) * torch.randn_like(values)

        # (c_a - h_b)^2 / sigma_b^2, multiplied out: products of matrices, not (B, m, m, D).
        squares = drawn**2 @ precision.mT - 2 * drawn @ (values * precision).mT
        of_component = (values**2 * precision + log_variance).sum(2)
        of_prior = (drawn**2).sum(2)

        return (of_prior[:, :, None] - squares - of_component[:, None]) / 2


class Ved(Latent):
    """xi ~ N(mu(x), diag sigma^2(x)) next to soft attention, with the prior N(0, I).

    This is the model of Bahuleyan et al. (2018), as 'Amortized Context Vector Inference' describes
    it. mu and log sigma^2 are linear in the encoder's final states. xi is fed to the output layer
    at each step with the context: W_xi xi is added to the readout's view of the query. Training
    maximizes

        sum_t log p(y_t | s_t, c_t, xi) - KL(N(mu, sigma^2) || N(0, I))

    at a draw of xi. Without a draw xi is its mean.

    xi has 100 dimensions in that paper's experiments with captions, 128 in summarization.
    """

    draws = False  # nothing of a step is drawn
    weight: float

    def __init__(self, options: options.Ved, sizes: Sizes) -> None:
        super().__init__()
        self.samples = options.samples
        self.follow("weight", options.weight)
        self.of_final = nn.Linear(sizes.values, 2 * options.size)
        self.of_latent = nn.Linear(options.size, sizes.query, bias=False)

    def of_sentence(self, values: Tensor, final: Tensor) -> SentenceLatent:
        mean, log_variance = self.of_final(final).chunk(2, dim=1)

        latent = mean
        cost = None
        if self.training or self.sampling:
            latent = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
            divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1) / 2
            cost = self.weight * divergence

        return SentenceLatent(readout_shift=self.of_latent(latent), cost=cost)
