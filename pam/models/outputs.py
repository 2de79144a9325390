"""p(y_t | y_<t, x): the distribution of the next symbol, the same in training, search and analysis.

`TokenDistribution` is what a step says of its symbol. Once the symbol is known, `observe` returns
its log p and the alignment given it: by Bayes' rule (equations 12 and 13 of Shankar & Sarawagi
2019), where each position has a likelihood (`PositionDistribution`). There are three kinds:

    SingleContext       p(y_t) = p(y_t | s_t, c_t)                        (equation 8)
    AttentionMixture    p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a)       (equation 11)
    CopyMixture         either of them, and what is copied: see `copying`

A distribution has n rows. A row is a hypothesis of a step or, where targets are given, a token of a
batch: what no later step waits for is computed once for all tokens (`AttentionHead.of_tokens`).
Nothing is computed before it is asked for.

Shapes: n rows, B sentences, m source positions, D units of an encoder state, H of a decoder state,
R of the readout, V target symbols; k contexts that a row's symbol may come from: one, or one per
position. W_s and W_x map a decoder state and a context to R units; *views* are the W_x h_a. A
*latent* is a vector that training draws: one of each step, or one of the sentence (`latents`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pam.models.kernels.compute import FLOAT32, Compute
from pam.models.kernels.hidden_layers import IDENTITY, TANH, HiddenLayer
from pam.models.kernels.log_linear import PositionLogits, log_linear_likelihoods
from pam.models.kernels.mixture import Mixture, mixture_log_likelihood, mixture_plain
from pam.models.kernels.positions import PositionLikelihood
from pam.models.kernels.search_layer import SearchedMixture, SearchLayer
from pam.models.logspace import ZERO, is_most_probable, is_nucleus, is_possible
from pam.models.packing import PackedTargets, cat_optional, optional_rows, rows_of
from pam.models.posterior import Observed, bayes

# The distribution of the next symbol.


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of a step before its symbol is chosen."""

    query: Tensor  # (n, H) s_t
    log_prior: Tensor  # (n, m) log of the alignment before y_t is seen
    prior: Tensor  # (n, m) the alignment itself
    shift: Tensor | None = None  # (n, D) what a latent of the step adds to a context, or None
    cost: Tensor | None = None  # (n,) nats that the objective pays for that, or None
    gumbel: Tensor | None = None  # (n, m) the noise of the step, or None
    # the context of the prior, as `Memory.viewed` reads it; None if the output layer reads none,
    # and after `select`, as a search feeds back other contexts
    context: Tensor | None = None

    def select(self, rows: Tensor) -> Attention:
        """Keep some rows."""
        return Attention(
            query=rows_of(self.query, rows),
            log_prior=rows_of(self.log_prior, rows),
            prior=rows_of(self.prior, rows),
            shift=optional_rows(self.shift, rows),
            cost=optional_rows(self.cost, rows),
            gumbel=optional_rows(self.gumbel, rows),
        )

    @classmethod
    def cat(cls, steps: Sequence[Attention]) -> Attention:
        """Join the rows of many steps."""
        return cls(
            query=torch.cat([step.query for step in steps]),
            log_prior=torch.cat([step.log_prior for step in steps]),
            prior=torch.cat([step.prior for step in steps]),
            shift=cat_optional([step.shift for step in steps]),
            cost=cat_optional([step.cost for step in steps]),
            gumbel=cat_optional([step.gumbel for step in steps]),
            context=cat_optional([step.context for step in steps]),
        )


class Origin(NamedTuple):
    """Whether symbols of n rows are generated or copied."""

    p_gen: Tensor  # (n,) probability that a symbol is generated, whichever it is
    log_copied: Tensor  # (n,) log p(y_t, and it is copied)


