"""A model of an encoder, a decoder and an alignment head, whatever encoder and decoder are.

A subclass says how its decoder makes the query of a step (`ask`), and `forward` how queries are
made where targets are given. All else is the same for all of them: the recurrence of the head, the
one loop over time (`unroll`), the likelihood and the objective.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models.couplings import smoothed_step
from pam.models.guide import Guide
from pam.models.head import AttentionHead, AttentionState
from pam.models.interfaces import AttentionHistory, Memory, Noise, Smoothing
from pam.models.model import Model, TeacherForced
from pam.models.outputs import (
    Attention,
    PositionDistribution,
    SingleContext,
    TokenDistribution,
)
from pam.models.packing import PackedTargets, cat_optional, optional_rows

# What steps hand each other. Shapes: see `pam.models.interfaces`.


@dataclass(frozen=True, eq=False)
class State:
    """The state of n hypotheses between two steps."""

    hidden: Any  # the decoder's own: tensors with a row for each hypothesis, in nested tuples
    attention: AttentionState  # the head's

    @property
    def alignment(self) -> Tensor | None:
        """The alignment handed on, (n, m), or None before the first output."""
        return self.attention.alignment

    def select(self, rows: Tensor | slice) -> State:
        """Keep some rows."""
        return State(nested_rows(self.hidden, rows), self.attention.select(rows))

    def first(self, rows: int) -> State:
        """Keep the first rows."""
        if rows == len(self.attention.context):
            return self
        return self.select(slice(rows))


@dataclass(frozen=True, eq=False)
class Query:
    """What a decoder gives the head for a step; arguments of `AttentionHead.step`."""

    query: Tensor  # (n, H) s_t
    hidden: Any = ()  # the decoder's new state, see `State`
    scores: Tensor | None = None
    embedded: Tensor | None = None
    noise: Noise | None = None
    log_likelihood: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """A step before its symbol is chosen."""

    output: TokenDistribution  # p(y_t | y_<t, x), computed when it is asked for
    hidden: Any  # the decoder's new state
    history: AttentionHistory  # what was attended before this step

    @property
    def log_prior(self) -> Tensor:
        """log prior_t, (n, m)."""
        return self.output.attention.log_prior

    @property
    def query(self) -> Tensor:
        """The decoder's output s_t, (n, H)."""
        return self.output.attention.query

    def select(self, rows: Tensor) -> Step:
        """Keep the rows of some hypotheses."""
        return Step(
            output=self.output.select(rows),
            hidden=nested_rows(self.hidden, rows),
            history=self.history.select(rows),
        )


def nested_rows(tensors: Any, rows: Tensor | slice) -> Any:
    """Take some rows of each tensor in nested tuples, where there is one."""
    if isinstance(tensors, tuple):
        return tuple(nested_rows(part, rows) for part in tensors)
    return optional_rows(tensors, rows)


@dataclass(frozen=True, eq=False)
class Unrolled:
    """The recurrence over given targets, with one row per token: N rows."""

    packed: PackedTargets
    memory: Memory  # the encoded sources
    output: TokenDistribution  # the distribution of every token
    alignments: list[Tensor | None]  # the alignment (n, m) that each step handed on
    observed: Tensor | None  # (N,) log p of the tokens, if the steps took it to go on

    def log_prob(self) -> Tensor:
        """Return log p(y_t | y_<t, x) of all tokens, (N,)."""
        if self.observed is not None:
            return self.observed
        # Nothing waited for it: it is computed for all tokens at once.
        return self.output.log_prob(self.packed.symbols)


