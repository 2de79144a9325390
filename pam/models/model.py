"""The interface of every model to training and search, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, EOS, Vocabulary
from pam.models.interfaces import Component, Smoothing
from pam.models.kernels.compute import Compute, Part
from pam.models.outputs import PositionDistribution, TokenDistribution


def without_end(source: Tensor, lengths: Tensor) -> Tensor:
    """Return the lengths (B,) of sources (B, m), not counting their end symbols.

    Sources end in one if the data's format has `source_eos`; sources of vectors, (B, m, units),
    have none.
    """
    if source.is_floating_point():
        return lengths
    last = source.gather(1, lengths[:, None] - 1).squeeze(1)
    return lengths - (last == EOS).long()


@dataclass(frozen=True)
class TeacherForced:
    """A batch under teacher forcing; entries at padded target positions carry no meaning.

    `p_gen` and `copied` are None for models that do not copy. `p_gen` belongs to the distribution
    that the model defines, before the symbol is seen. Where the position is summed out at the
    output, p(y_t | s_t, h_a) has a p_gen of its own at each position, and `p_gen` is their mean,
    sum_a prior_t(a) p_gen_t(a).
    """

    log_probs: Tensor
    """(B, T) log p(y_t | y_<t, x)."""

    exact: Tensor
    """(B, T) the same summed over all source positions, also where the model leaves some out."""

    correct: Tensor
    """(B, T) true where y_t is the most probable symbol."""

    prior: Tensor
    """(B, T, m) alignments before y_t is seen."""

    alignment: Tensor
    """(B, T, m) alignments as handed on; a chain's are marginals given the whole target."""

    posterior: Tensor
    """(B, T, m) alignments given y_t; those handed on if positions have no likelihoods."""

    positions: Tensor
    """(B, T) number of positions summed over; 1 for a single context."""

    p_gen: Tensor | None = None
    """(B, T) probability that a symbol is generated."""

    copied: Tensor | None = None
    """(B, T) probability that y_t was copied, given y_t."""


class Encoded(Protocol):
    """Encoded sources."""

    def select(self, sentences: Tensor) -> Any:
        """Keep the given sentences, with all of their hypotheses."""


class State(Protocol):
    """The state of hypotheses, carried from step to step."""

    @property
    def alignment(self) -> Tensor | None:
        """(n, m) the alignment handed on, or None before the first output."""

    def select(self, rows: Tensor) -> Any:
        """Keep the given hypotheses."""


class Step(Protocol):
    """A step before its symbol is chosen."""

    @property
    def output(self) -> TokenDistribution:
        """p(y_t | y_<t, x)."""

    @property
    def log_prior(self) -> Tensor:
        """(n, m) log of the alignment before the symbol is seen."""

    @property
    def query(self) -> Tensor:
        """(n, H) the decoder's state."""

    def select(self, rows: Tensor) -> Any:
        """Keep the given hypotheses."""


@runtime_checkable
class ReadsVocabularies(Protocol):
    """A part of a model that depends on what the symbols are, not only on their number."""

    def match(self, source: Vocabulary, target: Vocabulary) -> None:
        """Look at the symbols of both vocabularies."""


def match(model: nn.Module, source: Vocabulary, target: Vocabulary) -> None:
    """Show both vocabularies to all parts of a model that depend on them."""
    for part in model.modules():
        if isinstance(part, ReadsVocabularies):
            part.match(source, target)


