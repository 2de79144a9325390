"""Variational attention: inference networks, and estimators of a bound's expectation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.data.vocabulary import PAD
from pam.models import options
from pam.models.interfaces import Embed, Estimator, Inference, Sizes, is_off
from pam.models.logspace import draw, masked_log_softmax, relax
from pam.models.lstm import lstms, run_lstms
from pam.models.outputs import TokenDistribution
from pam.models.scores import scale_of


class NoInference(Inference):
    """There is no q: the likelihood itself is trained."""

    infers = False

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *embed: Embed) -> None:
        return None


class PriorInference(NoInference):
    """q_t = prior_t, so that the bound is Jensen's, E_prior[log p(y_t | s_t, h_a)] (Xu et al. 2015;
    Orlova et al., section 2, hard attention).
    """

    infers = True


class _Reader(nn.Module):
    """One bidirectional LSTM: inputs (T, B, E) of `lengths` (B,) to states (B, T, 2 units)."""

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
    """q_t(a | x, y) = softmax_a(g_t^T W u_a): u reads the source, g the target, both ways.

    Of the model it shares the embeddings and nothing else (Deng et al. 2018; Orlova et al., section
    3). Dropout is where the encoder has it, at the encoder's rate. With `scale`, scores are divided
    by the root of g_t's units, as those of the score `general`.
    """

    def __init__(self, options: options.BiLSTM, sizes: Sizes) -> None:
        super().__init__()
        units, layers = options.units or sizes.direction, options.layers or sizes.layers
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
        of_source = self.source(embed_source(source.transpose(0, 1)), lengths)  # (B, m, 2 units)
        of_target = self.target(embed_target(target.t()), (target != PAD).sum(1))
        queries = self.weight(of_target) * self.factor
        scores = torch.bmm(queries, of_source.transpose(1, 2))  # (B, T, m)
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return masked_log_softmax(scores, mask[:, None])


class Exact(Estimator):
    """sum_a q(a) log p(y_t | s_t, h_a) (Deng et al. 2018; Orlova et al., exact ELBO)."""

    draws = False

    def forward(self, output: TokenDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        return output.expected_log_prob(log_q.exp(), symbols)


class Gumbel(Estimator):
    """log p(y_t | s_t, sum_a w(a) h_a) of Gumbel-Softmax weights w drawn from q (Jang et al. 2017).

    The context lies between encoder states, so that value and gradient are biased, less so the
    lower the temperature, at which their variance grows. Orlova et al. (section 2) name it and did
    not try it; the default temperature is that of Amortized Context Vector Inference.
    """

    temperature: float

    def __init__(self, options: options.Gumbel, sizes: Sizes) -> None:
        super().__init__()
        self.follow("temperature", options.temperature)

    def forward(self, output: TokenDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        assert output.attention.gumbel is not None
        weights = relax(log_q, output.attention.gumbel, self.temperature).exp()
        return output.at(weights).log_prob(symbols)


class Reinforce(Estimator):
    """log p(y_t | s_t, h_a) of one a drawn from q (Williams 1992; Orlova et al., section 2).

    Its gradient is that of the drawn term, plus (log p(y_t | s_t, h_a) - B) times the gradient of
    log q(a): for any baseline B that does not depend on a, its mean is the enumerated gradient.
    `baseline` is `soft`: log p under soft attention, from the prior's mean context (Deng et al.
    2018); `moving`: a moving average of log p(y_t | s_t, h_a) (Xu et al. 2015), with `decay` per
    step of training; or `none`:
    0.

    Two more of Xu et al.'s ways (section 4.2.1) steady a training, and make its gradient another
    objective's: a share `expected` of the symbols, chosen at random, have log p(y_t | s_t, sum_a
    q(a) h_a) and its plain gradient in place of the drawn term; and `entropy` times the entropy of
    q is added. They choose images for the former, with a half.
    """

    average: Tensor
    expected: float
    entropy: float

    def __init__(self, options: options.Reinforce, sizes: Sizes) -> None:
        super().__init__()
        self.baseline, self.decay = options.baseline, options.decay
        self.follow("expected", options.expected)
        self.follow("entropy", options.entropy)
        self.register_buffer("average", torch.zeros(()))

    def forward(self, output: TokenDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        assert output.attention.gumbel is not None
        position = draw(log_q.detach(), output.attention.gumbel)
        drawn = torch.ones_like(log_q[:, 0])
        if self.training and not is_off(self.expected):
            drawn = (torch.rand_like(drawn) >= self.expected).to(drawn)
            position = torch.where(drawn[:, None] > 0, position, log_q.exp())
        likelihood = output.at(position).log_prob(symbols)
        log_chosen = (log_q * position.detach()).sum(1) * drawn
        with torch.no_grad():
            if self.baseline == "soft":
                baseline = output.at(output.attention.prior).log_prob(symbols)
            else:
                baseline = self._mean_reward(likelihood, symbols != PAD)
            reward = likelihood - baseline
        # The second term is zero, and so is not its gradient.
        value = likelihood + reward * (log_chosen - log_chosen.detach())
        if self.training and not is_off(self.entropy):
            value = value - self.entropy * (log_q.exp() * log_q).sum(1)
        return value

    def _mean_reward(self, likelihood: Tensor, counts: Tensor) -> Tensor:
        """The moving average of log p (N,) of tokens that count (N,) before this step, or 0."""
        if self.baseline == "none":
            return torch.zeros_like(likelihood)
        before = self.average.to(likelihood)
        if self.training:
            mean = torch.where(counts, likelihood, 0.0).sum() / counts.sum()
            self.average.mul_(self.decay).add_((1 - self.decay) * mean)
        return before
