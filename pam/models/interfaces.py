"""The abstract class of each component, and the data that components pass to each other.

Shapes: B sentences of a batch; n rows of a step (in training the sentences that have not ended, in
decoding the hypotheses of all sentences); m source positions; D units of an encoder state, H of a
decoder state, R of the readout; V target symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.models.kernels.compute import Part
from pam.models.kernels.source import SourceMatrix
from pam.models.options import Options
from pam.models.outputs import PositionDistribution, SourceReadout, TokenDistribution
from pam.models.packing import optional_rows
from pam.models.posterior import Observed
from pam.models.schedules import Schedule, final
from pam.models.transformer_layers import SourceKeys

Hidden = tuple[tuple[Tensor, Tensor], ...]
"""The decoder's state: for each layer (h, c), each (n, H)."""

Embed = Callable[[Tensor], Tensor]
"""From symbols (...,) to their embeddings (..., E)."""

Cell = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""A decoder layer, called as an `LSTMCell`."""


class Smoothing(Enum):
    """The posterior over positions given the whole target, as a model can have it."""

    EXACT = "exact"  # positions are a Markov chain given the target
    INDEPENDENT = "independent"  # later symbols say nothing of a position: nothing changes
    APPROXIMATE = "approximate"  # the chain is followed, but what is handed on is no posterior
    NONE = "none"  # positions have no likelihoods, hence no posterior


@dataclass(frozen=True)
class Sizes:
    """The sizes from which a component makes its parameters."""

    query: int  # units H of the decoder state s_t
    values: int  # units D of an encoder state h_a, both directions together
    embedding: int  # units E of an embedding, of a source or a target symbol
    direction: int  # units of one direction of the encoder
    layers: int  # layers of the encoder
    rate: float  # dropout rate
    source: int = 0  # symbols of the source vocabulary
    target: int = 0  # symbols V of the target vocabulary


class Contexts:
    """Products W c with contexts c = sum_a alignment(a) h_a + shift.

    W is multiplied with the encoder states once: where many steps read few sources, W h_a of every
    position costs less than W c of every step. Without W, `read` returns the contexts themselves.

    Args:
        values: (B, m, D) encoder states h_a.
        weight: (W, D), or None.
    """

    def __init__(self, values: Tensor, weight: Tensor | None = None) -> None:
        self.weight = weight
        if weight is not None:
            values = F.linear(values, weight)
        self.source = SourceMatrix(values)

    def empty(self, rows: int) -> Tensor:
        """Return the product with empty contexts, zeros (rows, W)."""
        return self.source.matrix.new_zeros(rows, self.source.matrix.shape[2])

    def read(self, alignment: Tensor, shift: Tensor | None = None) -> Tensor:
        """Return W c, (n, W), of alignments (n, m) and shifts (n, D); no shift counts as zero."""
        context = self.source.read(alignment)
        if shift is None:
            return context

        if self.weight is not None:
            shift = F.linear(shift, self.weight)
        return context + shift

    def change(self, change: Callable[[SourceMatrix], SourceMatrix]) -> Contexts:
        """Return a copy whose source matrix is changed, so that it serves other rows."""
        changed = copy(self)
        changed.source = change(self.source)
        return changed


@dataclass(frozen=True, eq=False)
class PerRow:
    """Tensors with a row for each row of a step, each of them or None."""

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with changed rows."""
        tensors = {name: part for name, part in vars(self).items() if part is not None}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items()})


@dataclass(frozen=True, eq=False)
class SentenceLatent(PerRow):
    """What was drawn for sentences besides their alignments."""

    readout_shift: Tensor | None = None  # (n, R) added to W_s s
    cost: Tensor | None = None  # (n,) nats that the objective pays


@dataclass(frozen=True, eq=False)
class CopiedSource(PerRow):
    """How source positions are copied."""

    symbols: Tensor  # (n, m) the symbol that each position is copied as
    logits: Tensor  # (n, m) w_h . h_a, what each position adds to the logit of p_gen


PER_ROW = {"per_row": True}
"""Metadata of the fields of `Memory` that change with the rows of a step."""


