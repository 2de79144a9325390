"""The interfaces that the components implement, and what passes between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.models.memory import Memory, Noise, Past
from pam.models.readout import Gold, Readout

Embed = Callable[[Tensor], Tensor]

Hidden = tuple[tuple[Tensor, Tensor], ...]
"""The recurrence's state: per layer (h, c), each (B, H)."""


@dataclass(frozen=True)
class Attention:
    """What a step attends to, before its symbol is chosen.

    Attributes:
        query: (B, H) s_t.
        viewed: (B, R) the readout's view of it, and of what the latent adds to the context.
        log_prior: (B, m).
        hidden: the recurrence's new state.
        drawn: (B, m) the one position that is fed back, or None.
        shift: (B, D) what the latent adds to the context, or None.
        cost: (B,) nats that the objective pays for that, or None.
        gumbel: (B, m) the noise of the step, or None.
    """

    query: Tensor
    viewed: Tensor
    log_prior: Tensor
    hidden: Hidden
    drawn: Tensor | None = None
    shift: Tensor | None = None
    cost: Tensor | None = None
    gumbel: Tensor | None = None

    def select(self, rows: Tensor) -> Attention:
        """The attention of the given hypotheses."""
        optional = (self.drawn, self.shift, self.cost, self.gumbel)
        return Attention(
            self.query[rows],
            self.viewed[rows],
            self.log_prior[rows],
            tuple((h[rows], c[rows]) for h, c in self.hidden),
            *(None if part is None else part[rows] for part in optional),
        )


class Score(nn.Module, ABC):
    """e_t(a): how well position a fits the query."""

    @abstractmethod
    def keys(self, values: Tensor) -> Tensor:
        """What is computed once per sentence: (B, m, D) to (B, m, .)."""

    @abstractmethod
    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        """Scores of queries (B, H): (B, m), finite, without meaning where the mask is false."""

    def cost(self, memory: Memory, summed: Tensor) -> Tensor | None:
        """(B,) nats that the objective pays for what was attended in all, (B, m); None: nothing."""
        return None


class Distribution(nn.Module, ABC):
    """Scores to an alignment distribution."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Log probabilities: (..., m) to (..., m); `logspace.ZERO` where the mask is false."""


class Window(nn.Module, ABC):
    """The positions that a step considers at all."""

    @abstractmethod
    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, past: Past
    ) -> tuple[Tensor, Tensor]:
        """Scores (B, m) as the window weighs them, and the mask (B, m) of what it shows: at least
        one position of each row. `query` is (B, H), `mask` (B, m)."""


class Coupling(nn.Module, ABC):
    """The prior over positions, given the alignment of the previous step."""

    @abstractmethod
    def forward(
        self, scores: Tensor, previous: Tensor | None, mask: Tensor, distribution: Distribution
    ) -> Tensor:
        """log prior_t.

        Args:
            scores: e_t, (B, m).
            previous: alignment handed on by the last step, (B, m); None at the first step.
            mask: (B, m).
            distribution: what turns scores into log probabilities.

        Returns:
            (B, m), log probabilities that sum to one over real positions.
        """

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """The alignments (B, n, m) handed on, as the whole target makes them: where steps depend on
        one another, later ones tell of those before. `lengths` (B,) of the targets."""
        return alignments


@dataclass(frozen=True)
class Glimpse:
    """A context as a latent variable, drawn.

    Attributes:
        log_weights: (B, m) of the encoder states in it.
        shift: (B, D) what is added to their sum. cost: (B,) nats that the objective pays.
    """

    log_weights: Tensor
    shift: Tensor | None = None
    cost: Tensor | None = None


class Latent(nn.Module, ABC):
    """Latent vectors besides the alignment, drawn in training."""

    draws = True
    """Whether a step draws anything."""

    sampling = False
    """Whether vectors are drawn at test time too, where they are their means otherwise."""

    samples = 1
    """Draws of everything by which training estimates the objective of a sentence."""

    share = 0.0
    """How much of the training is done, from 0 to 1, told by the training loop."""

    def of_sentence(self, memory: Memory, final: Tensor) -> Memory:
        """The memory (B, .) with what a latent vector of the sentence adds to it.

        Args:
            final: (B, D) the encoder's final states.
        """
        return memory

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> Glimpse:
        """The context of a step with log prior (B, m); its mean without noise."""
        return Glimpse(log_prior)


