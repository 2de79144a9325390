"""What the parts of a model hand each other, and what each part has to offer.

Shapes: B sentences of a batch, n rows of a step (in training the sentences that have not ended, in
    decoding the hypotheses of all sentences), m source positions, D units of an encoder state, H of
    a decoder state, R of the readout, V target symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.models.kernels import SourceMatrix
from pam.models.options import Options
from pam.models.outputs import SourceReadout, TokenDistribution
from pam.models.packing import optional_rows
from pam.models.schedules import Schedule, final

Hidden = tuple[tuple[Tensor, Tensor], ...]  # the decoder's state: per layer (h, c), each (n, H)
Embed = Callable[[Tensor], Tensor]
# as an `LSTMCell` is called
Cell = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Sizes:
    """What a component needs to know to make its parameters."""

    query: int  # units H of the decoder state s_t
    values: int  # units D of an encoder state h_a (of both directions, where there are two)
    embedding: int  # units E of an embedding, of a source or a target symbol
    direction: int  # units of an encoder state of one direction
    layers: int  # layers of the encoder
    rate: float  # dropout rate
    source: int = 0  # symbols of the source's vocabulary
    target: int = 0  # symbols V of the target's vocabulary


class Contexts:
    """W c of contexts c = sum_a alignment(a) h_a + shift.

    Where many steps read few sources, W h_a of every position costs less than W c of every step. So
    W is multiplied with the encoder states once; without W, contexts are what they are.

    Args:
        values: (B, m, D) h_a; weight: (W, D), or None.
    """

    def __init__(self, values: Tensor, weight: Tensor | None = None) -> None:
        self.weight = weight
        self.source = SourceMatrix(values if weight is None else F.linear(values, weight))

    def empty(self, rows: int) -> Tensor:
        """W 0, (rows, W)."""
        return self.source.matrix.new_zeros(rows, self.source.matrix.shape[2])

    def read(self, alignment: Tensor, shift: Tensor | None = None) -> Tensor:
        """(n, W) of alignments (n, m) and shifts (n, D), None: of zeros."""
        context = self.source.read(alignment)
        if shift is None:
            return context
        return context + (shift if self.weight is None else F.linear(shift, self.weight))

    def change(self, change: Callable[[SourceMatrix], SourceMatrix]) -> Contexts:
        """Those of other rows."""
        changed = copy(self)
        changed.source = change(self.source)
        return changed


@dataclass(frozen=True)
class Memory:
    """A batch of encoded sources, with what is computed once for all steps.

    Plain tensors have a row for each row of a step; kernels know of the rows by themselves.
    """

    values: Tensor  # (B, m, D) encoder states h_a
    mask: Tensor  # (n, m) true at real positions
    fed: Contexts  # what the decoder is fed
    keys: Any  # the score's view of the values: (n, m, .), or a kernel
    start: Hidden  # the decoder's first state
    cells: tuple[Cell, ...]  # the decoder's layers
    readout: SourceReadout  # the output layer, and its view of the values
    gates: Callable[[Tensor], Tensor] | None = (
        None  # `Decoder.gates`, for steps that choose symbols
    )
    viewed: Contexts | None = None  # the contexts that the readout is given, where it reads any
    transitions: Tensor | None = None  # what the coupling computes once, (m, m), or None
    readout_shift: Tensor | None = (
        None  # (n, R) what a latent vector of the sentence adds to W_s s, or None
    )
    variance: Tensor | None = None  # (n, m, D) of the Gaussian around each value, or None
    log_ratios: Tensor | None = (
        None  # (n, m, m) of draws around a, log density given b less that of the prior, or None
    )
    cost: Tensor | None = (
        None  # (n,) nats that the objective pays for the sentence's latent vector, or None
    )
    copied: Tensor | None = None  # (n, m) the symbols that positions are copied as, or None
    pointed: Tensor | None = (
        None  # (n, m) what positions add to the logit of generating a symbol, or None
    )
    beam: int = 1  # hypotheses of each sentence

    def first(self, rows: int) -> Memory:
        """Keep the first rows, which have not ended. Kernels take as many as they are given."""
        if rows == len(self.mask):
            return self
        return self._changed(lambda part: part[:rows], None)

    def for_beam(self, beam: int) -> Memory:
        """The memory of so many hypotheses of each sentence, one after another."""
        if beam == 1:
            return self
        changed = self._changed(
            lambda part: part.repeat_interleave(beam, 0),
            lambda source: SourceMatrix(source.matrix, beam),
        )
        return replace(changed, beam=beam)

    def select(self, sentences: Tensor) -> Memory:
        """That of the given sentences, with all of their hypotheses."""
        each = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + each).flatten()
        chosen = self._changed(
            lambda part: part.index_select(0, rows), lambda source: source.select(sentences)
        )
        values, readout = self.values.index_select(0, sentences), self.readout.select(sentences)
        return replace(chosen, values=values, readout=readout)

    def _changed(
        self,
        change: Callable[[Tensor], Tensor],
        of_source: Callable[[SourceMatrix], SourceMatrix] | None,
    ) -> Memory:
        """With all that has a row for each row of a step changed, and what kernels read, if that
        does.
        """
        changed: dict[str, Any] = {"start": tuple((change(h), change(c)) for h, c in self.start)}
        names = (
            "mask",
            "fed",
            "viewed",
            "keys",
            "readout_shift",
            "variance",
            "log_ratios",
            "cost",
            "copied",
            "pointed",
        )
        for name in names:
            part = getattr(self, name)
            if isinstance(part, Tensor):
                changed[name] = change(part)
            elif isinstance(part, SourceMatrix) and of_source is not None:
                changed[name] = of_source(part)
            elif isinstance(part, Contexts) and of_source is not None:
                changed[name] = part.change(of_source)
        return replace(self, **changed)


@dataclass(frozen=True)
class AttentionHistory:
    """What was attended before a step."""

    steps: int = 0  # how many symbols were written, t - 1
    alignment: Tensor | None = (
        None  # (n, m) handed on last; before the first output None, or the input feeding's first
    )
    summed: Tensor | None = (
        None  # (n, m) what all steps handed on, added up; None before the first output
    )

    def then(self, alignment: Tensor) -> AttentionHistory:
        summed = alignment if self.summed is None else self.summed + alignment
        return AttentionHistory(self.steps + 1, alignment, summed)

    def select(self, rows: Tensor | slice) -> AttentionHistory:
        return AttentionHistory(
            self.steps, optional_rows(self.alignment, rows), optional_rows(self.summed, rows)
        )


@dataclass(frozen=True)
class Noise:
    """Draw a batch's random numbers ahead of the steps: for one step, or with time first."""

    gumbel: Tensor  # (..., B, m) standard Gumbel noise, by which positions are drawn
    normal: Tensor  # (..., B, D) standard normal noise, by which contexts are

    @classmethod
    def draw(cls, steps: int, values: Tensor, beam: int = 1) -> Noise:
        """Noise for `steps` steps over encoder states (B, m, D), of so many hypotheses of each
        sentence.
        """
        rows = beam * len(values)
        uniform = torch.rand(steps, rows, values.shape[1], dtype=values.dtype, device=values.device)
        tiny = torch.finfo(values.dtype).tiny
        gumbel = -torch.log((-torch.log(uniform.clamp_min(tiny))).clamp_min(tiny))
        normal = torch.randn(steps, rows, values.shape[2], dtype=values.dtype, device=values.device)
        return cls(gumbel, normal)

    def at(self, t: int, rows: int) -> Noise:
        """That of the first rows of one step."""
        return Noise(self.gumbel[t, :rows], self.normal[t, :rows])


