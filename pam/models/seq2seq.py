"""The model: encoder, recurrence and the choices, put together step by step.

What stands here is the definition, plain and in log space. `pam.fast` computes the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS
from pam.models.decoder import Hidden, Recurrence
from pam.models.encoder import Encoder
from pam.models.parts import (
    Coupling,
    Distribution,
    Feedback,
    Inference,
    Marginal,
    Marginalisation,
    Memory,
    Readout,
    Score,
)


@dataclass(frozen=True)
class State:
    """What a hypothesis carries from step to step.

    Attributes:
        hidden: the recurrence's state, per layer (h, c), each (B, H).
        context: (B, D) c_{t-1}, fed to the next state.
        alignment: (B, m) the alignment handed on, or None before the first output.
    """

    hidden: Hidden
    context: Tensor
    alignment: Tensor | None

    def select(self, rows: Tensor) -> State:
        """The state of the given hypotheses."""
        return State(
            hidden=tuple((h[rows], c[rows]) for h, c in self.hidden),
            context=self.context[rows],
            alignment=None if self.alignment is None else self.alignment[rows],
        )


@dataclass(frozen=True)
class Step:
    """One step before its symbol is chosen.

    Attributes:
        marginal: p(y_t | y_<t, x), `marginal.log_probs` of (B, V), and its parts.
        log_prior: (B, m).
        hidden: the recurrence's new state.
    """

    marginal: Marginal
    log_prior: Tensor
    hidden: Hidden

    def select(self, rows: Tensor) -> Step:
        """The step of the given hypotheses."""
        return Step(
            marginal=self.marginal.select(rows),
            log_prior=self.log_prior[rows],
            hidden=tuple((h[rows], c[rows]) for h, c in self.hidden),
        )


@dataclass(frozen=True)
class Aligned:
    """Teacher-forced log probabilities with the alignments behind them.

    Attributes:
        log_probs: (B, n) log p(y_t | y_<t, x).
        prior: (B, n, m).
        alignment: (B, n, m) what was fed back.
    """

    log_probs: Tensor
    prior: Tensor
    alignment: Tensor


class Seq2Seq(nn.Module):
    """A sequence-to-sequence model with one answer to each question of `pam.models`."""

    def __init__(
        self,
        encoder: Encoder,
        recurrence: Recurrence,
        readout: Readout,
        score: Score,
        distribution: Distribution,
        coupling: Coupling,
        marginalisation: Marginalisation,
        feedback: Feedback,
        inference: Inference,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.recurrence = recurrence
        self.readout = readout
        self.score = score
        self.distribution = distribution
        self.coupling = coupling
        self.marginalisation = marginalisation
        self.feedback = feedback
        self.inference = inference

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encodes sources (B, m) of real `lengths` (B,)."""
        values, final = self.encoder(source, lengths)
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return Memory(
            values=values,
            mask=mask,
            keys=self.score.keys(values),
            readout=self.readout.of_values(values),
            start=self.recurrence.start(final),
        )

    def start(self, memory: Memory) -> State:
        """The state before the first output; its context is empty unless the feedback has one."""
        alignment = self.feedback.first(memory)
        empty = memory.values.new_zeros(memory.values.shape[0], memory.values.shape[2])
        context = empty if alignment is None else memory.context(alignment)
        return State(memory.start, context, alignment)

    def step(
        self, memory: Memory, state: State, embedded: Tensor, masks: Tensor | None = None
    ) -> Step:
        """p(y_t | y_<t, x), in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

        Args:
            memory: the encoded sources.
            state: what the last step handed on.
            embedded: (B, E) embedding of y_{t-1}.
            masks: (layers, B, H) dropout masks, or None.
        """
        query, hidden = self.recurrence(embedded, state.context, state.hidden, masks)
        scores = self.score(query, memory.keys)
        log_prior = self.coupling(scores, state.alignment, memory.mask, self.distribution)
        marginal = self.marginalisation(query, log_prior, memory, self.readout)
        return Step(marginal, log_prior, hidden)

    def advance(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """The state after y_t = `symbol` (B,) was written."""
        alignment = self.feedback(step.log_prior, step.marginal, symbol, memory.mask)
        return State(step.hidden, memory.context(alignment), alignment)

    def teacher_forced(self, source: Tensor, lengths: Tensor, target: Tensor) -> Aligned:
        """log p(y_t | y_<t, x) of given targets, the reference computation.

        Args:
            source: (B, m) padded at the end; lengths: (B,).
            target: (B, n) with the end symbol, padded at the end.

        Returns:
            Entries at padded target positions carry no meaning; mask them.
        """
        log_probs, priors, alignments = [], [], []
        for symbol, step, state in self._forced(source, lengths, target):
            log_probs.append(step.marginal.log_probs.gather(1, symbol[:, None]).squeeze(1))
            priors.append(step.log_prior.exp())
            alignments.append(state.alignment)
        return Aligned(
            torch.stack(log_probs, 1),
            torch.stack(priors, 1),
            torch.stack([a for a in alignments if a is not None], 1),
        )

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximises: log p(y_t | y_<t, x), or a bound of it by `infer`'s alignments.

        Args:
            source: (B, m) padded at the end; lengths: (B,).
            target: (B, n) with the end symbol, padded at the end.

        Returns:
            (B, n). Entries at padded target positions carry no meaning; mask them.
        """
        forced = list(self._forced(source, lengths, target))
        log_q = self.infer(source, lengths, target)
        objectives = [
            self.marginalisation.objective(
                step.marginal, step.log_prior, None if log_q is None else log_q[:, t], symbol
            )
            for t, (symbol, step, _) in enumerate(forced)
        ]
        return torch.stack(objectives, 1)

    def infer(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        """log q_t(a | x, y), (B, n, m), or None; see `Inference`. Drawn after all else, its dropout
        leaves that of the likelihood as it is."""
        log_q: Tensor | None = self.inference(
            source, lengths, target, self.encoder.embed, self.recurrence.embed
        )
        return log_q

    def _forced(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> Iterator[tuple[Tensor, Step, State]]:
        """Each y_t (B,), with the step before it and the state after it."""
        memory = self.encode(source, lengths)
        state = self.start(memory)
        embedded = self.recurrence.embed(shifted(target))  # (n, B, E)
        masks = self.recurrence.draw_masks(target.shape[1], target.shape[0])
        for t, symbol in enumerate(target.unbind(1)):
            step = self.step(memory, state, embedded[t], None if masks is None else masks[:, t])
            state = self.advance(memory, step, symbol)
            yield symbol, step, state


def shifted(target: Tensor) -> Tensor:
    """The decoder's inputs, time first: (B, n) targets to (n, B), begun with BOS."""
    first = torch.full_like(target[:, :1], BOS)
    return torch.cat([first, target[:, :-1]], dim=1).t()
