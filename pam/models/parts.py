"""The interfaces that the choices implement, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.config import LARGEST
from pam.errors import UserError

Embed = Callable[[Tensor], Tensor]


def check_size(option: str, value: object, null: str | None = None, most: int = LARGEST) -> None:
    """Checks the option of a component that says how many units, layers or places it has.

    Args:
        option: which, for the message.
        null: what None stands for, where it is allowed.

    Raises:
        UserError: not a whole number from 1 to `most`.
    """
    if value is None and null is not None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        either = "" if null is None else f", or null for {null}"
        raise UserError(
            f"{option} is {value!r}", remedy=f"use a whole number from 1 to {most}{either}"
        )


@dataclass(frozen=True)
class Sizes:
    """What a component needs to know to make its parameters.

    Attributes:
        query: units H of the decoder state s_t.
        values: units D of an encoder state h_a (both directions).
        embedding: units E of an embedding, of a source or a target symbol.
        layers: layers of the encoder.
        rate: dropout rate.
    """

    query: int
    values: int
    embedding: int
    layers: int
    rate: float


@dataclass(frozen=True)
class Memory:
    """A batch of encoded sources, with what is computed once per sentence.

    Attributes:
        values: (B, m, D) encoder states h_a.
        mask: (B, m) true at real positions.
        keys: (B, m, .) the score's view of the values.
        readout: (B, m, R) the readout's view of the values, W_x h_a.
        start: the decoder's first state, a list over layers of (h, c), each (B, H).
    """

    values: Tensor
    mask: Tensor
    keys: Tensor
    readout: Tensor
    start: tuple[tuple[Tensor, Tensor], ...]

    def context(self, alignment: Tensor) -> Tensor:
        """The weighted sum of encoder states, sum_a alignment(a) h_a: (B, m) to (B, D)."""
        return torch.einsum("bm,bmd->bd", alignment, self.values)

    def to(self, dtype: torch.dtype) -> Memory:
        """The memory in another floating type."""
        return Memory(
            values=self.values.to(dtype),
            mask=self.mask,
            keys=self.keys.to(dtype),
            readout=self.readout.to(dtype),
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in self.start),
        )

    def select(self, rows: Tensor) -> Memory:
        """The memory of the given rows (a permutation, a subset or repetitions)."""
        return Memory(
            values=self.values[rows],
            mask=self.mask[rows],
            keys=self.keys[rows],
            readout=self.readout[rows],
            start=tuple((h[rows], c[rows]) for h, c in self.start),
        )


class Score(nn.Module, ABC):
    """e_t(a): how well position a fits the query."""

    @abstractmethod
    def keys(self, values: Tensor) -> Tensor:
        """What is computed once per sentence: (B, m, D) to (B, m, .)."""

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores: query (B, H), keys (B, m, .) to (B, m)."""


class Distribution(nn.Module, ABC):
    """Scores to an alignment distribution."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Log probabilities: (..., m) to (..., m); `logspace.ZERO` where the mask is false."""


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


class Readout(nn.Module):
    """p(y | s_t, x) for a query and one view of the source (Luong et al. 2015, equations 5, 6).

    z = tanh(W_x x + W_s s + b), p = softmax(W_o z + b_o). The first product depends on the source
    alone, so it is computed once per sentence (`of_values`).
    """

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__()
        self.of_values = nn.Linear(sizes.values, sizes.query, bias=False)
        self.of_query = nn.Linear(sizes.query, sizes.query)
        self.output = nn.Linear(sizes.query, vocabulary)

    def forward(self, query: Tensor, values: Tensor) -> Tensor:
        """Log probabilities of every symbol.

        Args:
            query: (B, H).
            values: (B, R) or (B, m, R), made by `of_values`.

        Returns:
            (B, V) or (B, m, V).
        """
        of_query = self.of_query(query)
        if values.dim() == 3:
            of_query = of_query.unsqueeze(1)
        return torch.log_softmax(self.output(tanh(values + of_query)), dim=-1)


def tanh(x: Tensor) -> Tensor:
    """tanh(x) as 2 sigmoid(2x) - 1, several times faster on a CPU and equal to within rounding."""
    return torch.sigmoid(2 * x) * 2 - 1


class Marginalisation(nn.Module, ABC):
    """Where the position is summed out."""

    gives_positions = False
    """Whether it computes p(y | s, h_a) of every position."""

    needs_inference = False
    """Whether its objective is a bound, by alignments that an inference network gives."""

    @abstractmethod
    def forward(
        self, query: Tensor, log_prior: Tensor, memory: Memory, readout: Readout
    ) -> Marginal:
        """p(y_t | y_<t, x) from query (B, H) and log prior_t (B, m)."""

    def objective(
        self, marginal: Marginal, log_prior: Tensor, log_q: Tensor | None, symbol: Tensor
    ) -> Tensor:
        """What training maximises at a step, (B,): log p(y_t | y_<t, x), or a bound of it.

        Args:
            marginal: the outcome of `forward`.
            log_prior: (B, m).
            log_q: (B, m) alignment given the whole target, or None without an inference network.
            symbol: (B,) y_t.
        """
        return marginal.log_probs.gather(1, symbol[:, None]).squeeze(1)


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
            target positions; None if there is no such distribution.
        """


class Feedback(nn.Module, ABC):
    """Which alignment feeds the next state (and the next coupling)."""

    needs_positions = False
    """Whether the marginal must provide p(y | s, h_a) of every position."""

    def first(self, memory: Memory) -> Tensor | None:
        """The alignment before the first output (B, m), or None: an empty context."""
        return None

    @abstractmethod
    def forward(
        self, log_prior: Tensor, marginal: Marginal, symbol: Tensor, mask: Tensor
    ) -> Tensor:
        """The alignment handed on: (B, m), given the symbol y_t (B,) that was written."""