class Component(nn.Module, ABC):
    """A part of a model, made from its options and the model's sizes."""

    static = False  # whether nothing may wait for a value; see `Model.static`
    waits: str | None = None  # why it has to wait for a value all the same; None: it has not

    def __init__(self, options: Options | None = None, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.schedules: dict[str, Schedule] = {}
        self.held: dict[
            str, Tensor
        ] = {}  # values that change at each step, as tensors of the device

    def follow(self, name: str, value: float | Schedule) -> None:
        """Gives the attribute `name` the value of an option: the final one, but while it is trained
        by a schedule.
        """
        setattr(self, name, final(value))
        if isinstance(value, Schedule):
            self.schedules[name] = value

    def progress(self, step: int, steps: int) -> None:
        """Called by the training loop before each step, from 0, of so many."""
        for name, schedule in self.schedules.items():
            value = schedule.at(step, steps)
            if name in self.held:
                self.held[name].fill_(value)
            else:
                setattr(self, name, value)

    def hold_schedules(self, device: torch.device) -> None:
        """Let attributes that change at each step be tensors (), whose values change in their
        place.
        """
        for name, schedule in self.schedules.items():
            if schedule.is_gradual and name not in self.held:
                self.held[name] = torch.tensor(
                    getattr(self, name), dtype=torch.float64, device=device
                )
                setattr(self, name, self.held[name])

    @property
    def settings(self) -> tuple[float, ...]:
        """Values of the schedules that are numbers of Python: a recorded step has them in it."""
        return tuple(getattr(self, name) for name in self.schedules if name not in self.held)


def is_off(value: float | Tensor) -> bool:
    """Whether an option is zero and stays zero; one that changes at each step is never off."""
    return not isinstance(value, Tensor) and value == 0


class Score(Component):
    """e_t(a): how well position a fits the query."""

    costs = False  # whether the objective pays for what was attended
    reads_history = False  # whether it depends on where earlier steps looked

    @abstractmethod
    def keys(self, values: Tensor) -> Any:
        """What is computed once per sentence, from (B, m, D): a tensor (B, m, .) or a kernel."""

    @abstractmethod
    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        """Scores of queries (n, H): (n, m), finite, without meaning where the mask is false."""

    def cost(self, memory: Memory, prior: Tensor, alignment: Tensor) -> Tensor | None:
        """(B,) nats that the objective pays for what all steps attended, before their symbols were
        seen and as they handed it on, (T, B, m) each, zeros where a row has ended; None: nothing.
        """
        return None


class Window(Component):
    """The positions that a step considers at all."""

    @abstractmethod
    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, history: AttentionHistory
    ) -> tuple[Tensor, Tensor]:
        """Scores (n, m) as the window weighs them, and the mask (n, m) of what it shows: at least
        one position of each row. `query` is (n, H), `mask` (n, m).
        """


