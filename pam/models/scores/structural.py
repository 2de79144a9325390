"""Score with features of the alignment's structure: place, previous alignment, fertility."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.models.memory import Memory, Past
from pam.models.readout import tanh
from pam.models.scores.mlp import Mlp
from pam.models.sizes import Sizes, check_flag, check_number, check_size


class Structural(Mlp):
    """e_t(a) = v^T tanh(W s_t + U h_a + P psi + M xi_1 + F xi_2) (Cohn et al. 2016, section 3).

        psi  = [log(1 + t), log(1 + a), log(1 + m)], counted from 1      place
        xi_1 = [alignment_{t-1}(a - k .. a + k)]                         Markov window
        xi_2 = [sum_{t' < t} alignment_{t'}(a - k .. a + k)]             local fertility

    What lies outside the sentence, and all before the first step, is 0. Global fertility adds
    weight * log N(f_a; mu(h_a), sigma^2(h_a)) to the objective, with f_a the attention that a real
    position has got in all, mu = softplus(w . h_a + b) and sigma^2 = exp(w' . h_a + b') + least. As
    published, least is 0, and the density is without bound: what is most rewarded is attention
    whose sums can be told in advance, such as the same attention at every step.

    Args:
        units: of the hidden layer. None: as many as the decoder has.
        place: whether the score sees psi.
        markov: k of the Markov window; None: none.
        fertility: k of local fertility; None: none.
        global_fertility: weight of the Gaussian in training; 0: none.
        least_variance: of that Gaussian, `least` above.
    """

    def __init__(
        self,
        sizes: Sizes,
        units: int | None = None,
        place: bool = True,
        markov: int | None = 1,
        fertility: int | None = 1,
        global_fertility: float = 0.0,
        least_variance: float = 0.0,
    ) -> None:
        super().__init__(sizes, units)
        units = units or sizes.query
        check_flag("score option `place`", place)
        check_size("score option `markov`", markov, null="none")
        check_size("score option `fertility`", fertility, null="none")
        self.penalty = check_number("score option `global_fertility`", global_fertility)
        self.least = check_number("score option `least_variance`", least_variance)
        self.of_place = nn.Linear(3, units, bias=False) if place else None
        self.of_previous = _window(markov, units)
        self.of_sum = _window(fertility, units)
        self.gaussian = nn.Linear(sizes.values, 2) if self.penalty else None

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        hidden = memory.keys + self.of_query(query)[:, None]
        if self.of_place is not None:
            hidden = hidden + self.of_place(places(memory, past).to(hidden.dtype))
        for window, seen in ((self.of_previous, past.alignment), (self.of_sum, past.summed)):
            if window is not None and seen is not None:
                hidden = hidden + window(seen[:, None]).transpose(1, 2)
        scores: Tensor = self.weight(tanh(hidden))
        return scores.squeeze(2)

    def cost(self, memory: Memory, summed: Tensor) -> Tensor | None:
        if self.gaussian is None:
            return None
        mean, log_variance = self.gaussian(memory.values).unbind(2)
        if self.least:
            log_variance = F.softplus(log_variance - math.log(self.least)) + math.log(self.least)
        square = (summed - F.softplus(mean)) ** 2 * torch.exp(-log_variance)
        log_density = -(square + log_variance + math.log(2 * math.pi)) / 2
        total: Tensor = (log_density * memory.mask).sum(1)
        return -self.penalty * total


def places(memory: Memory, past: Past) -> Tensor:
    """psi, (B, m, 3)."""
    mask = memory.mask
    position = torch.arange(1, mask.shape[1] + 1, device=mask.device).expand_as(mask)
    length = mask.sum(1, keepdim=True).expand_as(position)
    step = torch.full_like(position, past.steps + 1)
    return torch.log1p(torch.stack([step, position, length], 2).double())


def _window(half: int | None, units: int) -> nn.Conv1d | None:
    if half is None:
        return None
    return nn.Conv1d(1, units, 2 * half + 1, padding=half, bias=False)


COMPONENT = Structural
