"""Variational attention: inference networks, and estimators of the expectation in a bound."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.data.vocabulary import PAD
from pam.models import options
from pam.models.interfaces import Embed, Estimator, Inference, Sizes, is_off
from pam.models.logspace import draw, masked_log_softmax, relax
from pam.models.lstm import lstms, run_lstms
from pam.models.outputs import PositionDistribution
from pam.models.scores import scale_of


class NoInference(Inference):
    """No distribution q: the likelihood itself is trained."""

    infers = False

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *embed: Embed) -> None:
        return None


class PriorInference(NoInference):
    """q_t = prior_t, which makes the bound Jensen's: E_prior[log p(y_t | s_t, h_a)].

    It is the objective of hard attention (Xu et al. 2015; Orlova et al., section 2).
    """

    infers = True


class _Reader(nn.Module):
    """A bidirectional LSTM, from inputs (T, B, E) of `lengths` (B,) to states (B, T, 2 units)."""

    def __init__(self, size: int, units: int, layers: int, rate: float) -> None:
        super().__init__()

        self.forwards = lstms(size, units, layers, 2 * units)
        self.backwards = lstms(size, units, layers, 2 * units)
        self.rate = rate

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        rate = self.rate if self.training else 0.0
        states, _ = run_lstms(self.forwards, self.backwards, inputs, lengths, rate)
        return states


class BiLSTM(Inference):
    """q_t(a | x, y) = softmax_a(g_t^T W u_a); u reads the source and g the target, both ways.

    It shares the embeddings with the model and nothing else (Deng et al. 2018; Orlova et al.,
    section 3). Dropout is where the encoder has it, at the encoder's rate. With `scale`, scores are
    divided by the root of the units of g_t, as in the score `general`.
    """

    def __init__(self, options: options.BiLSTM, sizes: Sizes) -> None:
        super().__init__()
        units = options.units or sizes.direction
        layers = options.layers or sizes.layers

        self.source = _Reader(sizes.embedding, units, layers, sizes.rate)
        self.target = _Reader(sizes.embedding, units, layers, sizes.rate)

        self.weight = nn.Linear(2 * units, 2 * units, bias=False)
        self.factor = scale_of(options.scale, 2 * units)

    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        embed_source: Embed,
        embed_target: Embed,
    ) -> Tensor:
        source_states = self.source(embed_source(source.transpose(0, 1)), lengths)
        target_states = self.target(embed_target(target.t()), (target != PAD).sum(1))

        queries = self.weight(target_states) * self.factor  # (B, T, 2 units)
        scores = torch.bmm(queries, source_states.transpose(1, 2))  # (B, T, m)
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return masked_log_softmax(scores, mask[:, None])


class Exact(Estimator):
    """sum_a q(a) log p(y_t | s_t, h_a) (Deng et al. 2018; Orlova et al., exact ELBO)."""

    draws = False

    def forward(self, output: PositionDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        return output.expected_log_prob(log_q.exp(), symbols)


class Gumbel(Estimator):
    """log p(y_t | s_t, sum_a w(a) h_a) of Gumbel-Softmax weights w drawn from q (Jang et al. 2017).

    The context lies between encoder states, so value and gradient are biased. A lower temperature
    means less bias and more variance. Orlova et al. (section 2) mention this estimator and did not
    try it; the default temperature is that of 'Amortized Context Vector Inference'.
    """

    temperature: float

    def __init__(self, options: options.Gumbel, sizes: Sizes) -> None:
        super().__init__()
        self.follow("temperature", options.temperature)

    def forward(self, output: PositionDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        assert output.attention.gumbel is not None

        weights = relax(log_q, output.attention.gumbel, self.temperature).exp()
        return output.at(weights).log_prob(symbols)


class Reinforce(Estimator):
    """log p(y_t | s_t, h_a) of one a drawn from q (Williams 1992; Orlova et al., section 2).

    Its gradient is that of the drawn term, plus (log p(y_t | s_t, h_a) - B) times the gradient of
    log q(a). For any baseline B that does not depend on a, the mean of this gradient is the exact
    one. The option `baseline` chooses B:

    - `soft`: log p under soft attention, from the prior's mean context (Deng et al. 2018);
    - `moving`: a moving average of log p(y_t | s_t, h_a) (Xu et al. 2015), with `decay` per step of
      training;
    - `none`: 0.

    Two more devices of Xu et al. (section 4.2.1) stabilize training, and change its objective. A
    share `expected` of the symbols, chosen at random, has log p(y_t | s_t, sum_a q(a) h_a) and its
    plain gradient in place of the drawn term; Xu et al. choose half of the images. And `entropy`
    times the entropy of q is added.
    """

    average: Tensor
    expected: float
    entropy: float

    def __init__(self, options: options.Reinforce, sizes: Sizes) -> None:
        super().__init__()

        self.baseline = options.baseline
        self.decay = options.decay
        self.follow("expected", options.expected)
        self.follow("entropy", options.entropy)
        self.register_buffer("average", torch.zeros(()))

    def forward(self, output: PositionDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        assert output.attention.gumbel is not None
        weights = draw(log_q.detach(), output.attention.gumbel)
        is_drawn = torch.ones_like(log_q[:, 0])

        # In training some symbols read the expected context in place of a drawn one.
        if self.training and not is_off(self.expected):
            is_drawn = (torch.rand_like(is_drawn) >= self.expected).to(is_drawn)
            weights = torch.where(is_drawn[:, None] > 0, weights, log_q.exp())

        log_prob = output.at(weights).log_prob(symbols)

        with torch.no_grad():
            if self.baseline == "soft":
                baseline = output.at(output.attention.prior).log_prob(symbols)
            else:
                baseline = self._mean_reward(log_prob, is_real=symbols != PAD)
            reward = log_prob - baseline

        # The second term has the value zero, and the gradient of REINFORCE.
        log_q_drawn = (log_q * weights.detach()).sum(1) * is_drawn
        value = log_prob + reward * (log_q_drawn - log_q_drawn.detach())

        if self.training and not is_off(self.entropy):
            value = value - self.entropy * (log_q.exp() * log_q).sum(1)
        return value

    def _mean_reward(self, log_prob: Tensor, is_real: Tensor) -> Tensor:
        """Return the moving average of log p before this step, or 0; training updates it.

        `log_prob` (N,) is that of the step's tokens, of which those in the mask `is_real` (N,)
        count.
        """
        if self.baseline == "none":
            return torch.zeros_like(log_prob)

        # A copy: the average that is updated below has the reward of this step in it.
        average = self.average.to(log_prob, copy=True)
        if self.training:
            mean = torch.where(is_real, log_prob, 0.0).sum() / is_real.sum()
            self.average.mul_(self.decay).add_((1 - self.decay) * mean)
        return average