class TokenDistribution(ABC):
    """p(y_t | y_<t, x) of n rows."""

    attention: Attention  # what its rows attend to, where the model has an alignment head

    @abstractmethod
    def log_probs(self) -> Tensor:
        """Return log p of every symbol, (n, V), without a gradient.

        It is valid until the next call, of any step, which may use the same memory. The caller may
        overwrite it.
        """

    def log_prob(self, symbols: Tensor) -> Tensor:
        """Return log p(y_t | y_<t, x) of symbols (n,): (n,)."""
        return self.log_probs().gather(1, symbols[:, None]).squeeze(1)

    def exact(self) -> TokenDistribution:
        """Return the same distribution over all positions, where some are left out."""
        return self

    def positions(self) -> Tensor | None:
        """Count the positions that are summed over, (n,); None: there is a single context."""
        return None

    def truncated(self) -> Tensor | None:
        """Return whether each sum is cut to K positions of more, (n,); None: no sum is."""
        return None

    def origin(self, symbols: Tensor) -> Origin | None:
        """Return how symbols (n,) come to be written, where some can be copied; else None."""
        return None

    @abstractmethod
    def select(self, rows: Tensor) -> TokenDistribution:
        """Keep some hypotheses of a step.

        Row i must then be of sentence i // beam: nothing else records it.
        """


class PositionDistribution(TokenDistribution):
    """p(y_t | y_<t, x) of n rows, in which each source position has a likelihood of its own."""

    def observe(self, symbols: Tensor) -> Observed:
        """Return log p of symbols (n,), and the posterior alignment (n, m) given them.

        It is Bayes' rule over the joint of position and symbol (equations 12 and 13):

            postr_t(a) = prior_t(a) p(y_t | s_t, h_a) / sum_a' prior_t(a') p(y_t | s_t, h_a').
        """
        return bayes(self.log_joint(symbols))

    @abstractmethod
    def log_joint(self, symbols: Tensor) -> Tensor:
        """Return log p(a, y_t | y_<t, x) of symbols (n,): (n, m)."""

    @abstractmethod
    def expected_log_prob(self, weights: Tensor, symbols: Tensor) -> Tensor:
        """Return sum_a weights(a) log p(y_t | s_t, h_a), (n,), of probabilities (n, m).

        It is the first term of a variational bound.
        """

    @abstractmethod
    def at(self, weights: Tensor) -> TokenDistribution:
        """Return p(y_t | s_t, sum_a weights(a) h_a) for weights (n, m) that sum to one.

        A bound that is estimated by draws reads the symbol at what was drawn.
        """


# The output layer, over a batch of sources and at the rows of a step.


@dataclass(frozen=True, eq=False)
class SourceReadout:
    """The output layer over a batch of sources, with the kernels that compute it for given symbols.

    p(y | s, c) = softmax(W_o z + b_o) of the hidden layer z of u = W_s s + b + W_x c.
    """

    weight: Tensor  # (V, R) W_o
    bias: Tensor  # (V,) b_o
    project: Callable[[Tensor], Tensor]  # a query s (n, H) to W_s s + b (n, R)
    of_context: Callable[[Tensor], Tensor] | None = None  # c to W_x c; None: contexts come as W_x c
    views: Tensor | None = None  # (B, m, R) W_x h_a, where positions have outputs of their own
    beam: int = 1  # rows of each sentence in a step
    compute: Compute = FLOAT32  # how given symbols are computed
    search_layer: SearchLayer | None = None  # of a search, whose steps ask for all symbols first
    added: PositionLogits | None = None  # of a search whose positions add to the logits
    hidden_layer: HiddenLayer = TANH  # makes z of u

    @cached_property
    def likelihood(self) -> PositionLikelihood | None:
        """The kernel of p(y_t | s_t, h_a) for steps that feed the posterior back.

        None in a search, whose steps have computed it for all symbols.
        """
        if self.search_layer is not None:
            return None

        assert self.views is not None
        return PositionLikelihood(
            views=self.views,
            weight=self.weight,
            bias=self.bias,
            compute=self.compute,
            hidden_layer=self.hidden_layer,
        )

    @cached_property
    def layer(self) -> SearchLayer:
        """The kernel of p(y | s_t, c) for all symbols, without gradients.

        A search brings its own; an analysis makes one here.
        """
        if self.search_layer is not None:
            return self.search_layer

        return SearchLayer(
            weight=self.weight, bias=self.bias, beam=self.beam, hidden_layer=self.hidden_layer
        )

    def log_likelihoods(self, queries: Tensor, packed: PackedTargets) -> Tensor | None:
        """Return log p(y_t | s_t, h_a) of all tokens, (N, m), where this costs less than by steps.

        Args:
            queries: (B, T, R) s_t of all steps, as `project` returns them.
            packed: the targets.
        """
        if self.hidden_layer is not IDENTITY or self.views is None:
            return None

        log_likelihoods = log_linear_likelihoods(
            views=self.views,
            queries=queries,
            weight=self.weight,
            bias=self.bias,
            symbols=packed.target[:, : packed.steps],
        )
        return packed.pack(log_likelihoods.transpose(0, 1))

    def select(self, sentences: Tensor) -> SourceReadout:
        """Keep some sentences."""
        added = None
        if self.added is not None:
            added = self.added.select(sentences)
        return replace(self, views=optional_rows(self.views, sentences), added=added)


