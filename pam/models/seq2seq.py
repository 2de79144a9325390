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

from pam.models.attention_model import AttentionModel, Unrolled, remember
from pam.models.interfaces import AttentionHistory, Contexts, Hidden, Memory, Noise
from pam.models.lstm import Decoder, Encoder, replace_unknown
from pam.models.outputs import TokenDistribution
from pam.models.packing import PackedTargets, rows_of

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


def _hidden_rows(hidden: Hidden, rows: Tensor | slice) -> Hidden:
    """Take some rows of the decoder's state."""
    return tuple((rows_of(h, rows), rows_of(c, rows)) for h, c in hidden)


# The model.


class Seq2Seq(AttentionModel):
    """Encoder and decoder of LSTMs, with the components between them."""

    encoder: Encoder
    decoder: Decoder

    # The definition, in the order of Figure 1 (right) of Shankar & Sarawagi (2019).

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        dtype = self.readout.output.weight.dtype
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bf16):
            values, final = self.encoder(source, lengths)
            values = values.to(dtype)
            final = final.to(dtype)
            start = self.decoder.start(final)

        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        memory = replace(
            remember(self, values, mask, self.bf16, self.static),
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in start),
            cells=self.decoder.kernels(self.bf16),
            copied=self.copying.symbols(source),
            pointed=self.copying.of_positions(values),
        )
        return self.latent.of_sentence(memory, final)

    def for_search(self, memory: Memory, rows: int) -> Memory:
        return replace(
            memory,
            fed=Contexts(memory.values, self.decoder.of_context),
            gates=self.decoder.search_gates(rows),
            cells=self.decoder.search_cells(),
        )

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
        inputs = self._read_ahead(encoded, packed, draws)
        return self.unroll(encoded, packed, inputs)

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
