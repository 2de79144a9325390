"""Scores e_t(a): how well a source position fits the decoder's query."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.models import options
from pam.models.interfaces import AttentionHistory, Memory, Score, Sizes
from pam.models.kernels.additive import additive
from pam.models.kernels.source import SourceMatrix
from pam.models.logspace import ZERO


def scale_of(scale: bool, units: int) -> float:
    """Return the factor of a product over `units` numbers: 1 / sqrt(units) if `scale`, else 1."""
    if not scale:
        return 1.0
    factor: float = units**-0.5
    return factor


class General(Score):
    """e_t(a) = s_t^T W h_a (Luong et al. 2015, equation 8, `general`).

    With `scale`, the default, scores are divided by the root of the decoder's units, as Vaswani et
    al. (2017, equation 1) do with dot products. Adam moves each entry of W by about the learning
    rate, so the change of e in one step grows with the number of units. Without the division, at
    256 units, all attention is on one word of each sentence within 25 steps, before anything is
    learned.

    With `learned_scale` they are multiplied by a parameter g, 1 at first: the `scaled_luong` of
    TensorFlow and of the release of Shankar and Sarawagi, which has no division.
    """

    def __init__(self, options: options.General, sizes: Sizes) -> None:
        super().__init__()

        self.factor = scale_of(options.scale, sizes.query)
        self.learned_factor: nn.Parameter | None = None
        # Options of a package elsewhere may have `scale` alone.
        if getattr(options, "learned_scale", False):
            self.learned_factor = nn.Parameter(torch.ones(()))
        self.weight = nn.Linear(sizes.values, sizes.query, bias=False)

    def keys(self, values: Tensor) -> SourceMatrix:
        # Autocast may have changed the type of the product; steps multiply in that of their states.
        keys = self.weight(values) * self.factor
        if self.learned_factor is not None:
            keys = keys * self.learned_factor
        return SourceMatrix(keys.to(values.dtype))

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        scores: Tensor = memory.keys.scores(query)
        return scores


class Dot(Score):
    """e_t(a) = s_t . h_a (Luong et al. 2015, equation 8, `dot`).

    It has no parameters, so decoder and encoder states need the same number of units. With `scale`,
    scores are divided by the root of that number.
    """

    def __init__(self, options: options.Dot, sizes: Sizes) -> None:
        super().__init__()
        self.factor = scale_of(options.scale, sizes.query)

    def keys(self, values: Tensor) -> SourceMatrix:
        return SourceMatrix(values * self.factor)

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        scores: Tensor = memory.keys.scores(query)
        return scores


class Mlp(Score):
    """e_t(a) = v^T tanh(W s_t + U h_a) (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(
        self,
        options: options.Mlp | options.Concat | options.Structural | options.Coverage,
        sizes: Sizes,
    ) -> None:
        super().__init__()

        self.units = options.units or sizes.query
        self.of_query = nn.Linear(sizes.query, self.units, bias=False)
        self.of_values = nn.Linear(sizes.values, self.units, bias=False)
        self.weight = nn.Linear(self.units, 1, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.of_values(values)
        return keys

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        return additive(memory.keys, self.of_query(query), self.weight.weight.squeeze(0))


class Concat(Mlp):
    """e_t(a) = v^T tanh(W [s_t; h_a]) (Luong et al. 2015, equation 8, `concat`).

    The two halves of W are the two matrices of `mlp`, so this is the same function under the name
    that Luong et al. give it.
    """


class Location(Score):
    """e_t = W s_t, row a of W for position a (Luong et al. 2015, equation 7).

    As in the paper, a short sentence uses the first rows of W, and words past position `longest`
    are ignored.
    """

    def __init__(self, options: options.Location, sizes: Sizes) -> None:
        super().__init__()
        self.weight = nn.Linear(sizes.query, options.longest, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        return values[..., :0]

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        length = memory.mask.shape[1]
        scores: Tensor = self.weight(query)[:, :length]

        # Positions past `longest` have no row of W.
        return F.pad(scores, (0, length - scores.shape[1]), value=ZERO)


class NoScore(Score):
    """e_t(a) = 0, for couplings that determine the alignment by themselves."""

    def keys(self, values: Tensor) -> Tensor:
        return values[..., :0]

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        return query.new_zeros(memory.mask.shape)


class Structural(Mlp):
    """e_t(a) = v^T tanh(W s_t + U h_a + P psi + M xi_1 + F xi_2) (Cohn et al. 2016, section 3).

        psi  = [log(1 + t), log(1 + a), log(1 + m)], counted from 1      `place`
        xi_1 = [alignment_{t-1}(a - k .. a + k)]                         `markov`
        xi_2 = [sum_{t' < t} alignment_{t'}(a - k .. a + k)]             `fertility`

    The options on the right turn the features on; those of windows are their half width k.
    Alignments outside the sentence and before the first step count as 0.

    Global fertility adds weight * log N(f_a; mu(h_a), sigma^2(h_a)) to the objective. f_a is the
    total attention that a real position has received, mu = softplus(w . h_a + b) and sigma^2 =
    exp(w' . h_a + b') + least. As published, least is 0, and the density is unbounded: it rewards
    most the attention whose sums are predictable, such as the same attention at every step.
    """

    reads_history = True
    penalty: float

    def __init__(self, options: options.Structural, sizes: Sizes) -> None:
        super().__init__(options, sizes)
        self.follow("penalty", options.global_fertility)
        self.least = options.least_variance

        self.of_place: nn.Linear | None = None
        if options.place:
            self.of_place = nn.Linear(3, self.units, bias=False)
        self.of_previous = _window(options.markov, self.units)
        self.of_sum = _window(options.fertility, self.units)

        self.gaussian: nn.Linear | None = None
        if options.global_fertility:
            self.gaussian = nn.Linear(sizes.values, 2)
        self.costs = self.gaussian is not None

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        features = []
        weights = []

        # P psi
        if self.of_place is not None:
            features.append(position_features(memory, history).to(query.dtype))
            weights.append(self.of_place.weight.t())
        # M xi_1
        if self.of_previous is not None and history.alignment is not None:
            features.append(_windows(history.alignment, self.of_previous))
            weights.append(self.of_previous.weight.squeeze(1).t())
        # F xi_2
        if self.of_sum is not None and history.summed is not None:
            features.append(_windows(history.summed, self.of_sum))
            weights.append(self.of_sum.weight.squeeze(1).t())

        vector = self.weight.weight.squeeze(0)
        if not features:
            return additive(memory.keys, self.of_query(query), vector)
        return additive(
            memory.keys,
            self.of_query(query),
            vector,
            features=torch.cat(features, 2),
            weight=torch.cat(weights),
        )

    def cost(self, memory: Memory, prior: Tensor, alignment: Tensor) -> Tensor | None:
        if self.gaussian is None:
            return None

        fertility = alignment.sum(0)
        mean, log_variance = self.gaussian(memory.values).unbind(2)
        if self.least:
            # The log of exp(log_variance) + least.
            log_least = math.log(self.least)
            log_variance = F.softplus(log_variance - log_least) + log_least

        square = (fertility - F.softplus(mean)) ** 2 * torch.exp(-log_variance)
        log_density = -(square + log_variance + math.log(2 * math.pi)) / 2

        total: Tensor = (log_density * memory.mask).sum(1)
        return -self.penalty * total


class Coverage(Mlp):
    """e_t(a) = v^T tanh(W s_t + U h_a + w k_t(a) + b) with coverage k_t(a).

    Coverage is the attention so far, k_t(a) = sum_{t' < t} alignment_{t'}(a) (See et al. 2017,
    equations 10 and 11; 'Amortized Context Vector Inference', equations 7 and 8).

    The objective pays weight * sum_t sum_a min(prior_t(a), k_t(a)) nats (See et al., equation 12;
    'Amortized Context Vector Inference', equation 9). Both w and the weight are multiplied by
    `active`. The papers add coverage to a trained model: a schedule that is 0 until then does so.
    """

    costs = True
    reads_history = True
    active: float
    penalty: float

    def __init__(self, options: options.Coverage, sizes: Sizes) -> None:
        super().__init__(options, sizes)

        self.follow("active", options.active)
        self.follow("penalty", options.weight)
        self.of_sum = nn.Linear(1, self.units)

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        shifted_query = self.of_query(query) + self.of_sum.bias
        vector = self.weight.weight.squeeze(0)
        if history.summed is None:
            return additive(memory.keys, shifted_query, vector)

        coverage = self.active * history.summed
        return additive(
            memory.keys,
            shifted_query,
            vector,
            features=coverage[:, :, None],
            weight=self.of_sum.weight.t(),
        )

    def cost(self, memory: Memory, prior: Tensor, alignment: Tensor) -> Tensor | None:
        # Coverage before each step.
        coverage = alignment.cumsum(0) - alignment
        return self.active * self.penalty * torch.minimum(prior, coverage).sum((0, 2))


def position_features(memory: Memory, history: AttentionHistory) -> Tensor:
    """Return psi = [log(1 + t), log(1 + a), log(1 + m)], (B, m, 3), counted from 1."""
    mask = memory.mask
    position = torch.arange(1, mask.shape[1] + 1, device=mask.device).expand_as(mask)
    length = mask.sum(1, keepdim=True).expand_as(position)
    step = torch.full_like(position, history.steps + 1)

    return torch.log1p(torch.stack([step, position, length], 2).double())


def _window(half_width: int | None, units: int) -> nn.Conv1d | None:
    """Build the features of alignments up to `half_width` positions away; None: no features."""
    if half_width is None:
        return None
    return nn.Conv1d(1, units, 2 * half_width + 1, padding=half_width, bias=False)


def _windows(alignment: Tensor, weight: nn.Conv1d) -> Tensor:
    """Return what each position and those around it got, (B, m, 2 k + 1), of (B, m)."""
    (size,) = weight.kernel_size
    half_width = size // 2
    return F.pad(alignment, (half_width, half_width)).unfold(1, size, 1)