@dataclass(frozen=True)
class Memory:
    """A batch of encoded sources, and tensors that are computed once for all steps.

    Plain tensors have one row for each row of a step. Kernels (`SourceMatrix`, `Contexts`) keep
    track of rows by themselves.
    """

    values: Tensor
    """Encoder states h_a, (B, m, D)."""

    mask: Tensor = field(metadata=PER_ROW)
    """(n, m) true at real positions."""

    fed: Contexts = field(metadata=PER_ROW)
    """The contexts that the decoder is fed."""

    keys: Any = field(metadata=PER_ROW)
    """The result of `Score.keys`: (n, m, .), or a kernel."""

    start: Hidden = field(metadata=PER_ROW)
    """The decoder's first state."""

    cells: tuple[Cell, ...]
    """The decoder's layers."""

    readout: SourceReadout
    """The output layer, with its view of the encoder states."""

    gates: Callable[[Tensor], Tensor] | None = None
    """`Decoder.gates`, for steps that choose symbols."""

    viewed: Contexts | None = field(default=None, metadata=PER_ROW)
    """The contexts that the readout reads, if it reads any."""

    source_keys: SourceKeys | None = None
    """What the layers of a Transformer's decoder attend to."""

    transitions: Tensor | None = None
    """The result of `Coupling.transitions`, (m, m)."""

    latent: SentenceLatent = field(default=SentenceLatent(), metadata=PER_ROW)
    """The result of `Latent.of_sentence`."""

    copied: CopiedSource | None = field(default=None, metadata=PER_ROW)
    """The result of `Copying.of_source`."""

    beam: int = 1
    """Hypotheses of each sentence."""

    @property
    def feeds_viewed(self) -> bool:
        """Whether the decoder is fed the context that the readout reads."""
        return self.viewed is self.fed

    def first(self, rows: int) -> Memory:
        """Keep the first rows of a step: the sentences that have not ended."""
        if rows == len(self.mask):
            return self
        # Kernels serve as many rows as they are asked for.
        return self._changed(lambda part: part[:rows], change_source=None)

    def for_beam(self, beam: int) -> Memory:
        """Repeat each sentence for `beam` hypotheses, one after another."""
        if beam == 1:
            return self
        changed = self._changed(
            lambda part: part.repeat_interleave(beam, 0),
            lambda source: SourceMatrix(source.matrix, beam),
        )
        return replace(changed, beam=beam)

    def select(self, sentences: Tensor) -> Memory:
        """Keep the given sentences, with all of their hypotheses."""
        # The rows of a sentence's hypotheses are next to each other.
        hypotheses = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + hypotheses).flatten()
        selected = self._changed(
            lambda part: part.index_select(0, rows), lambda source: source.select(sentences)
        )
        source_keys = None
        if self.source_keys is not None:
            source_keys = self.source_keys.select(sentences)

        return replace(
            selected,
            values=self.values.index_select(0, sentences),
            readout=self.readout.select(sentences),
            source_keys=source_keys,
        )

    def _changed(
        self,
        change: Callable[[Tensor], Tensor],
        change_source: Callable[[SourceMatrix], SourceMatrix] | None,
    ) -> Memory:
        """Return a copy with changed rows.

        Args:
            change: applied to each tensor that has a row for each row of a step.
            change_source: applied to each kernel; None keeps kernels as they are.
        """

        def changed(part: Any) -> Any:
            if isinstance(part, Tensor):
                return change(part)
            if isinstance(part, PerRow):
                return part.change(change)
            if isinstance(part, tuple):
                return tuple(changed(each) for each in part)
            if isinstance(part, SourceMatrix) and change_source is not None:
                return change_source(part)
            if isinstance(part, Contexts) and change_source is not None:
                return part.change(change_source)
            return part

        names = [one.name for one in fields(self) if one.metadata == PER_ROW]
        return replace(self, **{name: changed(getattr(self, name)) for name in names})


@dataclass(frozen=True)
class AttentionHistory:
    """The alignments before a step, as input feeding handed them on."""

    steps: int = 0
    """Number of symbols written so far, t - 1."""

    alignment: Tensor | None = None
    """(n, m) the last alignment; before the first output None or `InputFeeding.first`."""

    summed: Tensor | None = None
    """(n, m) the sum of all alignments; None before the first output."""

    def then(self, alignment: Tensor) -> AttentionHistory:
        """Append the alignment (n, m) of a step."""
        summed = alignment
        if self.summed is not None:
            summed = self.summed + alignment
        return AttentionHistory(self.steps + 1, alignment, summed)

    def select(self, rows: Tensor | slice) -> AttentionHistory:
        return AttentionHistory(
            self.steps, optional_rows(self.alignment, rows), optional_rows(self.summed, rows)
        )


