"""The alignment head: all that is between a decoder's queries and the output symbols.

Any use of any model is the same recurrence over the queries s_t of its decoder:

    memory = head.memory(values, mask)                    h_a, and what all steps share
    state = head.start(memory)                            c_0
    output = head.step(memory, state.history, query)      prior_t, p(y_t | y_<t, x)
    state = head.update(memory, state.history, output, symbol)
                                                          c_t, from the prior or the posterior

`update` is where the posterior of equations 12 and 13 of Shankar & Sarawagi (2019) enters: input
feeding observes the symbol (`PositionDistribution.observe`).

A recurrent model (`seq2seq`), a Transformer (`aligned_transformer`) and a decoder of somebody
else's (`posterior_attention`) differ in how they make queries alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pam.models import interfaces
from pam.models.copying import Copying, CopyRows
from pam.models.interfaces import AttentionHistory, Contexts, Memory, Noise, Smoothing
from pam.models.latents import NoLatent
from pam.models.marginalization import Marginalization
from pam.models.outputs import Attention, OutputRows, TokenDistribution
from pam.models.packing import PackedTargets, optional_rows, rows_of
from pam.models.readout import Readout


@dataclass(frozen=True, eq=False)
class AttentionState:
    """The state that a step hands to the next step; n rows.

    Attributes:
        context: (n, D) the context c_t, an input of the next decoder state; zeros before the first
            symbol. In a search it is W_c c_t: see `Memory.fed`.
        history: the alignments so far, for couplings and scores.
        log_prob: (n,) log p(y_t | y_<t, x) of the symbol just written, with its gradient, if it
            took that to compute the context; else None.
    """

    context: Tensor
    history: AttentionHistory
    log_prob: Tensor | None = None

    @property
    def alignment(self) -> Tensor | None:
        """The alignment (n, m) by which the context is averaged; None before the first symbol."""
        return self.history.alignment

    def select(self, rows: Tensor | slice) -> AttentionState:
        """Keep some rows, in this order, as a beam search does."""
        return AttentionState(
            context=rows_of(self.context, rows),
            history=self.history.select(rows),
            log_prob=optional_rows(self.log_prob, rows),
        )


class AttentionHead:
    """The components between queries and symbols, with the one recurrence over them.

    They are the parts of the model that has the head, under the same names.

    Args:
        readout: the output layer.
        score, window, distribution, coupling, latent: what makes the prior over positions.
        marginalization, copying: what makes the distribution of symbols.
        input_feeding: what is handed on to the next step.
        inference, estimator: what a bound takes in training.
    """

    def __init__(
        self,
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

    @property
    def parts(self) -> dict[str, nn.Module]:
        """The components by name, for the module that has their weights."""
        return {name: part for name, part in vars(self).items() if isinstance(part, nn.Module)}

    @property
    def draws(self) -> bool:
        """Whether training draws random numbers at each step."""
        return any(part.draws for part in (self.latent, self.input_feeding, self.estimator))

    @property
    def smoothing(self) -> Smoothing:
        """How well the posterior given a whole target is known: see `transitions`.

        Queries, and so scores, depend on the source and earlier symbols alone: also a context that
        is fed back is an average, the same whatever position was the right one. So where the whole
        posterior is handed on to a coupling that is a chain, the model is a hidden Markov model
        given its symbols, and the posterior is its filter. Without a chain the positions of steps
        are independent given the symbols.
        """
        if not self.marginalization.gives_positions:
            return Smoothing.NONE
        if not self.coupling.is_chain:
            return Smoothing.INDEPENDENT

        is_filter = self.input_feeding.is_posterior and self.marginalization.is_exact
        if is_filter and isinstance(self.latent, NoLatent):
            return Smoothing.EXACT
        return Smoothing.APPROXIMATE

    # Once for each batch.

    def memory(self, values: Tensor, mask: Tensor) -> Memory:
        """Prepare encoder states for the steps of given targets.

        Args:
            values: (B, m, D) encoder states h_a.
            mask: (B, m) true at real positions.
        """
        dtype = self.readout.output.weight.dtype
        bf16 = self.readout.compute.bf16
        with torch.autocast(values.device.type, torch.bfloat16, enabled=bf16):
            keys = self.score.keys(values)
            views = None
            if self.marginalization.gives_positions:
                views = self.readout.of_values(values).to(dtype)
        if isinstance(keys, Tensor):
            keys = keys.to(dtype)

        contexts = Contexts(values)
        viewed = None
        if self.marginalization.needs_context:
            viewed = contexts

        return Memory(
            values=values,
            mask=mask,
            fed=contexts,
            viewed=viewed,
            keys=keys,
            start=(),
            cells=(),
            readout=self.readout.for_targets(views),
            transitions=self.coupling.transitions(values.shape[1]),
        )

    def for_search(self, memory: Memory, beam: int) -> Memory:
        """Return the memory of a search without gradients, a row for each of `beam` hypotheses."""
        viewed = None
        if self.marginalization.needs_context:
            viewed = Contexts(memory.values, self.readout.of_values.weight)

        readout = self.readout.for_search(memory.readout.views, beam)
        return replace(memory, viewed=viewed, readout=readout).for_beam(beam)

    # Step by step.

    def start(self, memory: Memory) -> AttentionState:
        """Return the state before the first output.

        Its context is zero, unless input feeding has a first alignment.
        """
        alignment = self.input_feeding.first(memory)
        if alignment is None:
            context = memory.fed.empty(len(memory.mask))
        else:
            context = memory.fed.read(alignment)

        return AttentionState(context, AttentionHistory(alignment=alignment))

    def step(
        self,
        memory: Memory,
        history: AttentionHistory,
        query: Tensor,
        scores: Tensor | None = None,
        embedded: Tensor | None = None,
        noise: Noise | None = None,
        log_likelihood: Tensor | None = None,
    ) -> TokenDistribution:
        """Compute the prior and the distribution of y_t.

        Args:
            memory: the encoded sources.
            history: the alignments before this step.
            query: (n, H) the decoder's output s_t.
            scores: (n, m) e_t, if they were computed ahead of time.
            embedded: (n, E) the embedding of y_{t-1}, if copying reads it.
            noise: random numbers; without it latents are their means, and no position is drawn.
            log_likelihood: (n, m) log p(y_t | s_t, h_a), if y_t is given and it was computed ahead
                of time.
        """
        attention = self.attend(memory, history, query, scores, noise)
        rows = OutputRows(
            readout=memory.readout,
            attention=attention,
            sentence_shift=memory.latent.readout_shift,
            log_likelihood=log_likelihood,
        )
        copy_rows = None
        if embedded is not None:
            assert memory.copied is not None
            copy_rows = CopyRows(embedded, memory.copied)

        return self._output(rows, copy_rows)

    def attend(
        self,
        memory: Memory,
        history: AttentionHistory,
        query: Tensor,
        scores: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Attention:
        """Compute the prior over positions; arguments as of `step`."""
        if scores is None:
            scores = self.score(query, memory, history)
        scores, mask = self.window(scores, query, memory.mask, history)
        log_weights = self.coupling(scores, mask, self.distribution, memory, history)
        latent = self.latent.of_step(log_weights, memory, noise)
        log_prior = latent.log_weights
        prior = log_prior.exp()

        # A position summed out at the input: y_t reads sum_a prior_t(a) h_a (equation 8).
        context = None
        if memory.viewed is not None:
            context = memory.viewed.read(prior, latent.shift)

        gumbel = None
        if noise is not None:
            gumbel = noise.gumbel

        return Attention(
            query=query,
            log_prior=log_prior,
            prior=prior,
            shift=latent.shift,
            cost=latent.cost,
            gumbel=gumbel,
            context=context,
        )

    def transitions(self, memory: Memory, history: AttentionHistory, query: Tensor) -> Tensor:
        """Compute the weights (n, m, m) of moves between positions at a step.

        Arguments are those of `step`; see `Coupling.weights`.
        """
        scores = self.score(query, memory, history)
        scores, mask = self.window(scores, query, memory.mask, history)
        return self.coupling.weights(scores, mask, self.distribution, memory)

    def update(
        self, memory: Memory, history: AttentionHistory, output: TokenDistribution, symbol: Tensor
    ) -> AttentionState:
        """Return the state after y_t = `symbol` (n,) was written.

        Input feeding chooses the alignment handed on: the prior (equation 9), or the posterior
        given y_t (equations 12 and 13). The next context is c_t = sum_a alignment(a) h_a.
        """
        attention = output.attention
        observed = self.input_feeding(output, symbol, memory.mask)
        alignment = observed.alignment

        if not self.input_feeding.feeds:
            context = memory.fed.empty(len(alignment))
        elif (
            self.input_feeding.keeps_prior and memory.feeds_viewed and attention.context is not None
        ):
            # The step has read this context already.
            context = attention.context
        else:
            context = memory.fed.read(alignment, attention.shift)

        return AttentionState(context, history.then(alignment), observed.log_prob)

    # All tokens of given targets.

    def of_tokens(
        self,
        memory: Memory,
        attention: Attention,
        packed: PackedTargets,
        embedded: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> TokenDistribution:
        """Return the distribution of all N tokens of given targets.

        Args:
            memory: the encoded sources, a row for each sentence.
            attention: that of all steps, joined.
            packed: the targets.
            embedded: (N, E) the embeddings of y_{t-1}, if copying reads them.
            log_likelihood: (N, m) log p(y_t | s_t, h_a), if it was computed ahead of time.
        """
        shift = optional_rows(memory.latent.readout_shift, packed.sentences)
        rows = OutputRows(memory.readout, attention, shift, packed, log_likelihood)
        copy_rows = None
        if embedded is not None:
            assert memory.copied is not None
            copied = memory.copied.change(lambda part: rows_of(part, packed.sentences))
            copy_rows = CopyRows(embedded, copied)

        return self._output(rows, copy_rows)

    def _output(self, rows: OutputRows, copy_rows: CopyRows | None) -> TokenDistribution:
        """Return the distribution of the symbols of rows."""
        generated = self.marginalization.output(rows)
        return self.copying.output(
            generated, copy_rows, follows_prior=self.marginalization.needs_inference
        )