@dataclass(frozen=True, eq=False)
class OutputRows:
    """The output layer at n rows: hypotheses of a step, or tokens of given targets."""

    readout: SourceReadout
    attention: Attention
    # (n, R) what a latent of the sentence adds to W_s s
    sentence_shift: Tensor | None = None
    packed: PackedTargets | None = None  # the tokens that rows are; None: they are those of a step
    # (n, m) log p(y_t | s_t, h_a) of given y_t, if it was computed ahead of time
    log_likelihood: Tensor | None = None

    @cached_property
    def projected(self) -> Tensor:
        """W_s s + b, (n, R), with what a latent of the sentence adds."""
        projected = self.readout.project(self.attention.query)
        if self.sentence_shift is None:
            return projected

        return projected + self.sentence_shift

    @property
    def token_sentences(self) -> Tensor | None:
        """The sentence of each row, (n,), if rows are tokens; None: they are a step's, in order."""
        if self.packed is None:
            return None
        return self.packed.sentences

    @property
    def sentences(self) -> Tensor:
        """The sentence of each row, (n,)."""
        if self.packed is not None:
            return self.packed.sentences

        query = self.attention.query
        return torch.arange(len(query), device=query.device) // self.readout.beam

    def mixture(
        self,
        hidden: Tensor,
        symbols: Tensor,
        weights: Tensor,
        kept: Tensor,
        views: Tensor | None = None,
        summed: bool = True,
        log_gate: Tensor | None = None,
        log_copied: Tensor | None = None,
        top_k: int | None = None,
    ) -> Tensor:
        """Return the log likelihood of symbols (n,), or its expectation, (n,).

        If `summed`, it is log (sum_k exp(weights(k)) p(y | k) + exp(log_copied)); else it is
        sum_k weights(k) log (exp(log_gate(k)) p(y | k) + exp(log_copied(k))).

        Args:
            hidden: (n, R) W_s s + b, and W_x c where there are no views.
            symbols: (n,) y.
            weights: (n, k) logarithms if `summed`, else probabilities.
            kept: (n, k) the contexts that count, at most `top_k` in a row.
            views: (B, k, R) W_x c of each context; None: there is one.
            log_gate: (n, k), of an expectation alone.
            log_copied: (n,) if `summed`, else (n, k).
        """
        mixture = Mixture(
            symbols=symbols,
            kept=kept,
            sentences=self.sentences,
            summed=summed,
            compute=self.readout.compute,
            top_k=top_k,
            hidden_layer=self.readout.hidden_layer,
        )

        return mixture_log_likelihood(
            views=views,
            query=hidden,
            weights=weights,
            weight=self.readout.weight,
            bias=self.readout.bias,
            mixture=mixture,
            log_gate=log_gate,
            log_copied=log_copied,
        )

    def select(self, rows: Tensor) -> OutputRows:
        """Keep some hypotheses; see `TokenDistribution.select`."""
        return OutputRows(
            readout=self.readout,
            attention=self.attention.select(rows),
            sentence_shift=optional_rows(self.sentence_shift, rows),
        )


# The kinds of distributions.


