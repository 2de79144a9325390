"""The model: encoder, recurrence and the components, put together step by step.

What stands here is the definition, plain and in log space. `pam.fast` computes the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pam.data.vocabulary import BOS, PAD
from pam.models.decoder import Recurrence
from pam.models.encoder import Encoder
from pam.models.marginalizations.bound import Bound
from pam.models.memory import Memory, Noise, Past
from pam.models.model import Aligned, Model
from pam.models.parts import (
    Attention,
    Coupling,
    Distribution,
    Estimator,
    Feedback,
    Hidden,
    Inference,
    Latent,
    Marginal,
    Marginalization,
    Score,
    Window,
    log_likelihood,
)
from pam.models.readout import GoldOfStep, Readout


@dataclass(frozen=True)
class State:
    """What a hypothesis carries from step to step.

    Attributes:
        hidden: the recurrence's state, per layer (h, c), each (B, H).
        context: (B, D) c_{t-1}, fed to the next state.
        past: what was attended so far.
    """

    hidden: Hidden
    context: Tensor
    past: Past

    @property
    def alignment(self) -> Tensor | None:
        """(B, m) the alignment handed on, or None before the first output."""
        return self.past.alignment

    def select(self, rows: Tensor) -> State:
        """The state of the given hypotheses."""
        hidden = tuple((h[rows], c[rows]) for h, c in self.hidden)
        return State(hidden, self.context[rows], self.past.select(rows))


@dataclass(frozen=True)
class Step:
    """One step before its symbol is chosen.

    Attributes:
        attention: what it attends to.
        marginal: p(y_t | y_<t, x), `marginal.log_probs` of (B, V), and its parts.
        past: what was attended before it.
    """

    attention: Attention
    marginal: Marginal
    past: Past

    @property
    def log_probs(self) -> Tensor:
        """(B, V) log p(y_t | y_<t, x)."""
        return self.marginal.log_probs

    @property
    def log_prior(self) -> Tensor:
        """(B, m)."""
        return self.attention.log_prior

    @property
    def query(self) -> Tensor:
        """(B, H) s_t."""
        return self.attention.query

    def select(self, rows: Tensor) -> Step:
        """The step of the given hypotheses."""
        return Step(self.attention.select(rows), self.marginal.select(rows), self.past.select(rows))


PARTS = (
    *("encoder", "recurrence", "readout", "score", "window", "distribution", "coupling", "latent"),
    *("marginalization", "feedback", "inference", "estimator"),
)
"""What a model is made of, by the names of `Seq2Seq`'s arguments."""


