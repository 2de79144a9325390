"""The step function that search runs on: k hypotheses of each sentence, one symbol at a time."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pam.fast.stepper import FastStepper, steps_fast
from pam.models.parts import Memory
from pam.models.seq2seq import Seq2Seq


class Stepper(Protocol):
    """Hypotheses of a batch of B sentences, k each, that grow together."""

    def step(self, symbol: Tensor) -> Tensor:
        """log p of every next symbol, (B, k, V), after `symbol` (B, k) was written last."""

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        """Goes on from hypothesis `parents` (B, k) of the same sentence with `symbol` (B, k)."""

    def keep(self, rows: Tensor) -> None:
        """Keeps the given sentences only."""


class ReferenceStepper:
    """Steps by the definition, `Seq2Seq.step`, for every model."""

    def __init__(self, model: Seq2Seq, memory: Memory, beam: int) -> None:
        self.model, self.beam = model, beam
        every = torch.arange(len(memory.mask), device=memory.mask.device)
        self.memory = memory.select(every.repeat_interleave(beam))
        self.state = model.start(self.memory)

    def step(self, symbol: Tensor) -> Tensor:
        embedded = self.model.recurrence.embed(symbol.flatten())
        self.found = self.model.step(self.memory, self.state, embedded)
        return self.found.marginal.log_probs.view(*symbol.shape, -1)

    def advance(self, parents: Tensor, symbol: Tensor) -> None:
        first = self.beam * torch.arange(len(parents), device=parents.device)[:, None]
        # Hypotheses of a sentence share its memory, so only the step follows the parents.
        step = self.found.select((first + parents).flatten())
        self.state = self.model.advance(self.memory, step, symbol.flatten())

    def keep(self, rows: Tensor) -> None:
        every = torch.arange(self.beam, device=rows.device)
        places = (rows[:, None] * self.beam + every).flatten()
        self.memory, self.state = self.memory.select(places), self.state.select(places)


def stepper(model: Seq2Seq, memory: Memory, beam: int) -> Stepper:
    """The fastest stepper that computes this model."""
    make = FastStepper if steps_fast(model) else ReferenceStepper
    return make(model, memory, beam)