@dataclass(frozen=True)
class Marginal:
    """The outcome of summing out the position.

    Attributes:
        log_probs: (B, V) log p(y_t | y_<t, x).
        positions: (B, m, V) log p(y_t | s_t, h_a), where positions are summed out at the output.
        weights: (B, m) log weight of each position in that sum.
        truncated: (B,) true where that sum leaves out positions of the sentence.
    """

    log_probs: Tensor
    positions: Tensor | None = None
    weights: Tensor | None = None
    truncated: Tensor | None = None

    def select(self, rows: Tensor) -> Marginal:
        """The marginal of the given hypotheses."""
        parts = (self.positions, self.weights, self.truncated)
        return Marginal(
            self.log_probs[rows], *(None if part is None else part[rows] for part in parts)
        )


class Marginalization(nn.Module, ABC):
    """Where the position is summed out."""

    gives_positions = False
    """Whether it computes p(y | s, h_a) of every position."""

    needs_inference = False
    """Whether its objective is a bound, by alignments that an inference network gives."""

    @abstractmethod
    def forward(self, attention: Attention, memory: Memory, readout: Readout) -> Marginal:
        """p(y_t | y_<t, x)."""


class Inference(nn.Module, ABC):
    """q_t(a | x, y): alignments given the whole target, known in training alone."""

    infers = True
    """Whether there is such a distribution."""

    @abstractmethod
    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        embed_source: Embed,
        embed_target: Embed,
    ) -> Tensor | None:
        """log q.

        Args:
            source: (B, m) symbols, padded at the end; lengths: (B,).
            target: (B, n) symbols y_1 .. y_n, padded at the end.
            embed_source, embed_target: the model's own embeddings, symbols (...,) to (..., E).

        Returns:
            (B, n, m), `logspace.ZERO` at padded source positions, without meaning at padded
            target positions; None if there is no such distribution, or if it is the prior.
        """


class Estimator(nn.Module, ABC):
    """How a bound's expectation of log p(y_t | s_t, h_a) is computed, and its gradient."""

    draws = True
    """Whether it draws positions."""

    @abstractmethod
    def forward(
        self, gold: Gold, log_q: Tensor, log_prior: Tensor, gumbel: Tensor | None
    ) -> Tensor:
        """E_q[log p(y_t | s_t, h_a)] or an estimate of it, (B,).

        Args:
            gold: what the readout says of y_t.
            log_q, log_prior: (B, m).
            gumbel: (B, m) standard Gumbel noise; None if nothing is drawn.
        """


class Feedback(nn.Module, ABC):
    """Which alignment feeds the next state (and the next coupling)."""

    needs_positions = False
    """Whether the marginal must provide p(y | s, h_a) of every position."""

    draws = False
    """Whether a position is drawn from the prior, in training."""

    feeds = True
    """Whether a context is fed to the next state at all."""

    def first(self, memory: Memory) -> Tensor | None:
        """The alignment before the first output (B, m), or None: an empty context."""
        return None

    def draw(self, log_prior: Tensor, gumbel: Tensor | None) -> Tensor | None:
        """The one position (B, m) that is fed back, if it is one; without noise, the best."""
        return None

    @abstractmethod
    def forward(
        self, attention: Attention, marginal: Marginal | None, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        """The alignment handed on: (B, m), given the symbol y_t (B,) that was written.

        Args:
            marginal: None is allowed unless `needs_positions`.
        """


def log_likelihood(marginal: Marginal, symbol: Tensor) -> Tensor:
    """log p(y_t | y_<t, x) of symbols (B,): (B,)."""
    return torch.gather(marginal.log_probs, 1, symbol[:, None]).squeeze(1)