class Seq2Seq(Model):
    """A sequence-to-sequence model with one answer to each question of `pam.models`."""

    def __init__(
        self,
        encoder: Encoder,
        recurrence: Recurrence,
        readout: Readout,
        score: Score,
        window: Window,
        distribution: Distribution,
        coupling: Coupling,
        latent: Latent,
        marginalization: Marginalization,
        feedback: Feedback,
        inference: Inference,
        estimator: Estimator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.recurrence = recurrence
        self.readout = readout
        self.score = score
        self.window = window
        self.distribution = distribution
        self.coupling = coupling
        self.latent = latent
        self.marginalization = marginalization
        self.feedback = feedback
        self.inference = inference
        self.estimator = estimator

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encodes sources (B, m) of real `lengths` (B,)."""
        values, final = self.encoder(source, lengths)
        memory = Memory(
            values=values,
            mask=torch.arange(source.shape[1], device=source.device) < lengths[:, None],
            keys=self.score.keys(values),
            readout=self.readout.of_values(values),
            start=self.recurrence.start(final),
        )
        return self.latent.of_sentence(memory, final)

    def start(self, memory: Memory) -> State:
        """The state before the first output; its context is empty unless the feedback has one."""
        alignment = self.feedback.first(memory)
        empty = memory.values.new_zeros(memory.values.shape[0], memory.values.shape[2])
        context = empty if alignment is None else memory.context(alignment)
        return State(memory.start, context, Past(alignment=alignment))

    def attend(
        self,
        memory: Memory,
        state: State,
        embedded: Tensor,
        masks: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Attention:
        """Where a step looks, in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

        Args:
            memory: the encoded sources.
            state: what the last step handed on.
            embedded: (B, E) embedding of y_{t-1}.
            masks: (layers, B, H) dropout masks, or None.
            noise: of this step; without it latents are their means and no position is drawn.
        """
        query, hidden = self.recurrence(embedded, state.context, state.hidden, masks)
        scores = self.score(query, memory, state.past)
        scores, mask = self.window(scores, query, memory.mask, state.past)
        log_prior = self.coupling(scores, state.past.alignment, mask, self.distribution)
        glimpse = self.latent.of_step(log_prior, memory, noise)
        gumbel = None if noise is None else noise.gumbel
        return Attention(
            query=query,
            viewed=self.readout.view(query, glimpse.shift),
            log_prior=glimpse.log_weights,
            hidden=hidden,
            drawn=self.feedback.draw(log_prior, gumbel),
            shift=glimpse.shift,
            cost=glimpse.cost,
            gumbel=gumbel,
        )

    def step(
        self,
        memory: Memory,
        state: State,
        embedded: Tensor,
        masks: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Step:
        """p(y_t | y_<t, x) and what it comes from; arguments as those of `attend`."""
        attention = self.attend(memory, state, embedded, masks, noise)
        return Step(attention, self.marginalization(attention, memory, self.readout), state.past)

    def read(self, memory: Memory, state: State, symbol: Tensor) -> Step:
        """The step after `symbol` (B,) was written last; latents are their means, unless they are
        to be sampled at test time too."""
        noise = Noise.draw(1, memory).at(0) if self.latent.sampling else None
        return self.step(memory, state, self.recurrence.embed(symbol), noise=noise)

    def advance(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """The state after y_t = `symbol` (B,) was written."""
        return self.move(memory, step.past, step.attention, step.marginal, symbol)

    def move(
        self,
        memory: Memory,
        past: Past,
        attention: Attention,
        marginal: Marginal | None,
        symbol: Tensor,
    ) -> State:
        """As `advance`; the marginal may be None where the feedback has no need of it."""
        alignment = self.feedback(attention, marginal, symbol, memory.mask)
        context = memory.context(alignment)
        if attention.shift is not None:
            context = context + attention.shift
        if not self.feedback.feeds:
            context = torch.zeros_like(context)
        return State(attention.hidden, context, past.then(alignment))

    def teacher_forced(self, source: Tensor, lengths: Tensor, target: Tensor) -> Aligned:
        """log p(y_t | y_<t, x) of given targets, the reference computation.

        Args:
            source: (B, m) padded at the end; lengths: (B,).
            target: (B, n) with the end symbol, padded at the end.

        Returns:
            Entries at padded target positions carry no meaning; mask them.
        """
        log_probs, priors, alignments = [], [], []
        for symbol, step, state in self._forced(self.encode(source, lengths), target):
            log_probs.append(log_likelihood(step.marginal, symbol))
            priors.append(step.log_prior.exp())
            alignments.append(state.alignment)
        return Aligned(
            torch.stack(log_probs, 1),
            torch.stack(priors, 1),
            torch.stack([a for a in alignments if a is not None], 1),
        )

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximizes: log p(y_t | y_<t, x), or a bound of it, less what latents cost.

        Args:
            source: (B, m) padded at the end; lengths: (B,).
            target: (B, n) with the end symbol, padded at the end.

        Returns:
            (B, n); what a whole sentence costs is paid at its last symbol. Entries at padded target
            positions carry no meaning; mask them.
        """
        if self.latent.samples > 1:
            return averaged(self._objective, self.latent.samples, source, lengths, target)
        return self._objective(source, lengths, target)

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return self.objective_and_prior(source, lengths, target)[0]

    def objective_and_prior(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The objective (B, n) from one draw of all that is drawn, and the prior (B, n, m)."""
        memory = self.encode(source, lengths)
        forced = list(self._forced(memory, target, draws=True))
        log_q = self.infer(source, lengths, target)
        values, alignments = [], []
        for t, (symbol, step, state) in enumerate(forced):
            q = None if log_q is None else log_q[:, t]
            values.append(self._value(memory, step, symbol, q))
            alignments.append(state.alignment)
        real = (target != PAD).t().to(memory.values)
        summed = (torch.stack([a for a in alignments if a is not None]) * real[:, :, None]).sum(0)
        prior = torch.stack([step.log_prior.exp() for _, step, _ in forced], 1)
        return self.charged(torch.stack(values, 1), memory, summed, target), prior

    def _value(self, memory: Memory, step: Step, symbol: Tensor, log_q: Tensor | None) -> Tensor:
        """What a step adds to the objective, (B,)."""
        attention = step.attention
        if isinstance(self.marginalization, Bound):
            gold = GoldOfStep(self.readout, attention.viewed, memory.readout, symbol)
            value = self.marginalization.objective(
                gold, attention.log_prior, log_q, self.estimator, attention.gumbel
            )
        else:
            value = log_likelihood(step.marginal, symbol)
        return value if attention.cost is None else value - attention.cost

    def charged(
        self, values: Tensor, memory: Memory, summed: Tensor | None, target: Tensor
    ) -> Tensor:
        """Values (B, n) less what the latent and the score cost a whole sentence.

        Args:
            summed: (B, m) alignments handed on, added up over the real symbols of `target` (B, n);
                None where the score costs nothing.
        """
        both = memory.cost, None if summed is None else self.score.cost(memory, summed)
        costs = [cost for cost in both if cost is not None]
        if not costs:
            return values
        return paid_at_end(values, -torch.stack(costs).sum(0), target)

    def progress(self, share: float) -> None:
        self.latent.share = share

    def infer(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        """log q_t(a | x, y), (B, n, m), or None; see `Inference`. Drawn after all else, its dropout
        leaves that of the likelihood as it is."""
        log_q: Tensor | None = self.inference(
            source, lengths, target, self.encoder.embed, self.recurrence.embed
        )
        return log_q

    def draw_noise(self, memory: Memory, steps: int) -> Noise | None:
        """The noise of a training batch, None if the model draws nothing."""
        parts = self.latent, self.feedback, self.estimator
        return Noise.draw(steps, memory) if any(part.draws for part in parts) else None

    def _forced(
        self, memory: Memory, target: Tensor, draws: bool = False
    ) -> Iterator[tuple[Tensor, Step, State]]:
        """Each y_t (B,), with the step before it and the state after it."""
        state = self.start(memory)
        embedded = self.recurrence.embed(shifted(target))  # (n, B, E)
        masks = self.recurrence.draw_masks(target.shape[1], target.shape[0])
        noise = self.draw_noise(memory, target.shape[1]) if draws else None
        for t, symbol in enumerate(target.unbind(1)):
            step = self.step(
                memory,
                state,
                embedded[t],
                None if masks is None else masks[:, t],
                None if noise is None else noise.at(t),
            )
            state = self.advance(memory, step, symbol)
            yield symbol, step, state


def shifted(target: Tensor) -> Tensor:
    """The decoder's inputs, time first: (B, n) targets to (n, B), begun with BOS."""
    first = torch.full_like(target[:, :1], BOS)
    return torch.cat([first, target[:, :-1]], dim=1).t()


def paid_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Values (B, n) with the amount (B,) of each sentence added at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])


def averaged(
    objective: Callable[[Tensor, Tensor, Tensor], Tensor],
    samples: int,
    source: Tensor,
    lengths: Tensor,
    target: Tensor,
) -> Tensor:
    """The mean of an objective (B, n) over so many draws of all that is drawn."""
    given = (part.repeat_interleave(samples, 0) for part in (source, lengths, target))
    values: Tensor = objective(*given).unflatten(0, (-1, samples))
    return values.mean(1)