class ContextDistribution(TokenDistribution):
    """p(y) = sum_k p(k) p(y | s_t, c_k), with k contexts c_k; what `CopyMixture` can wrap."""

    rows: OutputRows

    @property
    def attention(self) -> Attention:  # type: ignore[override]
        return self.rows.attention

    @property
    def prior_shift(self) -> Tensor | None:
        """What a latent adds to a context of the prior, (n, D), which copying reads; or None."""
        return None

    @abstractmethod
    def mean_per_context(self, values: Tensor) -> Tensor:
        """Return the mean in each context, (n, k), of values (n, m) of positions, for copying."""

    @abstractmethod
    def log_weights(self, log_gate: Tensor | None = None) -> Tensor:
        """Return log p(k), (n, k), `ZERO` where a context is left out.

        With `Cut.renormalized` the weights of kept contexts are scaled so that
        sum_k p(k) exp(log_gate(k)) stays that of all contexts; `log_gate` (n, k), None: zeros.
        """

    @abstractmethod
    def mixture(
        self, symbols: Tensor, log_weights: Tensor, log_copied: Tensor | None = None
    ) -> Tensor:
        """Return log (sum_k exp(log_weights(k)) p(y | s_t, c_k) + exp(log_copied)), (n,).

        `log_copied` (n,) is the log probability that the symbols (n,) are copied; None: it is zero.
        """

    @abstractmethod
    def generated_probs(self, log_gate: Tensor) -> Tensor:
        """Return sum_k exp(log_gate(k)) p(k) p(y | s_t, c_k), (n, V), without gradients."""

    def log_prob(self, symbols: Tensor) -> Tensor:
        return self.mixture(symbols, self.log_weights())

    def exact(self) -> ContextDistribution:
        return self

    @abstractmethod
    def select(self, rows: Tensor) -> ContextDistribution: ...