class Distribution(Component):
    """Scores to an alignment distribution."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Log probabilities: (..., m) to (..., m); `logspace.ZERO` where the mask is false."""


class Coupling(Component):
    """The prior over positions, given the alignment of the previous step."""

    def transitions(self, length: int) -> Tensor | None:
        """What is computed once for sources of this length, (m, m), or None."""
        return None

    @abstractmethod
    def forward(
        self,
        scores: Tensor,
        mask: Tensor,
        distribution: Distribution,
        memory: Memory,
        history: AttentionHistory,
    ) -> Tensor:
        """log prior_t, (n, m), log probabilities that sum to one over real positions, from scores
        e_t (n, m), of which those of `mask` (n, m) are considered, and `history.alignment`, None at
        the first step.
        """

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """The alignments (B, n, m) handed on, as the whole target makes them: where steps depend on
        one another, later ones tell of those before. `lengths` (B,) of the targets.
        """
        return alignments


@dataclass(frozen=True)
class LatentContext:
    """A context as a latent variable, drawn."""

    log_weights: Tensor  # (n, m) of the encoder states in it
    shift: Tensor | None = None  # (n, D) what is added to their sum
    cost: Tensor | None = None  # (n,) nats that the objective pays


class Latent(Component):
    """Latent vectors besides the alignment, drawn in training."""

    draws = True  # whether a step draws anything
    sampling = (
        False  # whether vectors are drawn at test time too, where they are their means otherwise
    )
    samples = 1  # draws of everything by which training estimates the objective of a sentence

    def of_sentence(self, memory: Memory, final: Tensor) -> Memory:
        """The memory with what a latent vector of the sentence adds; `final` (B, D) are the
        encoder's final states.
        """
        return memory

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> LatentContext:
        """The context of a step with log prior (n, m); its mean without noise."""
        return LatentContext(log_prior)


class InputFeeding(Component):
    """Which alignment feeds the next state (and the next coupling)."""

    needs_positions = False  # whether it needs p(y | s, h_a) of every position
    draws = False  # whether a position is drawn from the prior, in training
    feeds = True  # whether a context is fed to the next state at all

    def first(self, memory: Memory) -> Tensor | None:
        """The alignment before the first output (n, m), or None: an empty context."""
        return None

    @abstractmethod
    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Tensor:
        """The alignment handed on, (n, m), once the symbol y_t (n,) is written, by the distribution
        that the step gave it; `mask` is (n, m).
        """


class Inference(Component):
    """q_t(a | x, y): alignments given the whole target, known in training alone."""

    infers = True  # whether there is such a distribution

    @abstractmethod
    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        embed_source: Embed,
        embed_target: Embed,
    ) -> Tensor | None:
        """log q, (B, T, m), `logspace.ZERO` at padded source positions, without meaning at padded
        target positions; None if there is no such distribution, or if it is the prior.

        Sources (B, m) of `lengths` (B,) and targets (B, T), y_1 .. y_T, are symbols, padded at the
        end; the model's own embeddings take them from (...,) to (..., E). Sources may be vectors,
        (B, m, units), too.
        """


class Estimator(Component):
    """How a bound's expectation of log p(y_t | s_t, h_a) is computed, and its gradient."""

    draws = True  # whether it draws positions

    @abstractmethod
    def forward(self, output: TokenDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        """E_q[log p(y_t | s_t, h_a)] or an estimate of it, (N,), of symbols y_t (N,), by their
        distribution and `log_q` (N, m)."""