@dataclass(frozen=True)
class Noise:
    """Random numbers of a batch, drawn ahead of the steps: for one step, or with time first."""

    gumbel: Tensor  # (..., B, m) standard Gumbel noise, to draw positions
    normal: Tensor  # (..., B, D) standard normal noise, to draw contexts

    @classmethod
    def draw(cls, steps: int, values: Tensor, beam: int = 1) -> Noise:
        """Draw the noise of `steps` steps.

        Args:
            values: (B, m, D) encoder states, which give sizes, type and device.
            beam: hypotheses of each sentence.
        """
        rows = beam * len(values)

        uniform = torch.rand(steps, rows, values.shape[1], dtype=values.dtype, device=values.device)
        # Gumbel noise is -log(-log(u)); the bounds keep it finite.
        tiny = torch.finfo(values.dtype).tiny
        gumbel = -torch.log((-torch.log(uniform.clamp_min(tiny))).clamp_min(tiny))

        normal = torch.randn(steps, rows, values.shape[2], dtype=values.dtype, device=values.device)
        return cls(gumbel, normal)

    def at(self, t: int, rows: int) -> Noise:
        """Return the noise of step t for the first rows."""
        return Noise(self.gumbel[t, :rows], self.normal[t, :rows])


class Component(Part, ABC):
    """A part of a model, made from its options and the model's sizes."""

    waits: str | None = None
    """The reason why steps have to wait for a value all the same, or None."""

    def __init__(self, options: Options | None = None, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.schedules: dict[str, Schedule] = {}
        # Values that change at each step, as tensors on the device; see `hold_schedules`.
        self.held: dict[str, Tensor] = {}

    def follow(self, name: str, value: float | Schedule) -> None:
        """Let the attribute `name` follow an option's schedule.

        Until `progress` is called, it has the schedule's final value; a number stays as it is.
        """
        setattr(self, name, final(value))
        if isinstance(value, Schedule):
            self.schedules[name] = value

    def progress(self, step: int, steps: int) -> None:
        """Set the attributes that follow a schedule to their values at a step.

        The training loop calls it before each of its `steps` steps, counted from 0.
        """
        for name, schedule in self.schedules.items():
            value = schedule.at(step, steps)
            if name in self.held:
                self.held[name].fill_(value)
            else:
                setattr(self, name, value)

    def hold_schedules(self, device: torch.device) -> None:
        """Make attributes that change at each step scalar tensors, which are changed in place."""
        for name, schedule in self.schedules.items():
            if schedule.is_gradual and name not in self.held:
                value = torch.tensor(getattr(self, name), dtype=torch.float64, device=device)
                self.held[name] = value
                setattr(self, name, value)

    @property
    def settings(self) -> tuple[float, ...]:
        """Values of schedules that are Python numbers, which a recorded step has built in."""
        return tuple(getattr(self, name) for name in self.schedules if name not in self.held)


def is_off(value: float | Tensor) -> bool:
    """Return whether an option is zero and stays zero; a tensor changes and is never off."""
    return not isinstance(value, Tensor) and value == 0


class Score(Component):
    """The score e_t(a) of source position a for the query s_t."""

    costs = False
    """Whether the objective pays for the attention of all steps; see `cost`."""

    reads_history = False
    """Whether it depends on where earlier steps looked."""

    @abstractmethod
    def keys(self, values: Tensor) -> Any:
        """Compute, once per batch, the keys of encoder states (B, m, D).

        Returns: a tensor (B, m, .) or a kernel. Steps find it as `memory.keys`.
        """

    @abstractmethod
    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        """Compute the scores (n, m) of queries (n, H).

        They are finite everywhere. Where `memory.mask` is false they carry no meaning.
        """

    def cost(self, memory: Memory, prior: Tensor, alignment: Tensor) -> Tensor | None:
        """Compute the nats (B,) that the objective pays for the attention of all steps.

        Args:
            prior: (T, B, m) alignments before their symbols were seen, zeros where a row has ended.
            alignment: (T, B, m) alignments as they were handed on, likewise.

        Returns: the cost, or None if there is none.
        """
        return None


class Window(Component):
    """The source positions that a step considers."""

    @abstractmethod
    def forward(
        self, scores: Tensor, query: Tensor, mask: Tensor, history: AttentionHistory
    ) -> tuple[Tensor, Tensor]:
        """Restrict a step to the positions in the window.

        Args:
            scores: (n, m).
            query: (n, H).
            mask: (n, m) true at real positions.

        Returns: the scores as the window weighs them, and the mask of positions in the window, at
            least one in each row; both (n, m).
        """


class Distribution(Component):
    """The alignment distribution of given scores."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Compute log probabilities (..., m) of scores (..., m).

        They are `logspace.ZERO` where the mask is false.
        """


class Coupling(Component):
    """The prior over positions, given the alignment of the previous step."""

    is_chain = False
    """Whether the positions of successive steps are a Markov chain; see `weights`."""

    def weights(
        self, scores: Tensor, mask: Tensor, distribution: Distribution, memory: Memory
    ) -> Tensor:
        """Compute the weights (n, m, m) of moves from a position of the previous step to one.

        They are known up to a factor of each position that is moved to. `scores` and `mask` are
        those of `forward`.
        """
        raise NotImplementedError(f"{type(self).__name__} is no chain")

    def transitions(self, length: int) -> Tensor | None:
        """Compute, once per batch, the matrix (m, m) of weights from position to position.

        `length` is m. Steps find the matrix as `memory.transitions`; None if there is none.
        """
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
        """Compute log prior_t, (n, m), log probabilities that sum to one over real positions.

        Args:
            scores: (n, m) e_t.
            mask: (n, m) true at the positions that the window considers.
            distribution: makes log probabilities of scores.
            memory: `memory.transitions` is what `transitions` computed.
            history: `history.alignment` (n, m) is the previous alignment, None at the first step.
        """

    def given_all(self, alignments: Tensor, lengths: Tensor) -> Tensor:
        """Compute the alignments (B, n, m) given the whole target.

        `alignments` (B, n, m) are those handed on, step by step. They stay the same unless steps
        depend on each other, as then later steps tell of earlier ones. `lengths` (B,) are those of
        the targets.
        """
        return alignments


@dataclass(frozen=True)
class LatentContext:
    """A drawn context, sum_a weight(a) h_a + shift."""

    log_weights: Tensor  # (n, m) log weights of the encoder states
    shift: Tensor | None = None  # (n, D) added to the weighted sum
    cost: Tensor | None = None  # (n,) nats that the objective pays


class Latent(Component):
    """Latent vectors besides the alignment, drawn in training."""

    draws = True
    """Whether a step draws random numbers."""

    sampling = False
    """Whether vectors are drawn at test time too, instead of replaced by their means."""

    samples = 1
    """Number of draws by which training estimates the objective of a sentence."""

    def of_sentence(self, values: Tensor, final: Tensor) -> SentenceLatent:
        """Draw what sentences have for all steps.

        Args:
            values: (B, m, D) encoder states h_a.
            final: (B, D) the encoder's final states.
        """
        return SentenceLatent()

    def of_step(self, log_prior: Tensor, memory: Memory, noise: Noise | None) -> LatentContext:
        """Draw the context of a step with log prior (n, m); without noise, return its mean."""
        return LatentContext(log_prior)


class InputFeeding(Component):
    """The alignment that is handed on to the next decoder state and the next coupling."""

    needs_positions = False
    """Whether it needs p(y | s, h_a) of every position."""

    draws = False
    """Whether training draws a position from the prior."""

    feeds = True
    """Whether a context is fed to the next state at all."""

    keeps_prior = False
    """Whether the prior is handed on as it is."""

    is_posterior = False
    """Whether the posterior is handed on as it is, where no sum over positions is cut."""

    def hands_on_posterior(self, output: TokenDistribution) -> bool:
        """Tell whether what is handed on from `output` is the posterior, and nothing else."""
        return False

    def first(self, memory: Memory) -> Tensor | None:
        """Return the alignment (n, m) before the first output, or None for an empty context."""
        return None

    @abstractmethod
    def forward(self, output: TokenDistribution, symbol: Tensor, mask: Tensor) -> Observed:
        """Compute the alignment (n, m) to hand on after a step.

        Args:
            output: the distribution that the step gave the symbol.
            symbol: (n,) the symbol y_t that was written.
            mask: (n, m) true at real positions.

        Returns: The alignment, with log p(y_t | y_<t, x) if it took that to compute it: always, or
            never, as `needs_positions` says.
        """


class Inference(Component):
    """q_t(a | x, y): alignments given the whole target, for training alone."""

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
        """Compute log q, (B, T, m).

        Args:
            source: (B, m) symbols padded at the end, or vectors (B, m, units).
            lengths: (B,) of the sources.
            target: (B, T) symbols y_1 .. y_T, padded at the end.
            embed_source: the model's own embedding of source symbols.
            embed_target: the model's own embedding of target symbols.

        Returns: log q, `logspace.ZERO` at padded source positions and without meaning at padded
            target positions; None if there is no such distribution, or if it is the prior.
        """


class Estimator(Component):
    """An estimate of the expectation E_q[log p(y_t | s_t, h_a)] in a bound, and its gradient."""

    draws = True
    """Whether it draws positions."""

    @abstractmethod
    def forward(self, output: PositionDistribution, symbols: Tensor, log_q: Tensor) -> Tensor:
        """Compute the expectation, or an estimate of it, (N,).

        Args:
            output: the distribution of the symbols.
            symbols: (N,) y_t.
            log_q: (N, m).
        """
