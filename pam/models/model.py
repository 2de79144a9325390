"""What every model offers to training and to search, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, EOS
from pam.models.interfaces import Component
from pam.models.outputs import TokenDistribution


def without_end(source: Tensor, lengths: Tensor) -> Tensor:
    """Lengths (B,) of sources (B, m), an end symbol left out where they have one: `source_eos` of
    the data's format. Sources of vectors, (B, m, units), have none.
    """
    if source.is_floating_point():
        return lengths
    last = source.gather(1, lengths[:, None] - 1).squeeze(1)
    return lengths - (last == EOS).long()


@dataclass(frozen=True)
class TeacherForced:
    """A batch under teacher forcing; entries at padded target positions carry no meaning.

    Models that copy know whether a symbol was generated. `p_gen` is that of the distribution which
    the model defines, before the symbol is seen. Where the position is summed out at the output,
    p(y_t | s_t, h_a) generates with a p_gen of its own at each position, and p_gen is their mean,
    sum_a prior_t(a) p_gen_t(a).
    """

    log_probs: Tensor  # (B, T) log p(y_t | y_<t, x)
    # (B, T) the same over all source positions, where some are left out; what is fed back is the
    # same
    exact: Tensor
    correct: Tensor  # (B, T) whether y_t is the most probable symbol
    prior: Tensor  # (B, T, m)
    alignment: (
        Tensor  # (B, T, m) what was handed on; of a chain, its marginals given the whole target
    )
    # (B, T, m) given y_t, where positions have likelihoods of their own; else what was handed on
    posterior: Tensor
    positions: (
        Tensor  # (B, T) how many positions were summed over; 1 where there is a single context
    )
    p_gen: Tensor | None = (
        None  # (B, T) probability that a symbol is generated; None: nothing can be copied
    )
    copied: Tensor | None = None  # (B, T) probability that y_t was copied, given y_t; None likewise


class Encoded(Protocol):
    """Encoded sources."""

    @property
    def mask(self) -> Tensor:
        """(n, m) true at real positions, a row for each hypothesis."""

    def select(self, sentences: Tensor) -> Any:
        """Those of the given sentences, with all of their hypotheses."""


class State(Protocol):
    """What hypotheses carry from step to step."""

    @property
    def alignment(self) -> Tensor | None:
        """(n, m) the alignment handed on, or None before the first output."""

    def select(self, rows: Tensor) -> Any:
        """That of the given hypotheses."""


class Step(Protocol):
    """A step before its symbol is chosen."""

    @property
    def output(self) -> TokenDistribution:
        """p(y_t | y_<t, x)."""

    @property
    def log_prior(self) -> Tensor:
        """(n, m)."""

    @property
    def query(self) -> Tensor:
        """(n, H) the decoder's state."""

    def select(self, rows: Tensor) -> Any:
        """That of the given hypotheses."""


class Model(nn.Module, ABC):
    """A distribution over outputs given sources, one symbol after another."""

    # whether large products of given targets are taken in bfloat16; sums and states are not
    bf16 = False

    static = False
    """Whether nothing in the objective may wait for a value: shapes depend on nothing but those of
    the batch, which has rows and tokens of padding. Values there have no meaning. All other tokens
    must have the same weight in what is differentiated, as in a sum; else gradients are no numbers.
    """

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Any:
        """Encodes sources, ids (B, m) or vectors (B, m, units), of real `lengths` (B,) for so many
        hypotheses of each sentence, one after another; see `Encoded`. With `bf16`, the output layer
        takes its products
        in bfloat16.
        """

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """What hypotheses carry before the first output; see `State`."""

    @abstractmethod
    def step(self, memory: Any, state: Any, symbol: Tensor) -> Any:
        """The step (see `Step`) after `symbol` (n,) was written last."""

    @abstractmethod
    def update(self, memory: Any, step: Any, symbol: Tensor) -> Any:
        """The state after y_t = `symbol` (n,) was chosen."""

    @abstractmethod
    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """log p(y_t | y_<t, x), (B, T), of sources (B, m) of `lengths` (B,) and targets (B, T) with
        their end symbols, all padded at the end. Entries at padded target positions carry no
        meaning; mask them.
        """

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximizes, (B, T): log p(y_t | y_<t, x), unless a model knows better."""
        return self.log_likelihood(source, lengths, target)

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        """All that is known of given targets, step by step; arguments as above."""
        memory = self.encode(source, lengths)
        state, before = self.start(memory), torch.full_like(target[:, 0], BOS)
        columns: list[tuple[Tensor, ...]] = []
        for symbol in target.unbind(1):
            step = self.step(memory, state, before)
            output: TokenDistribution = step.output
            log_probs = output.log_probs()
            log_prob = log_probs.gather(1, symbol[:, None]).squeeze(1)
            correct = log_probs.argmax(1) == symbol
            uncut = output.exact()
            exact = log_prob if uncut is output else uncut.log_prob(symbol)
            posterior = output.posterior(symbol).alignment if output.gives_positions else None
            origin = output.origin(symbol)
            positions = output.positions()

            state, before = self.update(memory, step, symbol), symbol
            columns.append(
                (
                    log_prob,
                    exact,
                    correct,
                    step.log_prior.exp(),
                    state.alignment,
                    state.alignment if posterior is None else posterior,
                    torch.ones_like(symbol) if positions is None else positions,
                )
            )
            if origin is not None:
                columns[-1] += (origin.p_gen, (origin.copied - log_prob).exp().clamp_max(1))
        return TeacherForced(*(torch.stack(column, 1) for column in zip(*columns, strict=True)))

    def use_bf16(self, bf16: bool) -> None:
        """Sets `bf16` of this model and of those that it is made of. On CUDA it stays off, and
        products are in TF32: a step's are so small there that to convert their factors would take
        longer.
        """
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters())
        for part in self.modules():
            if isinstance(part, Model):
                part.bf16 = bf16 and on_cpu

    @contextmanager
    def static_steps(self) -> Iterator[None]:
        """Let this model, and all that it is made of, be `static` in this context."""
        parts = [part for part in self.modules() if isinstance(part, Model | Component)]
        for part in parts:
            part.static = True
        try:
            yield
        finally:
            for part in parts:
                part.static = False

    def waiting_parts(self) -> list[str]:
        """Say why parts of the model have to wait for a value in each step; none: it can be
        `static`.
        """
        return [
            part.waits
            for part in self.modules()
            if isinstance(part, Component) and part.waits is not None
        ]

    def hold_schedules(self, device: torch.device) -> None:
        """Let options that change at each step be tensors of the device; see `Component`."""
        for part in self.modules():
            if isinstance(part, Component):
                part.hold_schedules(device)

    @property
    def settings(self) -> tuple[float, ...]:
        """Values of schedules that a recorded step has in it; where they change it is recorded
        anew.
        """
        parts = [part for part in self.modules() if isinstance(part, Component)]
        return tuple(value for part in parts for value in part.settings)

    def progress(self, step: int, steps: int) -> None:
        """Called by the training loop before each step, from 0, of so many: options that follow a
        schedule do.
        """
        for part in self.modules():
            if isinstance(part, Component):
                part.progress(step, steps)
