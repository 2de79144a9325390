"""The recurrent model: an encoder, a decoder and the components, put together step by step.

Given a batch of sources, any use of the model is the same recurrence:

    memory = model.encode(source, lengths)          h_a, and what all steps share
    state = model.start(memory)                     s_0, c_0
    step = model.step(memory, state, previous)      s_t, prior_t, p(y_t | y_<t, x)
    state = model.update(memory, step, symbol)      c_t, from the prior or from the posterior

`step` and `update` are the only recurrence: teacher forcing (`forward`), search and analysis go
through them. `update` is where the posterior of equations 12 and 13 of Shankar & Sarawagi (2019)
enters: input feeding asks the step's distribution for it (`TokenDistribution.posterior`).

The kernels that make the steps fast are in `kernels`, `output_kernels` and `search_layer`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models import interfaces
from pam.models.copying import Copying
from pam.models.interfaces import AttentionHistory, Contexts, Hidden, Memory, Noise
from pam.models.lstm import Decoder, Encoder, replace_unknown
from pam.models.marginalization import Marginalization
from pam.models.model import Model, TeacherForced
from pam.models.outputs import Attention, TokenDistribution
from pam.models.packing import PackedTargets, cat_optional, rows_of
from pam.models.readout import Readout

# What steps hand each other. Shapes: see `pam.models.interfaces`.


@dataclass(frozen=True, eq=False)
class State:
    """The state of n hypotheses between two steps."""

    hidden: Hidden  # the decoder's state, per layer (h, c), each (n, H)
    # what the next step is fed: c_{t-1}, (n, D), or W_c c_{t-1}, (n, 4H); see `Memory.fed`
    context: Tensor
    history: AttentionHistory  # what was attended so far

    @property
    def alignment(self) -> Tensor | None:
        """The alignment handed on, (n, m), or None before the first output."""
        return self.history.alignment

    def select(self, rows: Tensor | slice) -> State:
        """Keep some rows."""
        return State(
            hidden=_hidden_rows(self.hidden, rows),
            context=rows_of(self.context, rows),
            history=self.history.select(rows),
        )

    def first(self, rows: int) -> State:
        """Keep the first rows."""
        if rows == len(self.context):
            return self
        return self.select(slice(rows))


@dataclass(frozen=True, eq=False)
class Previous:
    """The inputs of a step that do not depend on its state: y_{t-1}, and random numbers."""

    gates: Tensor  # (n, 4H) the share of y_{t-1} in the decoder's gates, by `Decoder.gates`
    embedded: Tensor | None = None  # (n, E) the embedding of y_{t-1}, if copying reads it
    masks: Tensor | None = None  # (layers, n, H) dropout masks, or None
    noise: Noise | None = None  # without it latents are their means, and no position is drawn


@dataclass(frozen=True, eq=False)
class Step:
    """A step before its symbol is chosen."""

    output: TokenDistribution  # p(y_t | y_<t, x), computed when it is asked for
    hidden: Hidden  # the decoder's new state
    history: AttentionHistory  # what was attended before this step
    # the context of the prior, as `Memory.viewed` reads it; None once rows have been selected
    context: Tensor | None = None

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
            hidden=_hidden_rows(self.hidden, rows),
            history=self.history.select(rows),
        )


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


def _hidden_rows(hidden: Hidden, rows: Tensor | slice) -> Hidden:
    """Take some rows of the decoder's state."""
    return tuple((rows_of(h, rows), rows_of(c, rows)) for h, c in hidden)


# The model.