class Model(Part, ABC):
    """A distribution over outputs given sources, one symbol after another."""

    gives_positions = False
    """Whether positions have likelihoods, so that posteriors are by Bayes' rule."""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1) -> Any:
        """Encode a batch of sources; see `Encoded`.

        Args:
            source: (B, m) ids, or (B, m, units) vectors.
            lengths: (B,) real lengths.
            beam: hypotheses of each sentence, one after another in the rows of a step.
        """

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """Return the state before the first output; see `State`."""

    @abstractmethod
    def step(self, memory: Any, state: Any, symbol: Tensor) -> Any:
        """Compute the step (see `Step`) after `symbol` (n,) was written last."""

    @abstractmethod
    def update(self, memory: Any, step: Any, symbol: Tensor) -> Any:
        """Compute the state after y_t = `symbol` (n,) was chosen."""

    @abstractmethod
    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Compute log p(y_t | y_<t, x), (B, T).

        Sources (B, m) of `lengths` (B,) and targets (B, T), with their end symbols, are padded at
        the end. Entries at padded target positions carry no meaning; mask them.
        """

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Compute what training maximizes, (B, T): by default the log likelihood."""
        return self.log_likelihood(source, lengths, target)

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        """Run the model over given targets, step by step; arguments as in `log_likelihood`."""
        memory = self.encode(source, lengths)
        state = self.start(memory)
        previous = torch.full_like(target[:, 0], BOS)

        columns: dict[str, list[Tensor]] = defaultdict(list)
        for symbol in target.unbind(1):
            step = self.step(memory, state, previous)
            entries = _entries(step.output, symbol)

            state = self.update(memory, step, symbol)
            previous = symbol
            entries["prior"] = step.log_prior.exp()
            entries["alignment"] = state.alignment
            # Without likelihoods of positions, the alignment handed on stands for the posterior.
            entries.setdefault("posterior", state.alignment)
            for name, entry in entries.items():
                columns[name].append(entry)

        return TeacherForced(**{name: torch.stack(column, 1) for name, column in columns.items()})

    @property
    def smoothing(self) -> Smoothing:
        """What `align` does where it is asked to smooth."""
        return Smoothing.NONE

    @torch.no_grad()
    def align(
        self, source: Tensor, lengths: Tensor, target: Tensor, smooth: bool = False
    ) -> Tensor:
        """Compute the alignment (B, T, m) of each symbol of given targets.

        It is the posterior given the symbol where positions have likelihoods, else the alignment
        that is handed on.

        Args:
            source, lengths, target: as in `log_likelihood`.
            smooth: whether the posterior is given the whole target, not only the symbols so far;
                see `smoothing`.
        """
        return self.teacher_force(source, lengths, target).posterior

    def head_alignments(self, source: Tensor, lengths: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return the alignments (B, T, m) of all heads, by their names, where there are several.

        Targets are given; arguments as in `log_likelihood`.
        """
        return {}

    def use(self, compute: Compute) -> None:
        """Let this model, and all that it is made of, compute in this way."""
        for part in self.modules():
            if isinstance(part, Part):
                part.compute = compute

    def use_bf16(self, bf16: bool) -> None:
        """Take large products in training in bfloat16.

        On CUDA they are in TF32 all the same: a step's products are so small that converting their
        factors would take longer.
        """
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters())
        self.use(replace(self.compute, bf16=bf16 and on_cpu))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Compute without dropout and gradients, in the precision of the weights, in this context.

        Training mode and the caller's autocast are as before when it ends.
        """
        modes = [(part, part.training) for part in self.modules()]
        device = next(self.parameters()).device
        self.eval()
        try:
            with torch.no_grad(), torch.autocast(device.type, enabled=False):
                yield
        finally:
            for part, training in modes:
                part.training = training

    @contextmanager
    def computing(self, **changes: bool) -> Iterator[None]:
        """Compute in another way in this context: with these fields of `Compute`."""
        compute = self.compute
        self.use(replace(compute, **changes))
        try:
            yield
        finally:
            self.use(compute)

    def waiting_parts(self) -> list[str]:
        """List the reasons why parts of the model have to wait for a value in each step.

        A model without any can compute by static steps.
        """
        return [
            part.waits
            for part in self.modules()
            if isinstance(part, Component) and part.waits is not None
        ]

    def hold_schedules(self, device: torch.device) -> None:
        """Make options that change at each step tensors on the device; see `Component`."""
        for part in self.modules():
            if isinstance(part, Component):
                part.hold_schedules(device)

    @property
    def settings(self) -> tuple[float, ...]:
        """Values of schedules that a recorded step has built in.

        When they change, the step must be recorded anew.
        """
        parts = [part for part in self.modules() if isinstance(part, Component)]
        return tuple(value for part in parts for value in part.settings)

    def progress(self, step: int, steps: int) -> None:
        """Set the options that follow a schedule to their values at a step.

        The training loop calls it before each of its `steps` steps, counted from 0.
        """
        for part in self.modules():
            if isinstance(part, Component):
                part.progress(step, steps)


def _entries(output: TokenDistribution, symbol: Tensor) -> dict[str, Tensor]:
    """Compute the fields of `TeacherForced` that a step's distribution gives, for symbols (n,)."""
    log_probs = output.log_probs()
    log_prob = log_probs.gather(1, symbol[:, None]).squeeze(1)
    entries = {"log_probs": log_prob, "correct": log_probs.argmax(1) == symbol}

    exact_output = output.exact()
    entries["exact"] = log_prob if exact_output is output else exact_output.log_prob(symbol)

    if isinstance(output, PositionDistribution):
        entries["posterior"] = output.observe(symbol).alignment

    origin = output.origin(symbol)
    if origin is not None:
        entries["p_gen"] = origin.p_gen
        entries["copied"] = (origin.log_copied - log_prob).exp().clamp_max(1)

    positions = output.positions()
    entries["positions"] = torch.ones_like(symbol) if positions is None else positions
    return entries