class AttentionModel(Model):
    """An encoder that gives h_a, a decoder that gives queries s_t, and an alignment head.

    The head's components are parts of the model, under their own names.
    """

    def __init__(
        self, encoder: Any, decoder: Any, head: AttentionHead, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        for name, part in head.parts.items():
            self.add_module(name, part)
        self.gives_positions = head.marginalization.gives_positions

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1) -> Memory:
        """Encode sources for search.

        Args:
            source: symbols (B, m) or vectors (B, m, units); lengths: (B,) their real lengths.
            beam: hypotheses of each sentence; the memory has a row for each of them.
        """
        memory = self.for_search(self.encoded(source, lengths), rows=beam * len(source))
        return self.head.for_search(memory, beam)

    @abstractmethod
    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encode sources for given targets, with kernels that gather the gradients of all steps."""

    def for_search(self, memory: Memory, rows: int) -> Memory:
        """Return the memory with the decoder's kernels of search, whose steps have so many rows."""
        return memory

    # Step by step, as in a search.

    def start(self, memory: Memory) -> State:
        """Return the state before the first output."""
        return State(self.start_hidden(memory), self.head.start(memory))

    @abstractmethod
    def start_hidden(self, memory: Memory) -> Any:
        """Return the decoder's state before the first output."""

    @abstractmethod
    def ask(self, memory: Memory, state: State, symbol: Tensor) -> Query:
        """Run the decoder on the last symbols y_{t-1} (n,)."""

    def step(self, memory: Memory, state: State, symbol: Tensor) -> Step:
        """Compute s_t, the prior and the distribution of y_t after symbols y_{t-1} (n,)."""
        return self.attend(memory, state, self.ask(memory, state, symbol))

    def attend(self, memory: Memory, state: State, query: Query) -> Step:
        """Let the head take the step of a query."""
        history = state.attention.history
        output = self.head.step(
            memory=memory,
            history=history,
            query=query.query,
            scores=query.scores,
            embedded=query.embedded,
            noise=query.noise,
            log_likelihood=query.log_likelihood,
        )
        return Step(output, query.hidden, history)

    def update(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """Return the state after y_t = `symbol` (n,) was written."""
        attention = self.head.update(memory, step.history, step.output, symbol)
        return State(step.hidden, attention)

    # Given targets.

    @abstractmethod
    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        """Run all steps of given targets; arguments as of `log_likelihood`.

        With `draws`, what training draws is drawn.
        """

    def unroll(
        self,
        encoded: Memory,
        packed: PackedTargets,
        query: Callable[[Memory, State, int], Query],
        embedded: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> Unrolled:
        """Take one step after another: the one loop over time.

        Args:
            query: gives the query of step t, which it may have computed ahead of time.
            embedded: (N, E) the embeddings of y_{t-1}, if copying reads them.
            log_likelihood: (N, m) log p(y_t | s_t, h_a), if it was computed ahead of time.
        """
        memory = encoded
        state = self.start(memory)

        # Sentences that have ended leave the batch: each step keeps the first rows.
        attentions: list[Attention] = []
        alignments: list[Tensor | None] = []
        log_probs: list[Tensor | None] = []
        for t, symbol in enumerate(packed.split(packed.symbols)):
            memory = memory.first(len(symbol))
            state = state.first(len(symbol))
            step = self.attend(memory, state, query(memory, state, t))
            state = self.update(memory, step, symbol)
            attentions.append(step.output.attention)
            alignments.append(state.alignment)
            log_probs.append(state.attention.log_prob)

        attention = Attention.cat(attentions)
        return Unrolled(
            packed=packed,
            memory=encoded,
            output=self.head.of_tokens(encoded, attention, packed, embedded, log_likelihood),
            alignments=alignments,
            observed=cat_optional(log_probs),
        )

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return log p(y_t | y_<t, x), (B, T); see `Model.log_likelihood`."""
        unrolled: Unrolled = self(source, lengths, target)
        return unrolled.packed.unpack(unrolled.log_prob())

    def objective(
        self, source: Tensor, lengths: Tensor, target: Tensor, guide: Guide | None = None
    ) -> Tensor:
        """Return what training maximizes, (B, T).

        It is log p(y_t | y_<t, x), or a bound of it, less the cost of latents. The cost of a whole
        sentence is paid at its last symbol. With several samples, it is the mean over as many
        draws of everything that is drawn. The cost of given links, `guide`, is paid at each symbol
        that has one.
        """
        samples = self.head.latent.samples
        if samples == 1:
            return self._objective(source, lengths, target, guide)

        of_draws = self._objective(
            source.repeat_interleave(samples, 0),
            lengths.repeat_interleave(samples, 0),
            target.repeat_interleave(samples, 0),
            None if guide is None else guide.repeat(samples),
        )
        by_sentence: Tensor = of_draws.unflatten(0, (-1, samples))
        return by_sentence.mean(1)

    def _objective(
        self, source: Tensor, lengths: Tensor, target: Tensor, guide: Guide | None
    ) -> Tensor:
        """Return the objective (B, T) of one draw."""
        return self.unrolled_objective(source, lengths, target, guide)[0]

    def unrolled_objective(
        self, source: Tensor, lengths: Tensor, target: Tensor, guide: Guide | None = None
    ) -> tuple[Tensor, Unrolled]:
        """Return the objective (B, T) of one draw, and the steps that gave it."""
        unrolled: Unrolled = self(source, lengths, target, draws=True)
        packed = unrolled.packed
        output = unrolled.output

        # Drawn after all else, so that its dropout leaves that of the likelihood as it is.
        log_q = self._infer(source, lengths, target, unrolled)
        head = self.head
        values = head.marginalization.bound(output, packed.symbols, log_q, head.estimator)
        if values is None:
            values = unrolled.log_prob()
        if self.label_smoothing:
            assert isinstance(output, SingleContext)
            values = output.smoothed(self.label_smoothing, values, packed.symbols)
        if output.attention.cost is not None:
            values = values - output.attention.cost

        values = packed.unpack(values)
        if guide is not None:
            values = values - guide.cost(self.attention(unrolled, guide.of_posterior))
        return self._pay_for_sentences(values, unrolled, target), unrolled

    def attention(self, unrolled: Unrolled, of_posterior: bool) -> Tensor:
        """Return the priors or posteriors (B, T, m), rows in the order of the given targets."""
        alignment = unrolled.output.attention.prior
        if of_posterior:
            alignment = self._posterior(unrolled)
        return unrolled.packed.unpack(alignment)

    def _infer(
        self, source: Tensor, lengths: Tensor, target: Tensor, unrolled: Unrolled
    ) -> Tensor | None:
        """Return log q (N, m) of the inference network for all tokens, or None without one."""
        packed = unrolled.packed
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            log_q: Tensor | None = self.head.inference(
                source, lengths, target, self.encoder.embed, self.decoder.embed
            )
        if log_q is None:
            return None

        log_q = log_q.to(unrolled.output.attention.log_prior.dtype)
        by_time = log_q[packed.order].transpose(0, 1)
        return packed.pack(by_time[: packed.steps])

    def _pay_for_sentences(self, values: Tensor, unrolled: Unrolled, target: Tensor) -> Tensor:
        """Subtract the costs of a whole sentence, of its latent and its score, from (B, T)."""
        packed = unrolled.packed
        costs = []
        if unrolled.memory.latent.cost is not None:
            costs.append(unrolled.memory.latent.cost)

        if self.head.score.costs:
            alignment = cat_optional(unrolled.alignments)
            assert alignment is not None
            prior = packed.pad(unrolled.output.attention.prior)
            score_cost = self.head.score.cost(unrolled.memory, prior, packed.pad(alignment))
            if score_cost is not None:
                costs.append(score_cost)

        if not costs:
            return values

        total = torch.stack(costs).sum(0)[torch.argsort(packed.order)]
        return pay_at_end(values, -total, target)

    @property
    def smoothing(self) -> Smoothing:
        return self.head.smoothing

    @torch.no_grad()
    def align(
        self, source: Tensor, lengths: Tensor, target: Tensor, smooth: bool = False
    ) -> Tensor:
        unrolled: Unrolled = self(source, lengths, target)
        packed = unrolled.packed
        if not self.gives_positions:
            handed_on = cat_optional(unrolled.alignments)
            assert handed_on is not None
            target_lengths = (target != PAD).sum(1)
            return self.head.coupling.given_all(packed.unpack(handed_on), target_lengths)

        posterior = self._posterior(unrolled)
        if smooth and self.head.coupling.is_chain:
            posterior = self._smoothed(unrolled, posterior)
        return packed.unpack(posterior)

    def _posterior(self, unrolled: Unrolled) -> Tensor:
        """Return the posteriors (N, m) of a model whose positions have likelihoods."""
        output = unrolled.output
        assert isinstance(output, PositionDistribution)
        if not self.head.input_feeding.hands_on_posterior(output):
            return output.observe(unrolled.packed.symbols).alignment

        posterior = cat_optional(unrolled.alignments)
        assert posterior is not None
        return posterior

    def _smoothed(self, unrolled: Unrolled, posterior: Tensor) -> Tensor:
        """Compute the posteriors (N, m) given whole targets from those given the symbols so far.

        This is the backward pass, from the last step to the first.
        """
        packed = unrolled.packed
        queries = packed.split(unrolled.output.attention.query)
        posteriors = list(packed.split(posterior))
        histories = self._histories(unrolled)

        for t in range(packed.steps - 1, 0, -1):
            rows = packed.batch_sizes[t]
            weights = self.head.transitions(unrolled.memory.first(rows), histories[t], queries[t])
            # Sentences that end at the step before have nothing that follows.
            going_on = smoothed_step(posteriors[t - 1][:rows], posteriors[t], weights)
            posteriors[t - 1] = torch.cat([going_on, posteriors[t - 1][rows:]])

        return torch.cat(posteriors)

    def _histories(self, unrolled: Unrolled) -> list[AttentionHistory]:
        """Return for each step what was attended before it, with the rows of the step."""
        history = self.head.start(unrolled.memory).history
        histories = []
        for rows, alignment in zip(unrolled.packed.batch_sizes, unrolled.alignments, strict=True):
            assert alignment is not None
            history = history.select(slice(rows))
            histories.append(history)
            history = history.then(alignment)
        return histories

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        """Return all that is known of given targets; see `Model.teacher_force`."""
        forced = super().teacher_force(source, lengths, target)
        alignment = self.head.coupling.given_all(forced.alignment, (target != PAD).sum(1))
        posterior = alignment
        if self.gives_positions:
            posterior = forced.posterior

        return replace(forced, alignment=alignment, posterior=posterior)


def pay_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Add the amount (B,) of each sentence to its value (B, T) at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])
