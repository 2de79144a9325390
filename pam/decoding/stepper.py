"""The step function that search runs on: k hypotheses of each sentence, one symbol at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from pam.fast.stepper import FastStepper, steps_fast
from pam.models.ensemble import Ensemble, mean_log
from pam.models.model import Encoded, Model


class Stepper(Protocol):
    """Hypotheses of a batch of B sentences, k each, that grow together."""

    def step(self, symbol: Tensor) -> Tensor:
        """log p of every next symbol, (B, k, V), after `symbol` (B, k) was written last.

        Whoever asked may overwrite it.
        """

    @property
    def query(self) -> Tensor:
        """s_t, (B, k, H), of the last step, until `advance`."""

    @property
    def prior(self) -> Tensor:
        """prior_t, (B, k, m), of the last step."""

    @property
    def alignment(self) -> Tensor | None:
        """The alignment handed on, (B, k, m), by the last `advance`."""

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        """Goes on from hypothesis `parents` (B, k) of the same sentence with `symbol` (B, k)."""

    def keep(self, rows: Tensor) -> None:
        """Keeps the given sentences only."""


class ReferenceStepper:
    """Steps by the definition, `Model.read`, for every model."""

    def __init__(self, model: Model, memory: Encoded, beam: int) -> None:
        self.model, self.beam = model, beam
        every = torch.arange(len(memory.mask), device=memory.mask.device)
        self.memory = memory.select(every.repeat_interleave(beam))
        self.state = model.start(self.memory)

    def step(self, symbol: Tensor) -> Tensor:
        self.found = self.model.read(self.memory, self.state, symbol.flatten())
        log_probs: Tensor = self.found.log_probs
        return log_probs.view(*symbol.shape, -1)

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        first = self.beam * torch.arange(len(parents), device=parents.device)[:, None]
        # Hypotheses of a sentence share its memory, so only the step follows the parents.
        step = self.found.select((first + parents).flatten())
        self.state = self.model.advance(self.memory, step, symbol.flatten())

    @property
    def query(self) -> Tensor:
        query: Tensor = self.found.query
        return query.view(-1, self.beam, query.shape[1])

    @property
    def prior(self) -> Tensor:
        prior: Tensor = self.found.log_prior.exp().unflatten(0, (-1, self.beam))
        return prior

    @property
    def alignment(self) -> Tensor | None:
        alignment: Tensor | None = self.state.alignment
        return None if alignment is None else alignment.unflatten(0, (-1, self.beam))

    def keep(self, rows: Tensor) -> None:
        every = torch.arange(self.beam, device=rows.device)
        places = (rows[:, None] * self.beam + every).flatten()
        self.memory, self.state = self.memory.select(places), self.state.select(places)


class EnsembleStepper:
    """Steps of several models, each the fastest that it has, and the mean of what they say."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = members

    def step(self, symbol: Tensor) -> Tensor:
        return mean_log([member.step(symbol) for member in self.members])

    @property
    def query(self) -> Tensor:
        return torch.cat([member.query for member in self.members], 2)

    @property
    def prior(self) -> Tensor:
        return torch.stack([member.prior for member in self.members]).mean(0)

    @property
    def alignment(self) -> Tensor | None:
        each = [member.alignment for member in self.members]
        known = [alignment for alignment in each if alignment is not None]
        return torch.stack(known).mean(0) if len(known) == len(each) else None

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        for member in self.members:
            member.advance(parents, symbol)

    def keep(self, rows: Tensor) -> None:
        for member in self.members:
            member.keep(rows)


def most_attended(steps: Stepper, lengths: Tensor) -> Tensor:
    """For each hypothesis the source position most attended, end symbols left out: (B, k).

    Args:
        steps: after `advance`.
        lengths: (B,) source lengths, end symbol included.

    Returns:
        0 where a source has nothing but its end symbol.
    """
    assert steps.alignment is not None
    positions = torch.arange(steps.alignment.shape[2], device=lengths.device)
    beyond = positions >= lengths[:, None] - 1  # (B, m)
    return steps.alignment.masked_fill(beyond[:, None], -1.0).argmax(2)


def stepper(model: Model, memory: Any, beam: int) -> Stepper:
    """The fastest stepper that computes this model, over sources that it has encoded."""
    if isinstance(model, Ensemble):
        members = zip(model.models, memory.parts, strict=True)
        return EnsembleStepper([stepper(member, own, beam) for member, own in members])
    if steps_fast(model):
        return FastStepper(model, memory, beam)
    return ReferenceStepper(model, memory, beam)
