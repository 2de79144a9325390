"""The recurrent model: an encoder and a decoder of LSTMs, and an alignment head between them.

The context that the head hands on is an input of the next decoder state:

    s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}]).

So a step waits for the one before it, also where targets are given. The recurrence itself, from s_t
to c_t, is `head.AttentionHead`'s; the loop over time is `attention_model.AttentionModel`'s.

The kernels that make the steps fast are in `kernels`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pam.models.attention_model import AttentionModel, Query, State, Unrolled
from pam.models.interfaces import Contexts, Hidden, Memory, Noise
from pam.models.lstm import Decoder, Encoder, replace_unknown
from pam.models.packing import PackedTargets


@dataclass(frozen=True, eq=False)
class Previous:
    """The inputs of a step that do not depend on its state: y_{t-1}, and random numbers."""

    gates: Tensor  # (n, 4H) the share of y_{t-1} in the decoder's gates, by `Decoder.gates`
    embedded: Tensor | None = None  # (n, E) the embedding of y_{t-1}, if copying reads it
    masks: Tensor | None = None  # (layers, n, H) dropout masks, or None
    noise: Noise | None = None  # without it latents are their means, and no position is drawn


class Seq2Seq(AttentionModel):
    """Encoder and decoder of LSTMs, with the components between them."""

    encoder: Encoder
    decoder: Decoder

    def encoded(self, source: Tensor, lengths: Tensor) -> Memory:
        dtype = self.head.readout.output.weight.dtype
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.compute.bf16):
            values, final = self.encoder(source, lengths)
            values = values.to(dtype)
            final = final.to(dtype)
            start = self.decoder.start(final)

        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return replace(
            self.head.memory(values, mask),
            start=tuple((h.to(dtype), c.to(dtype)) for h, c in start),
            cells=self.decoder.kernels(),
            latent=self.head.latent.of_sentence(values, final),
            copied=self.head.copying.of_source(source, values),
        )

    def for_search(self, memory: Memory, rows: int) -> Memory:
        return replace(
            memory,
            fed=Contexts(memory.values, self.decoder.of_context),
            gates=self.decoder.search_gates(rows),
            cells=self.decoder.search_cells(),
        )

    def start_hidden(self, memory: Memory) -> Hidden:
        return memory.start

    def ask(self, memory: Memory, state: State, symbol: Tensor) -> Query:
        """Run the decoder on the last symbols (n,) of a search.

        Latents are their means, unless they are sampled at test time too.
        """
        noise = None
        if self.head.latent.sampling:
            noise = Noise.draw(1, memory.values, memory.beam).at(0, len(symbol))

        assert memory.gates is not None
        previous = Previous(memory.gates(symbol), self._embedded(symbol), noise=noise)
        return self.decode(memory, state, previous)

    def decode(self, memory: Memory, state: State, previous: Previous) -> Query:
        """Compute s_t = RNN(s_{t-1}, [emb(y_{t-1}); c_{t-1}])."""
        query, hidden = self.decoder(
            gates=previous.gates,
            context=state.attention.context,
            state=state.hidden,
            cells=memory.cells,
            masks=previous.masks,
        )
        return Query(query, hidden, embedded=previous.embedded, noise=previous.noise)

    def _embedded(self, symbols: Tensor) -> Tensor | None:
        """Embed y_{t-1} (n,) for the switch between generating and copying: (n, E), or None."""
        if not self.head.copying.copies:
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
        packed = PackedTargets.of(target, drop_ended=not self.compute.static)
        encoded = self.encoded(source[packed.order], lengths[packed.order])

        # All that depends on no state is computed and drawn ahead of the steps.
        gates = packed.split(self.decoder.gates(packed.previous))
        masks = self.decoder.draw_masks(packed.steps, len(packed.target))
        noise = None
        if draws and self.head.draws:
            noise = Noise.draw(packed.steps, encoded.values)
        embedded = self._embedded(packed.previous)
        embeddings = None
        if embedded is not None:
            embeddings = packed.split(embedded)

        def query(memory: Memory, state: State, t: int) -> Query:
            rows = packed.batch_sizes[t]
            previous = Previous(
                gates=gates[t],
                embedded=None if embeddings is None else embeddings[t],
                masks=None if masks is None else masks[:, t, :rows],
                noise=None if noise is None else noise.at(t, rows),
            )
            return self.decode(memory, state, previous)

        return self.unroll(encoded, packed, query, embedded)