def smoothed_log_prob(
    share: float, log_prob: Tensor, symbols: Tensor, z: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Return (1 - share) log p(y) + share mean_y' log p(y'), (n,), where p = softmax(W z + b).

    This is label smoothing (Szegedy et al. 2016, section 7). Log p of two symbols differs as their
    logits do. So the mean of log p over all symbols is log p(y) - logit(y) + mean logit.

    Args:
        log_prob: (n,) log p(y) of symbols y (n,).
        z: (n, R); weight: (V, R) W; bias: (V,) b.
    """
    logit = (z * weight[symbols]).sum(1) + bias[symbols]
    mean_logit = z @ weight.mean(0) + bias.mean()
    return log_prob + share * (mean_logit - logit)


@dataclass(eq=False)
class SingleContext(ContextDistribution):
    """p(y) = p(y | s_t, c_t) of one context, or p(y | s_t) of none."""

    rows: OutputRows
    context: Tensor | None = None  # (n, D) c_t, or (n, R) W_x c_t: see `SourceReadout.of_context`
    alignment: Tensor | None = None  # (n, m) c_t's weights; None: those of the prior

    @cached_property
    def hidden(self) -> Tensor:
        """W_x c_t + W_s s_t + b, (n, R)."""
        hidden = self.rows.projected
        if self.context is None:
            return hidden

        # `of_context` is None wherever there are views, as contexts are then sums of W_x h_a, and
        # in a search, which has multiplied them already.
        projected_context = self.context
        of_context = self.rows.readout.of_context
        if of_context is not None:
            projected_context = of_context(self.context)

        return hidden + projected_context

    def log_probs(self) -> Tensor:
        readout = self.rows.readout
        return readout.layer.log_probs(readout.hidden_layer.plain(self.hidden))

    def smoothed(self, share: float, log_prob: Tensor, symbols: Tensor) -> Tensor:
        """Smooth log p of symbols, both (n,); see `smoothed_log_prob`."""
        readout = self.rows.readout
        z = readout.hidden_layer.plain(self.hidden)
        return smoothed_log_prob(share, log_prob, symbols, z, readout.weight, readout.bias)

    def generated_probs(self, log_gate: Tensor) -> Tensor:
        return (self.log_probs() + log_gate).exp()

    @property
    def prior_shift(self) -> Tensor | None:
        if self.alignment is not None:
            return None

        return self.attention.shift

    def mean_per_context(self, values: Tensor) -> Tensor:
        alignment = self.alignment
        if alignment is None:
            alignment = self.attention.prior

        return (alignment * values).sum(1, keepdim=True)

    def log_weights(self, log_gate: Tensor | None = None) -> Tensor:
        return self.hidden.new_zeros(len(self.hidden), 1)

    def mixture(
        self, symbols: Tensor, log_weights: Tensor, log_copied: Tensor | None = None
    ) -> Tensor:
        return self.rows.mixture(
            hidden=self.hidden,
            symbols=symbols,
            weights=log_weights,
            kept=torch.ones_like(log_weights, dtype=torch.bool),
            log_copied=log_copied,
        )

    def select(self, rows: Tensor) -> SingleContext:
        return SingleContext(
            rows=self.rows.select(rows),
            context=optional_rows(self.context, rows),
            alignment=optional_rows(self.alignment, rows),
        )


@dataclass(frozen=True, eq=False)
class KeptPositions:
    """The positions that a mixture is summed over."""

    mask: Tensor  # (n, m) whether a position counts
    truncated: Tensor | None = None  # (n,) whether a sum is cut to K positions of more; None: none


@dataclass(frozen=True)
class Cut:
    """A choice of positions that a mixture is summed over.

    It is all of them; the K most probable ones (equation 7); a nucleus, the fewest whose prior is
    at least `mass`; or at most K of the nucleus.
    """

    top_k: int | None = None
    mass: float | None = None
    renormalized: bool = False  # whether those that are kept get the weight of all

    def positions(self, log_prior: Tensor) -> KeptPositions:
        """Choose positions that are possible by priors (n, m); each row has one."""
        nucleus = is_possible(log_prior)
        if self.mass is not None and self.mass < 1:
            nucleus = nucleus & is_nucleus(log_prior.exp(), self.mass)

        if self.top_k is None:
            return KeptPositions(nucleus)

        log_nucleus = log_prior.masked_fill(~nucleus, -torch.inf)
        kept = nucleus & is_most_probable(log_nucleus, self.top_k)
        return KeptPositions(kept, truncated=(kept != nucleus).any(1))


ALL_POSITIONS = Cut()


@dataclass(eq=False)
class AttentionMixture(ContextDistribution, PositionDistribution):
    """p(y) = sum_a prior(a) p(y | s_t, h_a), over all positions or those of a cut."""

    rows: OutputRows
    cut: Cut = ALL_POSITIONS
    known: KeptPositions | None = None  # the positions, where they were chosen before
    # a search's distribution of every symbol at every position, and the row of each row in it
    searched: tuple[SearchedMixture, Tensor] | None = None

    @cached_property
    def chosen(self) -> KeptPositions:
        """The positions that are summed over."""
        return self.known or self.cut.positions(self.attention.log_prior)

    def positions(self) -> Tensor:
        return self.chosen.mask.sum(1)

    def truncated(self) -> Tensor | None:
        return self.chosen.truncated

    def exact(self) -> AttentionMixture:
        if torch.equal(self.chosen.mask, is_possible(self.attention.log_prior)):
            return self
        return AttentionMixture(self.rows)

    def log_weights(self, log_gate: Tensor | None = None) -> Tensor:
        log_prior = self.attention.log_prior
        log_weights = log_prior.masked_fill(~self.chosen.mask, ZERO)
        if not self.cut.renormalized:
            return log_weights

        # The kept positions generate as much as all positions do.
        gate: Tensor | float = 0.0
        if log_gate is not None:
            gate = log_gate

        log_kept_mass = torch.logsumexp(log_weights + gate, dim=1, keepdim=True)
        log_total_mass = torch.logsumexp(log_prior + gate, dim=1, keepdim=True)
        return log_weights + log_total_mass - log_kept_mass

    def mixture(
        self, symbols: Tensor, log_weights: Tensor, log_copied: Tensor | None = None
    ) -> Tensor:
        if self.rows.log_likelihood is not None:
            return mixture_plain(log_weights, self.rows.log_likelihood, True, log_copied=log_copied)

        return self.rows.mixture(
            hidden=self.rows.projected,
            symbols=symbols,
            weights=log_weights,
            kept=self.chosen.mask,
            views=self.rows.readout.views,
            log_copied=log_copied,
            top_k=self.cut.top_k,
        )

    def log_joint(self, symbols: Tensor) -> Tensor:
        """Return log prior_t(a) + log p(y_t | s_t, h_a) of symbols (n,): (n, m)."""
        return self.log_weights() + self.position_log_prob(symbols)

    def position_log_prob(self, symbols: Tensor) -> Tensor:
        """Return log p(y_t | s_t, h_a) of symbols (n,): (n, m).

        It has no meaning at positions that are left out.
        """
        if self.rows.log_likelihood is not None:
            return self.rows.log_likelihood

        # Given targets: only the symbols asked for are computed.
        likelihood = self.rows.readout.likelihood
        if likelihood is not None:
            return likelihood(
                query=self.rows.projected,
                symbols=symbols,
                kept=self.chosen.mask,
                top_k=self.cut.top_k,
                sentences=self.rows.token_sentences,
            )

        # Search: the step has computed all symbols, to choose one.
        if self.searched is None:
            self._search(self.log_weights())
        assert self.searched is not None

        mixture, rows = self.searched
        return mixture.log_likelihood(rows, symbols)

    def log_probs(self) -> Tensor:
        return self._search(self.log_weights()).log_probs()

    def generated_probs(self, log_gate: Tensor) -> Tensor:
        return self._search(self.log_weights(log_gate) + log_gate).sums

    def _search(self, log_weights: Tensor) -> SearchedMixture:
        """Sum the distributions of all positions with log weights (n, m).

        The result is kept: search will ask it about the symbols that it chooses. What it answers,
        the likelihood at each position, does not depend on the weights.
        """
        readout = self.rows.readout
        assert readout.views is not None

        mixture = SearchedMixture(
            views=readout.views,
            query=self.rows.projected,
            weights=log_weights.exp(),
            kept=self.chosen.mask,
            sentences=self.rows.sentences,
            layer=readout.layer,
            added=readout.added,
        )

        row_index = torch.arange(len(log_weights), device=log_weights.device)
        self.searched = mixture, row_index
        return mixture

    def expected_log_prob(
        self,
        weights: Tensor,
        symbols: Tensor,
        log_gate: Tensor | None = None,
        log_copied: Tensor | None = None,
    ) -> Tensor:
        """Return sum_a weights(a) log p(y_t | s_t, h_a), (n,), over positions with any weight.

        If `log_gate` and `log_copied` (n, m) are given, the place of p(y_t | s_t, h_a) is taken by
        exp(log_gate(a)) p(y_t | s_t, h_a) + exp(log_copied(a)).
        """
        return self.rows.mixture(
            hidden=self.rows.projected,
            symbols=symbols,
            weights=weights,
            kept=~(weights <= 0),  # NaN counts, so that it shows in the sum
            views=self.rows.readout.views,
            summed=False,
            log_gate=log_gate,
            log_copied=log_copied,
        )

    def mean_per_context(self, values: Tensor) -> Tensor:
        return values

    def at(self, weights: Tensor) -> SingleContext:
        packed = self.rows.packed
        views = self.rows.readout.views
        assert packed is not None and views is not None

        by_sentence = packed.pad(weights).transpose(0, 1)  # (B, T, m)
        contexts = torch.bmm(by_sentence, views)  # (B, T, R): sum_a weights(a) W_x h_a
        return SingleContext(self.rows, packed.pack(contexts.transpose(0, 1)), weights)

    def select(self, rows: Tensor) -> AttentionMixture:
        known = KeptPositions(
            mask=rows_of(self.chosen.mask, rows),
            truncated=optional_rows(self.chosen.truncated, rows),
        )

        # The sums of a search stay as they are; only the rows that are read from them change.
        searched = None
        if self.searched is not None:
            mixture, mixture_rows = self.searched
            searched = mixture, rows_of(mixture_rows, rows)

        return AttentionMixture(
            rows=self.rows.select(rows),
            cut=self.cut,
            known=known,
            searched=searched,
        )
