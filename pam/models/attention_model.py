"""The parts that all models made of components share, whatever their encoder and decoder.

A subclass has an encoder and the recurrence: `start`, `step` and `update`, and `forward` over given
targets. The memory of a source, the prior over positions, the loop over steps, the likelihood and
the objective are the same for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models import interfaces
from pam.models.copying import Copying
from pam.models.interfaces import AttentionHistory, Contexts, Memory, Noise
from pam.models.marginalization import Marginalization
from pam.models.model import Model, TeacherForced
from pam.models.outputs import Attention, TokenDistribution
from pam.models.packing import PackedTargets, cat_optional
from pam.models.readout import Readout


@dataclass(frozen=True, eq=False)
class Unrolled:
    """The recurrence over given targets, with one row per token: N rows."""

    packed: PackedTargets
    memory: Memory  # the encoded sources
    output: TokenDistribution  # the distribution of every token
    alignments: list[Tensor | None]  # the alignment (n, m) that each step handed on

    def log_prob(self) -> Tensor:
        """Return log p(y_t | y_<t, x) of all tokens, (N,)."""
        return self.output.log_prob(self.packed.symbols)

    def prior(self) -> Tensor:
        """Return the priors (B, T, m), rows in the order of the given targets."""
        return self.packed.unpack(self.output.attention.prior)


class AttentionParts(Protocol):
    """The components that read encoder states, in a whole model or in a layer."""

    score: interfaces.Score
    coupling: interfaces.Coupling
    marginalization: Marginalization
    readout: Readout


def remember(
    parts: AttentionParts, values: Tensor, mask: Tensor, bf16: bool = False, static: bool = False
) -> Memory:
    """Prepare encoder states for the steps of given targets.

    Args:
        values: (B, m, D) encoder states h_a; mask: (B, m) true at real positions.
        bf16: whether large products are taken in bfloat16; static: see `Model.static`.
    """
    dtype = parts.readout.output.weight.dtype
    with torch.autocast(values.device.type, torch.bfloat16, enabled=bf16):
        keys = parts.score.keys(values)
        views = None
        if parts.marginalization.gives_positions:
            views = parts.readout.of_values(values).to(dtype)
    if isinstance(keys, Tensor):
        keys = keys.to(dtype)

    contexts = Contexts(values)
    viewed = None
    if parts.marginalization.needs_context:
        viewed = contexts

    return Memory(
        values=values,
        mask=mask,
        fed=contexts,
        viewed=viewed,
        keys=keys,
        start=(),
        cells=(),
        readout=parts.readout.for_targets(views, bf16, static),
        transitions=parts.coupling.transitions(values.shape[1]),
    )


class AttentionModel(Model):
    """A model with one component for each question of `pam.models.options`.

    Its encoder gives h_a, its decoder the queries s_t.
    """

    def __init__(
        self,
        encoder: Any,
        decoder: Any,
        readout: Readout,
        score: interfaces.Score,
        window: interfaces.Window,
        distribution: interfaces.Distribution,
        coupling: interfaces.Coupling,
        latent: interfaces.Latent,
        marginalization: Marginalization,
        input_feeding: interfaces.InputFeeding,
        inference: interfaces.Inference,
        estimator: interfaces.Estimator,
        copying: Copying,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.readout = readout

        # The prior over positions.
        self.score = score
        self.window = window
        self.distribution = distribution
        self.coupling = coupling
        self.latent = latent

        # The output, and what is fed back.
        self.marginalization = marginalization
        self.gives_positions = marginalization.gives_positions
        self.input_feeding = input_feeding
        self.inference = inference
        self.estimator = estimator
        self.copying = copying

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Memory:
        """Encode sources for search.

        Args:
            source: symbols (B, m) or vectors (B, m, units); lengths: (B,) their real lengths.
            beam: hypotheses of each sentence; the memory has a row for each of them.
            bf16: whether the output layer takes its products in bfloat16.
        """
        memory = self.for_search(self.encoded(source, lengths), rows=beam * len(source))
        viewed = None
        if self.marginalization.needs_context:
            viewed = Contexts(memory.values, self.readout.of_values.weight)

        readout = self.readout.for_search(memory.readout.views, beam, bf16)
        return replace(memory, viewed=viewed, readout=readout).for_beam(beam)

    @abstractmethod
    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encode sources for given targets, with kernels that gather the gradients of all steps."""

    def for_search(self, memory: Memory, rows: int) -> Memory:
        """Return the memory with the decoder's kernels of search, whose steps have so many rows."""
        return memory

    def attend(
        self, memory: Memory, query: Tensor, history: AttentionHistory, noise: Noise | None = None
    ) -> Attention:
        """Compute the prior over positions for the query s_t (n, H)."""
        scores = self.score(query, memory, history)
        return self.weigh(scores, query, memory, history, noise)

    def weigh(
        self,
        scores: Tensor,
        query: Tensor,
        memory: Memory,
        history: AttentionHistory,
        noise: Noise | None = None,
    ) -> Attention:
        """Compute the prior over positions from scores e_t (n, m) of the query s_t (n, H)."""
        scores, mask = self.window(scores, query, memory.mask, history)
        log_weights = self.coupling(scores, mask, self.distribution, memory, history)
        latent = self.latent.of_step(log_weights, memory, noise)

        gumbel = None
        if noise is not None:
            gumbel = noise.gumbel

        log_prior = latent.log_weights
        return Attention(
            query=query,
            log_prior=log_prior,
            prior=log_prior.exp(),
            shift=latent.shift,
            cost=latent.cost,
            gumbel=gumbel,
        )

    @abstractmethod
    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        """Run all steps of given targets; arguments as of `log_likelihood`.

        With `draws`, what training draws is drawn.
        """

    def unroll(self, encoded: Memory, packed: PackedTargets, inputs: Iterable[Any]) -> Unrolled:
        """Take one step after another, with the inputs of each."""
        memory = encoded
        state = self.start(memory)

        # Sentences that have ended leave the batch: each step keeps the first rows.
        outputs = []
        alignments = []
        for previous, symbol in zip(inputs, packed.split(packed.symbols), strict=True):
            memory, state = memory.first(len(symbol)), state.first(len(symbol))
            step = self.step(memory, state, previous)
            state = self.update(memory, step, symbol)
            outputs.append(step.output)
            alignments.append(state.alignment)

        output = TokenDistribution.cat(outputs, packed)
        return Unrolled(packed, encoded, output, alignments)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return log p(y_t | y_<t, x), (B, T); see `Model.log_likelihood`."""
        unrolled: Unrolled = self(source, lengths, target)
        return unrolled.packed.unpack(unrolled.log_prob())

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return what training maximizes, (B, T).

        It is log p(y_t | y_<t, x), or a bound of it, less the cost of latents. The cost of a whole
        sentence is paid at its last symbol. With several samples, it is the mean over as many
        draws of everything that is drawn.
        """
        samples = self.latent.samples
        if samples == 1:
            return self._objective(source, lengths, target)

        of_draws = self._objective(
            source.repeat_interleave(samples, 0),
            lengths.repeat_interleave(samples, 0),
            target.repeat_interleave(samples, 0),
        )
        by_sentence: Tensor = of_draws.unflatten(0, (-1, samples))
        return by_sentence.mean(1)

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return the objective (B, T) of one draw."""
        return self.unrolled_objective(source, lengths, target)[0]

    def unrolled_objective(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, Unrolled]:
        """Return the objective (B, T) of one draw, and the steps that gave it."""
        unrolled: Unrolled = self(source, lengths, target, draws=True)
        packed = unrolled.packed
        output = unrolled.output

        # Drawn after all else, so that its dropout leaves that of the likelihood as it is.
        log_q = self._infer(source, lengths, target, unrolled)
        values = self.marginalization.objective(output, packed.symbols, log_q, self.estimator)
        if output.attention.cost is not None:
            values = values - output.attention.cost

        values = packed.unpack(values)
        return self._pay_for_sentences(values, unrolled, target), unrolled

    def _infer(
        self, source: Tensor, lengths: Tensor, target: Tensor, unrolled: Unrolled
    ) -> Tensor | None:
        """Return log q (N, m) of the inference network for all tokens, or None without one."""
        packed = unrolled.packed
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            log_q: Tensor | None = self.inference(
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
        if unrolled.memory.cost is not None:
            costs.append(unrolled.memory.cost)

        if self.score.costs:
            alignment = cat_optional(unrolled.alignments)
            assert alignment is not None
            prior = packed.pad(unrolled.output.attention.prior)
            score_cost = self.score.cost(unrolled.memory, prior, packed.pad(alignment))
            if score_cost is not None:
                costs.append(score_cost)

        if not costs:
            return values

        total = torch.stack(costs).sum(0)[torch.argsort(packed.order)]
        return pay_at_end(values, -total, target)

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        """Return all that is known of given targets; see `Model.teacher_force`."""
        forced = super().teacher_force(source, lengths, target)
        alignment = self.coupling.given_all(forced.alignment, (target != PAD).sum(1))
        posterior = alignment
        if self.gives_positions:
            posterior = forced.posterior

        return replace(forced, alignment=alignment, posterior=posterior)


def pay_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Add the amount (B,) of each sentence to its value (B, T) at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])
