"""A latent vector for the sentence: the variational encoder-decoder."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from pam.models.memory import Memory
from pam.models.parts import Latent
from pam.models.sizes import Sizes, check_number, check_size


class Ved(Latent):
    """xi ~ N(mu(x), diag sigma^2(x)) beside soft attention (Bahuleyan et al. 2018, as 'Amortized
    Context Vector Inference' describes it), with the prior N(0, I).

    mu and log sigma^2 are linear in the encoder's final states. xi is fed to the output layer at
    each step, beside the context: W_xi xi is added to the readout's view of every encoder state,
    which, as weights of positions sum to one, adds it to that of every context. Training maximizes
    sum_t log p(y_t | s_t, c_t, xi) - KL(N(mu, sigma^2) || N(0, I)) at a draw of xi; without a draw
    xi is its mean.

    Args:
        size: dimensions of xi; 100 in that paper's experiments with captions, 128 in summarization.
        samples: draws of a whole sentence over which the objective is averaged.
        weight: of the divergence.
    """

    draws = False  # nothing of a step is drawn

    def __init__(
        self, sizes: Sizes, size: int = 100, samples: int = 1, weight: float = 1.0
    ) -> None:
        super().__init__()
        check_size("latent option `size`", size)
        check_size("latent option `samples`", samples, most=1000)
        self.samples = samples
        self.weight = check_number("latent option `weight`", weight)
        self.of_final = nn.Linear(sizes.values, 2 * size)
        self.of_latent = nn.Linear(size, sizes.query, bias=False)

    def of_sentence(self, memory: Memory, final: Tensor) -> Memory:
        mean, log_variance = self.of_final(final).chunk(2, dim=1)
        latent, cost = mean, None
        if self.training or self.sampling:
            latent = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
            divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1) / 2
            cost = self.weight * divergence
        view = self.of_latent(latent)
        return replace(memory, readout=memory.readout + view[:, None], cost=cost)


COMPONENT = Ved