class Seq2Seq(Model):
    """A recurrent model with one component for each question of `pam.models.options`."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
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
        self.input_feeding = input_feeding
        self.inference = inference
        self.estimator = estimator
        self.copying = copying

    # The definition, in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1, bf16: bool = False) -> Memory:
        """Encode sources for search.

        Args:
            source: symbols (B, m) or vectors (B, m, units); lengths: (B,) their real lengths.
            beam: hypotheses of each sentence; the memory has a row for each of them.
            bf16: whether the output layer takes its products in bfloat16.
        """
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
        """Encode sources for given targets, with kernels that gather the gradients of all steps."""
        dtype = self.readout.output.weight.dtype
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            values, final = self.encoder(source, lengths)
            values = values.to(dtype)
            final = final.to(dtype)

            keys = self.score.keys(values)
            views = None
            if self.marginalization.gives_positions:
                views = self.readout.of_values(values).to(dtype)
            start = self.decoder.start(final)

        fed = Contexts(values)
        viewed = None
        if self.marginalization.needs_context:
            viewed = fed
        if isinstance(keys, Tensor):
            keys = keys.to(dtype)

        memory = Memory(
            values=values,
            mask=torch.arange(source.shape[1], device=source.device) < lengths[:, None],
            fed=fed,
            keys=keys,
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in start),
            cells=self.decoder.kernels(self.bf16),
            readout=self.readout.for_targets(views, self.bf16, self.static),
            viewed=viewed,
            transitions=self.coupling.transitions(source.shape[1]),
            copied=self.copying.symbols(source),
            pointed=self.copying.of_positions(values),
        )
        return self.latent.of_sentence(memory, final)

    def start(self, memory: Memory) -> State:
        """Return the state before the first output.

        Its context is zero, unless input feeding has a first alignment.
        """
        alignment = self.input_feeding.first(memory)
        if alignment is None:
            context = memory.fed.empty(len(memory.mask))
        else:
            context = memory.fed.read(alignment)

        return State(memory.start, context, AttentionHistory(alignment=alignment))

    def step(self, memory: Memory, state: State, previous: Tensor | Previous) -> Step:
        """Compute s_t, the prior and the distribution of y_t.

        `previous` is the symbols y_{t-1} (n,), or what was computed from them ahead of time.
        """
        if isinstance(previous, Tensor):
            previous = self.read(memory, previous)

        # s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}])
        query, hidden = self.decoder(
            gates=previous.gates,
            context=state.context,
            state=state.hidden,
            cells=memory.cells,
            masks=previous.masks,
        )
        attention = self.attend(memory, query, state.history, previous.noise)

        # A position summed out at the input: y_t reads sum_a prior_t(a) h_a (equation 8).
        context = None
        if memory.viewed is not None:
            context = memory.viewed.read(attention.prior, attention.shift)

        output = self.marginalization.output(memory, attention, context)
        output = self.copying.output(
            generated=output,
            memory=memory,
            embedded=previous.embedded,
            follows_prior=self.marginalization.needs_inference,
        )
        return Step(output, hidden, state.history, context)

    def read(self, memory: Memory, symbol: Tensor) -> Previous:
        """Compute the inputs of a search step from its last symbols (n,).

        Latents are their means, unless they are sampled at test time too.
        """
        noise = None
        if self.latent.sampling:
            noise = Noise.draw(1, memory.values, memory.beam).at(0, len(symbol))

        assert memory.gates is not None
        return Previous(memory.gates(symbol), self._embedded(symbol), noise=noise)

    def attend(
        self, memory: Memory, query: Tensor, history: AttentionHistory, noise: Noise | None = None
    ) -> Attention:
        """Compute the prior over positions for the query s_t (n, H)."""
        scores = self.score(query, memory, history)
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

    def update(self, memory: Memory, step: Step, symbol: Tensor) -> State:
        """Return the state after y_t = `symbol` (n,) was written.

        Input feeding chooses the alignment handed on: the prior (equation 9), or the posterior
        given y_t (equations 12 and 13). The next context is c_t = sum_a alignment(a) h_a.
        """
        attention = step.output.attention
        alignment = self.input_feeding(step.output, symbol, memory.mask)

        # The step has read this context already, if the prior is fed back to the same projection.
        is_read = memory.viewed is memory.fed and alignment is attention.prior
        if not self.input_feeding.feeds:
            context = memory.fed.empty(len(alignment))
        elif step.context is not None and is_read:
            context = step.context
        else:
            context = memory.fed.read(alignment, attention.shift)

        return State(step.hidden, context, step.history.then(alignment))

    def _embedded(self, symbols: Tensor) -> Tensor | None:
        """Embed y_{t-1} (n,) for the switch between generating and copying: (n, E), or None."""
        if not self.copying.copies:
            return None

        embedding = self.decoder.embedding
        embedded: Tensor = embedding(replace_unknown(symbols, embedding))
        return embedded

    # Given targets.

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
    ) -> Unrolled:
        """Run all steps of given targets; arguments as of `log_likelihood`.

        With `draws`, what training draws is drawn.
        """
        packed = PackedTargets.of(target, drop_ended=not self.static)
        encoded = self.encoded(source[packed.order], lengths[packed.order])
        memory = encoded
        state = self.start(memory)
        inputs = self._read_ahead(memory, packed, draws)

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

    def _read_ahead(self, memory: Memory, packed: PackedTargets, draws: bool) -> list[Previous]:
        """Compute and draw the inputs of all steps at once."""
        gates = packed.split(self.decoder.gates(packed.previous, self.bf16))
        masks = self.decoder.draw_masks(packed.steps, len(packed.target))
        noise = None
        if draws and any(part.draws for part in (self.latent, self.input_feeding, self.estimator)):
            noise = Noise.draw(packed.steps, memory.values)

        embedded = self._embedded(packed.previous)
        embeddings = None
        if embedded is not None:
            embeddings = packed.split(embedded)

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
        if self.marginalization.gives_positions:
            posterior = forced.posterior

        return replace(forced, alignment=alignment, posterior=posterior)


def pay_at_end(values: Tensor, amounts: Tensor, target: Tensor) -> Tensor:
    """Add the amount (B,) of each sentence to its value (B, T) at the last symbol of `target`."""
    last = ((target != PAD).sum(1, keepdim=True) - 1).clamp_min(0)
    return values.scatter_add(1, last, amounts[:, None])
