"""The model: encoder, decoder and the components, put together step by step.

`step` and `update` are the definition. Teacher forcing (`forward`), search and analysis all go through them; what is
fast about them is in the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pam.data.vocabulary import BOS, PAD
from pam.models import interfaces
from pam.models.copying import Copying
from pam.models.interfaces import (
    Attention,
    AttentionHistory,
    Contexts,
    Emission,
    Hidden,
    Memory,
    Noise,
    Origin,
    rows_of,
    taken,
)
from pam.models.kernels import SearchLinear
from pam.models.lstm import Decoder, Encoder, known
from pam.models.marginalization import Bound, Marginalization
from pam.models.model import Model, TeacherForced
from pam.models.output_kernels import PositionLikelihood
from pam.models.readout import Readout, TokenGold, Tokens


@dataclass(frozen=True)
class State:
    """What a hypothesis carries from step to step."""

    hidden: Hidden  # the decoder's state, per layer (h, c), each (n, H)
    context: Tensor  # what the next state is fed: c_{t-1}, (n, D), or W_c c_{t-1}, (n, 4H); see `Memory.fed`
    history: AttentionHistory  # what was attended so far

    @property
    def alignment(self) -> Tensor | None:
        return self.history.alignment

    def select(self, rows: Tensor | slice) -> State:
        hidden = tuple((rows_of(h, rows), rows_of(c, rows)) for h, c in self.hidden)
        return State(hidden, rows_of(self.context, rows), self.history.select(rows))


@dataclass(frozen=True)
class Step:
    """One step before its symbol is chosen."""

    attention: Attention  # what it attends to
    emission: Emission  # p(y_t | y_<t, x), computed when it is asked for
    history: AttentionHistory  # what was attended before it

    @property
    def log_probs(self) -> Tensor:
        return self.emission.log_probs

    @property
    def log_prior(self) -> Tensor:
        return self.attention.log_prior

    @property
    def query(self) -> Tensor:
        return self.attention.query

    def select(self, rows: Tensor) -> Step:
        return Step(self.attention.select(rows), self.emission.select(rows), self.history.select(rows))


@dataclass(frozen=True)
class Forced:
    """A batch under teacher forcing, sentences in the order of falling target length."""

    order: Tensor  # (B,) the given row of each sentence here
    target: Tensor  # (B, T)
    memory: Memory  # the encoded sources
    tokens: Tokens  # all real tokens, step after step
    evidence: Tensor | None  # (N,) log p(y_t | y_<t, x), where a posterior that was fed back gave it; or None
    alignment: Tensor  # (N, m) what was fed back
    cost: Tensor | None  # (N,) nats that latents of a step cost, or None
    noise: Noise | None  # what was drawn, or None

    def unpacked(self, values: Tensor) -> Tensor:
        """(N, ...) to (B, T, ...), rows as they were given, zeros at padding."""
        found = self.tokens.padded(values).transpose(0, 1)[torch.argsort(self.order)]
        missing = self.target.shape[1] - found.shape[1]
        return torch.cat([found, found.new_zeros(len(found), missing, *found.shape[2:])], 1) if missing else found


class Seq2Seq(Model):
    """A recurrent model with one component for each question of `pam.models.options`."""

    def __init__(
        self, encoder: Encoder, decoder: Decoder, readout: Readout, score: interfaces.Score, window: interfaces.Window,
        distribution: interfaces.Distribution, coupling: interfaces.Coupling, latent: interfaces.Latent,
        marginalization: Marginalization, input_feeding: interfaces.InputFeeding, inference: interfaces.Inference,
        estimator: interfaces.Estimator, copying: Copying,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder, self.decoder, self.readout = encoder, decoder, readout
        self.score, self.window, self.distribution = score, window, distribution
        self.coupling, self.latent, self.marginalization = coupling, latent, marginalization
        self.input_feeding, self.inference, self.estimator = input_feeding, inference, estimator
        self.copying = copying

    # The definition, in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Memory:
        """Encodes sources (B, m) of real `lengths` (B,), for steps of `beam` hypotheses of each."""
        memory, of_values = self.encoded(source, lengths), self.readout.of_values.weight
        memory = replace(
            memory,
            fed=Contexts(memory.values, self.decoder.of_context),
            viewed=Contexts(memory.values, of_values) if self.marginalization.needs_context else None,
            gates=self.decoder.search_gates(beam * len(source)),
            cells=self.decoder.search_cells(),
            project=SearchLinear(self.readout.of_query.weight, self.readout.of_query.bias),
            layer=self.readout.layer(beam, bf16),
        )
        return memory.for_beam(beam)

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encoded sources for teacher forcing; kernels gather what its steps give to gradients."""
        dtype, positions = self.readout.output.weight.dtype, self.marginalization.gives_positions
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            values, final = (part.to(dtype) for part in self.encoder(source, lengths))
            keys = self.score.keys(values)
            views = self.readout.of_values(values).to(dtype) if positions else None
            start = self.decoder.start(final)
        memory = Memory(
            values=values,
            mask=torch.arange(source.shape[1], device=source.device) < lengths[:, None],
            fed=Contexts(values),
            keys=keys.to(dtype) if isinstance(keys, Tensor) else keys,
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in start),
            cells=self.decoder.kernels(self.bf16),
            project=self.readout.project(self.bf16),
            views=views,
            transitions=self.coupling.transitions(source.shape[1]),
            copied=self.copying.symbols(source),
            pointed=self.copying.of_positions(values),
        )
        return self.latent.of_sentence(memory, final)

    def start(self, memory: Memory) -> State:
        """The state before the first output; its context is empty unless the feeding has one."""
        alignment = self.input_feeding.first(memory)
        context = memory.fed.empty(len(memory.mask)) if alignment is None else memory.fed.read(alignment)
        return State(memory.start, context, AttentionHistory(alignment=alignment))

    def attend(
        self, memory: Memory, state: State, gates: Tensor, masks: Tensor | None = None, noise: Noise | None = None
    ) -> Attention:
        """Where a step looks.

        Args:
            memory: the encoded sources; state: what the last step handed on.
            gates: (n, 4H) what y_{t-1} gives the decoder, by `Decoder.gates`.
            masks: (layers, n, H) dropout masks, or None.
            noise: of this step; without it latents are their means and no position is drawn.
        """
        query, hidden = self.decoder(gates, state.context, state.hidden, memory.cells, masks)
        scores = self.score(query, memory, state.history)
        scores, mask = self.window(scores, query, memory.mask, state.history)
        log_prior = self.coupling(scores, mask, self.distribution, memory, state.history)
        latent = self.latent.of_step(log_prior, memory, noise)
        gumbel = None if noise is None else noise.gumbel
        prior = latent.log_weights.exp()
        return Attention(query, latent.log_weights, prior, hidden, latent.shift, latent.cost, gumbel)

    def emit(self, memory: Memory, attention: Attention, embedded: Tensor | None) -> Emission:
        """What a step says of its symbol, with y_{t-1} `embedded` by `input_of`."""
        projected = memory.project(attention.query)
        if memory.readout_shift is not None:
            projected = projected + memory.readout_shift
        given = memory.copied, memory.pointed, attention.query
        switch = None if embedded is None else self.copying.switch(*given, embedded)
        of_shift = None
        if switch is not None and attention.shift is not None:
            of_shift = self.copying.of_context(attention.shift)
        return self.marginalization.emission(attention, projected, memory, switch, of_shift)

    def input_of(self, before: Tensor) -> Tensor | None:
        """The embedding of y_{t-1} (n,), (n, E), where the switch of copying reads it."""
        embedding = self.decoder.embedding
        return embedding(known(before, embedding)) if self.copying.copies else None

    def step(self, memory: Memory, state: State, symbol: Tensor) -> Step:
        """The step after `symbol` (n,) was written last; latents are their means, unless they are to be sampled at test
        time too."""
        noise = Noise.draw(1, memory.values, memory.beam).at(0, len(symbol)) if self.latent.sampling else None
        assert memory.gates is not None
        attention = self.attend(memory, state, memory.gates(symbol), noise=noise)
        return Step(attention, self.emit(memory, attention, self.input_of(symbol)), state.history)

    def update(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """The state after y_t = `symbol` (n,) was written."""
        seen = step.emission.observe(symbol) if self.input_feeding.needs_positions else None
        alignment = self.input_feeding(step.attention, seen, symbol, memory.mask)
        return self._next(memory, step.history, step.attention, alignment, None)

    def _next(
        self, memory: Memory, history: AttentionHistory, attention: Attention, alignment: Tensor, context: Tensor | None
    ) -> State:
        """The state that is fed the context of an alignment; `context` is that of the prior, where it is known."""
        if not self.input_feeding.feeds:
            context = memory.fed.empty(len(alignment))
        elif context is None or alignment is not attention.prior:
            context = memory.fed.read(alignment, attention.shift)
        return State(attention.hidden, context, history.then(alignment))

    # Teacher forcing.

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False) -> Forced:
        """All steps of given targets, arguments as of `log_likelihood`; rows that have ended are left out as the batch
        goes on. `draws`: whether to draw what training draws."""
        sizes = (target != PAD).sum(1)
        order = sizes.argsort(descending=True, stable=True)
        source, lengths, target, sizes = (x[order] for x in (source, lengths, target, sizes))
        times = torch.arange(target.shape[1], device=target.device)
        counts = [n for n in (sizes[None] > times[:, None]).sum(1).tolist() if n]
        memory = self.encoded(source, lengths)
        if self.input_feeding.needs_positions:
            assert memory.views is not None
            given = memory.views, self.readout.output.weight, self.readout.output.bias
            memory = replace(memory, likelihood=PositionLikelihood(*given, self.bf16))
        symbols = _packed(target, counts)
        before = _packed(torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1), counts)
        gates = self.decoder.gates(before, self.bf16)
        masks = self.decoder.draw_masks(len(counts), len(target))
        parts = self.latent, self.input_feeding, self.estimator
        draws = draws and any(part.draws for part in parts)
        noise = Noise.draw(len(counts), memory.values) if draws else None
        embedded = self.input_of(before)
        by_step = [None] * len(counts) if embedded is None else embedded.split(counts)
        steps = self._unroll(memory, gates.split(counts), by_step, symbols.split(counts), masks, noise)
        return self._forced(order, target, memory, counts, symbols, noise, embedded, steps)

    def _unroll(
        self, memory: Memory, gates: Sequence[Tensor], embedded: Sequence[Tensor | None], symbols: Sequence[Tensor],
        masks: Tensor | None, noise: Noise | None,
    ) -> list[tuple[Attention, Tensor, Tensor | None, Tensor | None]]:  # fmt: skip
        """Of each step its attention, the alignment handed on, the evidence if it is known, and the context of the
        prior if it is read."""
        state, rest, steps = self.start(memory), memory, []
        for t, symbol in enumerate(symbols):
            n = len(symbol)
            if n < len(state.context):
                rest, state = memory.first(n), state.select(slice(n))
            random = None if masks is None else masks[:, t, :n], None if noise is None else noise.at(t, n)
            attention = self.attend(rest, state, gates[t], *random)
            observes = self.input_feeding.needs_positions
            seen = self.emit(rest, attention, embedded[t]).observe(symbol) if observes else None
            alignment = self.input_feeding(attention, seen, symbol, rest.mask)
            reads = self.marginalization.needs_context
            context = rest.fed.read(attention.prior, attention.shift) if reads else None
            steps.append((attention, alignment, None if seen is None else seen.evidence, context))
            if t + 1 < len(symbols):
                state = self._next(rest, state.history, attention, alignment, context)
        return steps

    def _forced(
        self, order: Tensor, target: Tensor, memory: Memory, counts: list[int], symbols: Tensor, noise: Noise | None,
        embedded: Tensor | None, steps: list[tuple[Attention, Tensor, Tensor | None, Tensor | None]],
    ) -> Forced:  # fmt: skip
        attentions, alignments, evidence, contexts = (list(parts) for parts in zip(*steps, strict=True))
        sentence = torch.cat([torch.arange(n, device=target.device) for n in counts])
        query = torch.cat([attention.query for attention in attentions])
        of_source = taken(memory.copied, sentence), taken(memory.pointed, sentence)
        tokens = Tokens(
            counts=counts,
            sentence=sentence,
            symbols=symbols,
            query=query,
            log_prior=torch.cat([attention.log_prior for attention in attentions]),
            context=_joined(contexts),
            shift=None if memory.readout_shift is None else memory.readout_shift[sentence],
            views=memory.views,
            bf16=self.bf16,
            switch=None if embedded is None else self.copying.switch(*of_source, query, embedded),
        )
        cost = _joined([attention.cost for attention in attentions])
        return Forced(order, target, memory, tokens, _joined(evidence), torch.cat(alignments), cost, noise)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        forced: Forced = self(source, lengths, target)
        return forced.unpacked(self._values(forced))

    def _values(self, forced: Forced) -> Tensor:
        """log p(y_t | y_<t, x) of all tokens, (N,)."""
        if forced.evidence is not None:
            return forced.evidence
        return self.marginalization.log_likelihood(TokenGold(self.readout, forced.tokens, self.copying))

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximizes, (B, T): log p(y_t | y_<t, x), or a bound of it, less what latents cost; what a whole
        sentence costs is paid at its last symbol. The mean over so many draws of all that is drawn."""
        if self.latent.samples == 1:
            return self._objective(source, lengths, target)
        given = (part.repeat_interleave(self.latent.samples, 0) for part in (source, lengths, target))
        values: Tensor = self._objective(*given).unflatten(0, (-1, self.latent.samples))
        return values.mean(1)

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return self.objective_and_prior(source, lengths, target)[0]

    def objective_and_prior(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The objective (B, T) from one draw of all that is drawn, and the prior (B, T, m)."""
        forced = self(source, lengths, target, draws=True)
        if isinstance(self.marginalization, Bound):
            values = self._bound(self.marginalization, forced, source, lengths, target)
        else:
            values = self._values(forced)
        values = values if forced.cost is None else values - forced.cost
        values = self.subtract_costs(forced.unpacked(values), forced, target)
        return values, forced.unpacked(forced.tokens.log_prior.exp())

    def _bound(self, bound: Bound, forced: Forced, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """The bound of all tokens, (N,)."""
        tokens = forced.tokens
        # Drawn after all else, so that its dropout leaves that of the likelihood as it is.
        with torch.autocast(source.device.type, torch.bfloat16, enabled=tokens.bf16):
            log_q = self.inference(source, lengths, target, self.encoder.embed, self.decoder.embed)
        if log_q is not None:
            by_time = log_q.to(tokens.log_prior.dtype)[forced.order].transpose(0, 1)
            log_q = tokens.packed(by_time[: len(tokens.counts)])
        gumbel = None if forced.noise is None else tokens.packed(forced.noise.gumbel)
        return bound.objective(TokenGold(self.readout, tokens, self.copying), log_q, self.estimator, gumbel)

    def subtract_costs(self, values: Tensor, forced: Forced, target: Tensor) -> Tensor:
        """Values (B, T) less what the latent and the score cost a whole sentence."""
        tokens, of_score = forced.tokens, None
        if self.score.costs:
            given = tokens.padded(tokens.log_prior.exp()), tokens.padded(forced.alignment)
            of_score = self.score.cost(forced.memory, *given)
        costs = [cost for cost in (forced.memory.cost, of_score) if cost is not None]
        if not costs:
            return values
        total = torch.stack(costs).sum(0)[torch.argsort(forced.order)]
        return pay_at_end(values, -total, target)

    @torch.no_grad()
    def teacher_force(self, source: Tensor, lengths: Tensor, target: Tensor) -> TeacherForced:
        found = super().teacher_force(source, lengths, target)
        known = self.coupling.given_all(found.alignment, (target != PAD).sum(1))
        summed = self.marginalization.positions(found.prior.flatten(0, 1).log()).view_as(target)
        posterior = found.posterior if self.marginalization.gives_positions else known
        return replace(found, alignment=known, posterior=posterior, positions=summed)

    def posterior(self, step: Step, symbol: Tensor) -> Tensor | None:
        if not self.marginalization.gives_positions:
            return None
        return step.emission.observe(symbol).posterior

    def exact(self, step: Step, symbol: Tensor) -> Tensor | None:
        return step.emission.exact(symbol)

    def origin(self, step: Step, symbol: Tensor) -> Origin | None:
        return step.emission.origin(symbol)


def _packed(target: Tensor, counts: list[int]) -> Tensor:
    """Real symbols of targets (B, T), step after step: (N,)."""
    return torch.cat([target[:n, t] for t, n in enumerate(counts)])


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """All rows of what every step has, or None."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def pay_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Values (B, T) with the amount (B,) of each sentence added at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])
