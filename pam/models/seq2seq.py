"""The model: encoder, decoder and the components, put together step by step.

`step` and `update` are the only recurrence: teacher forcing (`forward`), search and analysis go
through them. What is fast about them is in the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models import interfaces
from pam.models.copying import Copying
from pam.models.interfaces import AttentionHistory, Contexts, Hidden, Memory, Noise
from pam.models.lstm import Decoder, Encoder, known
from pam.models.marginalization import Marginalization
from pam.models.model import Model, TeacherForced
from pam.models.outputs import Attention, TokenDistribution
from pam.models.packing import PackedTargets, joined, rows_of
from pam.models.readout import Readout


@dataclass(frozen=True, eq=False)
class State:
    """What a hypothesis carries from step to step."""

    hidden: Hidden  # the decoder's state, per layer (h, c), each (n, H)
    # what the next state is fed: c_{t-1}, (n, D), or W_c c_{t-1}, (n, 4H); see `Memory.fed`
    context: Tensor
    history: AttentionHistory  # what was attended so far

    @property
    def alignment(self) -> Tensor | None:
        """(n, m) the alignment handed on, or None before the first output."""
        return self.history.alignment

    def select(self, rows: Tensor | slice) -> State:
        """Keep some rows."""
        hidden = tuple((rows_of(h, rows), rows_of(c, rows)) for h, c in self.hidden)
        return State(hidden, rows_of(self.context, rows), self.history.select(rows))

    def first(self, rows: int) -> State:
        """Keep the first rows."""
        return self if rows == len(self.context) else self.select(slice(rows))


@dataclass(frozen=True, eq=False)
class Previous:
    """What a step is given of y_{t-1}, and what it draws."""

    gates: Tensor  # (n, 4H) what y_{t-1} gives the decoder, by `Decoder.gates`
    embedded: Tensor | None = None  # (n, E) its embedding, where the switch of copying reads it
    masks: Tensor | None = None  # (layers, n, H) dropout masks, or None
    noise: Noise | None = None  # without it latents are their means, and no position is drawn


@dataclass(frozen=True, eq=False)
class Step:
    """One step before its symbol is chosen."""

    output: TokenDistribution  # p(y_t | y_<t, x), computed when it is asked for
    hidden: Hidden  # the decoder's new state
    history: AttentionHistory  # what was attended before it
    context: Tensor | None = (
        None  # the prior's as `Memory.viewed` reads it, until rows are selected
    )

    @property
    def log_prior(self) -> Tensor:
        return self.output.attention.log_prior

    @property
    def query(self) -> Tensor:
        return self.output.attention.query

    def select(self, rows: Tensor) -> Step:
        """Keep the rows of some hypotheses."""
        hidden = tuple((rows_of(h, rows), rows_of(c, rows)) for h, c in self.hidden)
        return Step(self.output.select(rows), hidden, self.history.select(rows))


@dataclass(frozen=True, eq=False)
class Unrolled:
    """The recurrence over targets that are given, all tokens together."""

    packed: PackedTargets
    memory: Memory  # the encoded sources
    output: TokenDistribution  # of all tokens
    alignments: list[Tensor | None]  # (n, m) what each step handed on

    def log_prob(self) -> Tensor:
        """log p(y_t | y_<t, x) of all tokens, (N,)."""
        return self.output.log_prob(self.packed.symbols)

    def prior(self) -> Tensor:
        """(B, T, m) the alignments before symbols were seen, rows as they were given."""
        return self.packed.unpack(self.output.attention.prior)


class AttentionModel(Model):
    """A model with one component for each question of `pam.models.options`, whatever encodes, and
    whatever gives the queries.
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
        self.encoder, self.decoder, self.readout = encoder, decoder, readout
        self.score, self.window, self.distribution = score, window, distribution
        self.coupling, self.latent, self.marginalization = coupling, latent, marginalization
        self.input_feeding, self.inference, self.estimator = input_feeding, inference, estimator
        self.copying = copying

    def attend(
        self, memory: Memory, query: Tensor, history: AttentionHistory, noise: Noise | None = None
    ) -> Attention:
        """Where a step with query s_t (n, H) looks."""
        return self.weigh(self.score(query, memory, history), query, memory, history, noise)

    def weigh(
        self,
        scores: Tensor,
        query: Tensor,
        memory: Memory,
        history: AttentionHistory,
        noise: Noise | None = None,
    ) -> Attention:
        """Where a step with query s_t (n, H) and scores e_t (n, m) looks."""
        scores, mask = self.window(scores, query, memory.mask, history)
        of_scores = self.coupling(scores, mask, self.distribution, memory, history)
        latent = self.latent.of_step(of_scores, memory, noise)
        gumbel = None if noise is None else noise.gumbel
        log_prior = latent.log_weights
        return Attention(
            query=query,
            log_prior=log_prior,
            prior=log_prior.exp(),
            shift=latent.shift,
            cost=latent.cost,
            gumbel=gumbel,
        )

    # Given targets.

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        unrolled: Unrolled = self(source, lengths, target)
        return unrolled.packed.unpack(unrolled.log_prob())

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximizes, (B, T): log p(y_t | y_<t, x), or a bound of it, less what
        latents cost; what a whole sentence costs is paid at its last symbol. The mean over so many
        draws of all that is drawn.
        """
        if self.latent.samples == 1:
            return self._objective(source, lengths, target)
        given = (
            part.repeat_interleave(self.latent.samples, 0) for part in (source, lengths, target)
        )
        values: Tensor = self._objective(*given).unflatten(0, (-1, self.latent.samples))
        return values.mean(1)

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return self.unrolled_objective(source, lengths, target)[0]

    def unrolled_objective(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, Unrolled]:
        """The objective (B, T) from one draw of all that is drawn, and the steps that gave it."""
        unrolled: Unrolled = self(source, lengths, target, draws=True)
        packed, output = unrolled.packed, unrolled.output
        # Drawn after all else, so that its dropout leaves that of the likelihood as it is.
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            log_q = self.inference(source, lengths, target, self.encoder.embed, self.decoder.embed)
        if log_q is not None:
            by_time = log_q.to(output.attention.log_prior.dtype)[packed.order].transpose(0, 1)
            log_q = packed.pack(by_time[: packed.steps])

        values = self.marginalization.objective(output, packed.symbols, log_q, self.estimator)
        cost = output.attention.cost
        values = packed.unpack(values if cost is None else values - cost)
        return self._pay_for_sentences(values, unrolled, target), unrolled

    def _pay_for_sentences(self, values: Tensor, unrolled: Unrolled, target: Tensor) -> Tensor:
        """Values (B, T) less what the latent and the score cost a whole sentence."""
        packed, of_score = unrolled.packed, None
        if self.score.costs:
            alignment = joined(unrolled.alignments)
            assert alignment is not None
            prior = packed.pad(unrolled.output.attention.prior)
            of_score = self.score.cost(unrolled.memory, prior, packed.pad(alignment))
        costs = [cost for cost in (unrolled.memory.cost, of_score) if cost is not None]
        if not costs:
            return values
        total = torch.stack(costs).sum(0)[torch.argsort(packed.order)]
        return pay_at_end(values, -total, target)

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        forced = super().teacher_force(source, lengths, target)
        alignment = self.coupling.given_all(forced.alignment, (target != PAD).sum(1))
        posterior = forced.posterior if self.marginalization.gives_positions else alignment
        return replace(forced, alignment=alignment, posterior=posterior)


class Seq2Seq(AttentionModel):
    """Encoder and decoder of LSTMs, with components between them."""

    encoder: Encoder
    decoder: Decoder

    # The definition, in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Memory:
        """Encodes sources (B, m) of real `lengths` (B,), for steps of `beam` hypotheses of each."""
        memory = self.encoded(source, lengths)
        viewed = None
        if self.marginalization.needs_context:
            viewed = Contexts(memory.values, self.readout.of_values.weight)
        memory = replace(
            memory,
            fed=Contexts(memory.values, self.decoder.of_context),
            viewed=viewed,
            gates=self.decoder.search_gates(beam * len(source)),
            cells=self.decoder.search_cells(),
            readout=self.readout.for_search(memory.readout.views, beam, bf16),
        )
        return memory.for_beam(beam)

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encoded sources for given targets; kernels gather what its steps give to gradients."""
        dtype, positions = self.readout.output.weight.dtype, self.marginalization.gives_positions
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            values, final = (part.to(dtype) for part in self.encoder(source, lengths))
            keys = self.score.keys(values)
            views = self.readout.of_values(values).to(dtype) if positions else None
            start = self.decoder.start(final)
        fed = Contexts(values)
        memory = Memory(
            values=values,
            mask=torch.arange(source.shape[1], device=source.device) < lengths[:, None],
            fed=fed,
            keys=keys.to(dtype) if isinstance(keys, Tensor) else keys,
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in start),
            cells=self.decoder.kernels(self.bf16),
            readout=self.readout.for_targets(views, self.bf16, self.static),
            viewed=fed if self.marginalization.needs_context else None,
            transitions=self.coupling.transitions(source.shape[1]),
            copied=self.copying.symbols(source),
            pointed=self.copying.of_positions(values),
        )
        return self.latent.of_sentence(memory, final)

    def start(self, memory: Memory) -> State:
        """The state before the first output; its context is empty unless the feeding has one."""
        alignment = self.input_feeding.first(memory)
        context = (
            memory.fed.empty(len(memory.mask)) if alignment is None else memory.fed.read(alignment)
        )
        return State(memory.start, context, AttentionHistory(alignment=alignment))

    def step(self, memory: Memory, state: State, previous: Tensor | Previous) -> Step:
        """The step after `previous`: the symbols (n,) that were written last, or what was computed
        of them ahead of time.
        """
        if isinstance(previous, Tensor):
            previous = self.read(memory, previous)
        query, hidden = self.decoder(
            previous.gates, state.context, state.hidden, memory.cells, previous.masks
        )
        attention = self.attend(memory, query, state.history, previous.noise)

        context = None
        if memory.viewed is not None:
            context = memory.viewed.read(attention.prior, attention.shift)
        output = self.marginalization.output(memory, attention, context)
        is_bound = self.marginalization.needs_inference
        output = self.copying.output(output, memory, previous.embedded, follows_prior=is_bound)
        return Step(output, hidden, state.history, context)

    def read(self, memory: Memory, symbol: Tensor) -> Previous:
        """What a step of a search is given of the symbols (n,) that were written last. Latents are
        their means, unless they are to be sampled at test time too."""
        noise = None
        if self.latent.sampling:
            noise = Noise.draw(1, memory.values, memory.beam).at(0, len(symbol))
        assert memory.gates is not None
        return Previous(memory.gates(symbol), self._embedded(symbol), noise=noise)

    def update(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """The state after y_t = `symbol` (n,) was written."""
        attention = step.output.attention
        alignment = self.input_feeding(step.output, symbol, memory.mask)
        if not self.input_feeding.feeds:
            context = memory.fed.empty(len(alignment))
        elif (
            step.context is not None
            and memory.viewed is memory.fed
            and alignment is attention.prior
        ):
            context = step.context
        else:
            context = memory.fed.read(alignment, attention.shift)
        return State(step.hidden, context, step.history.then(alignment))

    def _embedded(self, symbols: Tensor) -> Tensor | None:
        """The embeddings of y_{t-1} (n,), (n, E), where the switch of copying reads them."""
        embedding = self.decoder.embedding
        return embedding(known(symbols, embedding)) if self.copying.copies else None

    # Given targets.

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        """All steps of given targets, arguments as of `log_likelihood`. `draws`: whether to draw
        what training draws.
        """
        packed = PackedTargets.of(target, drop_ended=not self.static)
        encoded = memory = self.encoded(source[packed.order], lengths[packed.order])
        state, outputs, alignments = self.start(memory), [], []
        inputs = self._read_ahead(memory, packed, draws)
        for previous, symbol in zip(inputs, packed.split(packed.symbols), strict=True):
            memory, state = memory.first(len(symbol)), state.first(len(symbol))
            step = self.step(memory, state, previous)
            state = self.update(memory, step, symbol)
            outputs.append(step.output)
            alignments.append(state.alignment)
        return Unrolled(packed, encoded, TokenDistribution.cat(outputs, packed), alignments)

    def _read_ahead(self, memory: Memory, packed: PackedTargets, draws: bool) -> list[Previous]:
        """What each step is given, computed and drawn for all of them at once."""
        gates = packed.split(self.decoder.gates(packed.previous, self.bf16))
        masks = self.decoder.draw_masks(packed.steps, len(packed.target))
        noise = None
        if draws and any(part.draws for part in (self.latent, self.input_feeding, self.estimator)):
            noise = Noise.draw(packed.steps, memory.values)
        embedded = self._embedded(packed.previous)
        embeddings = None if embedded is None else packed.split(embedded)

        inputs = []
        for t, rows in enumerate(packed.batch_sizes):
            previous = Previous(
                gates=gates[t],
                embedded=None if embeddings is None else embeddings[t],
                masks=None if masks is None else masks[:, t, :rows],
                noise=None if noise is None else noise.at(t, rows),
            )
            inputs.append(previous)
        return inputs


def pay_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Values (B, T) with the amount (B,) of each sentence added at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])
