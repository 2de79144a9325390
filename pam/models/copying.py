"""Copying: an output symbol is generated from the vocabulary, or is a symbol of the source.

The vocabulary is extended for each source (See et al. 2017). A word of the source that is none of
the V target symbols has the id V + a, where a is the first position at which the source has it. In
sources, words that are not in the source's own vocabulary are numbered likewise, after its last
symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.data.vocabulary import SPECIALS, UNK, Vocabulary
from pam.models import options
from pam.models.interfaces import Component, CopiedSource, Sizes
from pam.models.logspace import ZERO
from pam.models.outputs import (
    Attention,
    AttentionMixture,
    ContextDistribution,
    Origin,
    PositionDistribution,
    TokenDistribution,
)
from pam.models.packing import rows_of


@dataclass(frozen=True, eq=False)
class CopyRows:
    """What n rows need to copy symbols of their sources."""

    embedded: Tensor  # (n, E) x_t, the embedding of y_{t-1}
    source: CopiedSource

    def select(self, rows: Tensor) -> CopyRows:
        """Keep some rows."""
        source = self.source.change(lambda part: rows_of(part, rows))
        return CopyRows(rows_of(self.embedded, rows), source)


class Copying(Component):
    """The choice whether symbols of the source can be written as they are."""

    copies = False

    def of_source(self, source: Tensor, values: Tensor) -> CopiedSource | None:
        """Return how positions of a source (B, m) with values (B, m, D) are copied, if they are."""
        return None

    def output(
        self, generated: ContextDistribution, rows: CopyRows | None, follows_prior: bool
    ) -> TokenDistribution:
        """Add what is copied to the distribution of what is generated.

        `rows` is None if nothing is copied. `follows_prior`: see `CopyMixture`.
        """
        return generated


class NoCopying(Copying):
    """All symbols are generated."""


class PointerGenerator(Copying):
    """p(y_t) = p_gen p_vocab(y_t) + (1 - p_gen) sum_a prior_t(a) [x_a = y_t].

    p_gen = sigmoid(w_h . c_t + w_s . s_t + w_x . x_t + b) (See et al. 2017, equations 8 and 9;
    'Amortized Context Vector Inference', 5 and 6).

    Where the position is summed out at the output, each has a p_gen of its own, in which h_a is in
    the place of c_t, and whoever attends to a and copies writes x_a:

        p(y_t | s_t, h_a) = p_gen(a) p_vocab(y_t | s_t, h_a) + (1 - p_gen(a)) [x_a = y_t],
        p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a).

    Bayes' rule applies to it as it stands: the posterior moves to positions that have the symbol.

    Where the sum is cut (`top_k`, `mass`), generation is summed over the kept positions, and copies
    over all, as that costs nothing: a word that can only be copied keeps its probability. Both
    terms are at least zero, so it is a lower bound of the exact sum as before. Where the sum is
    renormalized in training, the kept positions generate as much as all positions do.

    A bound needs log p(y_t | s_t, h_a) at positions that do not have the symbol. It would be minus
    infinity where the symbol is not in the vocabulary. So in a bound the latent position decides
    the context alone, and the copied symbol follows the attention: sum_a' prior_t(a') [x_a' = y_t]
    takes the place of [x_a = y_t].

    The embedding x_t is read without dropout. Until `match` is called, both vocabularies are taken
    to be the same.
    """

    copies = True
    targets: Tensor

    def __init__(self, options: options.PointerGenerator, sizes: Sizes) -> None:
        super().__init__()
        self.vocabulary = sizes.target
        self.of_values = nn.Linear(sizes.values, 1, bias=False)
        self.of_query = nn.Linear(sizes.query, 1)
        self.of_symbol = nn.Linear(sizes.embedding, 1, bias=False)

        # Vocabularies belong to a model's folder, so that its weights need not hold what follows
        # from them.
        same = torch.arange(sizes.source)
        self.register_buffer(
            "targets", same.masked_fill(same >= sizes.target, -1), persistent=False
        )

    def match(self, source: Vocabulary, target: Vocabulary) -> None:
        """Look up the id of each source symbol among the target symbols; -1 where there is none."""
        targets = torch.tensor([*range(len(SPECIALS)), *target.encode(source.symbols)])
        words = targets[len(SPECIALS) :]
        words.masked_fill_(words == UNK, -1)

        self.targets.copy_(targets)

    def of_source(self, source: Tensor, values: Tensor) -> CopiedSource:
        logits: Tensor = self.of_values(values)
        return CopiedSource(self.symbols(source), logits.squeeze(-1))

    def symbols(self, source: Tensor) -> Tensor:
        """Return the symbols that positions of a source (B, m) are copied as, (B, m)."""
        is_beyond = source >= len(self.targets)
        symbols = self.targets[source.masked_fill(is_beyond, UNK)].masked_fill(is_beyond, -1)
        if not self.compute.static and bool((symbols >= 0).all()):
            return symbols

        # Other words have the number of the first position at which the source has them.
        first = (source[:, :, None] == source[:, None]).byte().argmax(2)
        return torch.where(symbols < 0, self.vocabulary + first, symbols)

    def output(
        self, generated: ContextDistribution, rows: CopyRows | None, follows_prior: bool
    ) -> CopyMixture:
        assert rows is not None
        if isinstance(generated, AttentionMixture):
            return PositionCopyMixture(generated, self, rows, follows_prior)
        return CopyMixture(generated, self, rows, follows_prior)


@dataclass(eq=False)
class CopyMixture(TokenDistribution):
    """p(y) = sum_k p(k) p_gen(k) p(y | s_t, c_k) + sum_a mass(a) [x_a = y].

    A symbol is generated by another distribution, of contexts c_k, or copied from position a. The
    probability to generate it is p_gen(k) = sigmoid(w_h . c_k + w_s . s_t + w_x . x_t + b).

    As a rule the symbol is copied from the attended position: mass(a) = prior(a) (1 - p_gen), with
    the p_gen of position a where the contexts are the positions. With `follows_prior`, the position
    of the context and the position of the copy are drawn independently, both from the prior:
    mass(a) = prior(a) sum_a' prior(a') (1 - p_gen(a')).
    """

    generated: ContextDistribution  # p(y | s_t, c_k), from a vocabulary of V symbols
    pointer: PointerGenerator  # w_h, w_s, w_x and b
    rows: CopyRows
    follows_prior: bool = False
    selected_logit: Tensor | None = None  # `logit`, where it is known already

    @property
    def attention(self) -> Attention:  # type: ignore[override]
        return self.generated.attention

    @cached_property
    def logit(self) -> Tensor:
        """The logit of p_gen(k), (n, k)."""
        if self.selected_logit is not None:
            return self.selected_logit

        # w_s . s_t + w_x . x_t + b, and w_h . c_k
        query = self.attention.query
        of_row = self.pointer.of_query(query) + self.pointer.of_symbol(self.rows.embedded)
        logit: Tensor = of_row + self.generated.mean_per_context(self.rows.source.logits)

        shift = self.generated.prior_shift
        if shift is not None:
            logit = logit + self.pointer.of_values(shift)
        return logit

    # What is generated.

    def vocabulary_symbols(self, symbols: Tensor) -> Tensor:
        """Replace symbols (n,) that the vocabulary lacks by `UNK`."""
        return symbols.masked_fill(symbols >= self.pointer.vocabulary, UNK)

    def log_gate(self, symbols: Tensor) -> Tensor:
        """Return log p_gen, (n, k); `ZERO` and less where the symbol (n,) cannot be generated."""
        is_lacking = symbols >= self.pointer.vocabulary
        log_possible = torch.where(is_lacking, ZERO, 0.0).to(self.logit)
        return F.logsigmoid(self.logit) + log_possible[:, None]

    def _log_generated(self, symbols: Tensor) -> Tensor:
        """Return log p(k) p_gen(k), (n, k), where symbols (n,) can be generated."""
        log_weights = self.generated.log_weights(F.logsigmoid(self.logit))
        return log_weights + self.log_gate(symbols)

    # What is copied.

    @cached_property
    def log_copy(self) -> Tensor:
        """log prior(a) (1 - p_gen), (n, m), with p_gen(a) where positions have their own."""
        return self.attention.log_prior + F.logsigmoid(-self.logit)

    @cached_property
    def log_mass(self) -> Tensor:
        """log mass(a), (n, m)."""
        if not self.follows_prior:
            return self.log_copy

        log_prior = self.attention.log_prior
        return log_prior + torch.logsumexp(self.log_copy, 1, keepdim=True)

    def of_symbol(self, log_mass: Tensor, symbols: Tensor) -> Tensor:
        """Keep log masses (n, m) of positions that have the symbol (n,); `ZERO` at others."""
        return log_mass.masked_fill(self.rows.source.symbols != symbols[:, None], ZERO)

    def log_copied(self, symbols: Tensor) -> Tensor:
        """Return log sum_a mass(a) [x_a = y] of symbols (n,): (n,)."""
        return torch.logsumexp(self.of_symbol(self.log_mass, symbols), 1)

    # Both.

    def log_prob(self, symbols: Tensor) -> Tensor:
        return self.generated.mixture(
            symbols=self.vocabulary_symbols(symbols),
            log_weights=self._log_generated(symbols),
            log_copied=self.log_copied(symbols),
        )

    def exact(self) -> Self:
        generated = self.generated.exact()
        if generated is self.generated:
            return self

        return replace(self, generated=generated)

    def positions(self) -> Tensor | None:
        return self.generated.positions()

    def truncated(self) -> Tensor | None:
        return self.generated.truncated()

    def origin(self, symbols: Tensor) -> Origin:
        """Return p_gen and the log probability that symbols (n,) are copied.

        Whatever is not copied from any position is generated. For a single context this is its
        p_gen; where the position is summed out at the output it is sum_a prior(a) p_gen(a).
        """
        p_gen = (1 - self.log_mass.exp().sum(1)).clamp_min(0)
        return Origin(p_gen, self.log_copied(symbols))

    def log_probs(self) -> Tensor:
        """Return log p of all symbols, with those of the source: (n, V + m)."""
        vocabulary = self.pointer.vocabulary
        mass = self.log_mass.exp()
        probs = F.pad(self.generated.generated_probs(F.logsigmoid(self.logit)), (0, mass.shape[1]))
        probs.scatter_add_(1, self.rows.source.symbols, mass)
        log_probs = probs.clamp_min_(torch.finfo(probs.dtype).tiny).log_()

        # Some ids stand for no word of the source: at its padding, and where a word is repeated or
        # in the vocabulary. Column 0 takes all symbols of the vocabulary, and is dropped.
        is_word = torch.zeros_like(mass, dtype=torch.bool)
        column = (self.rows.source.symbols - vocabulary + 1).clamp_min(0)
        is_word = F.pad(is_word, (1, 0)).scatter_(1, column, True)[:, 1:]
        log_probs[:, vocabulary:].masked_fill_(~is_word, -torch.inf)

        return log_probs

    def select(self, rows: Tensor) -> Self:
        return replace(
            self,
            generated=self.generated.select(rows),
            rows=self.rows.select(rows),
            selected_logit=rows_of(self.logit, rows),
        )


@dataclass(eq=False)
class PositionCopyMixture(CopyMixture, PositionDistribution):
    """The mixture in which each position generates with a likelihood of its own."""

    generated: AttentionMixture

    def log_joint(self, symbols: Tensor) -> Tensor:
        log_weights = self._log_generated(symbols)
        log_likelihood = self.generated.position_log_prob(self.vocabulary_symbols(symbols))
        log_generated = log_weights + log_likelihood

        return torch.logaddexp(log_generated, self._log_copied_by_context(symbols))

    def _log_copied_by_context(self, symbols: Tensor) -> Tensor:
        """Return log p(the context is h_a, and y is copied), (n, m)."""
        if not self.follows_prior:
            return self.of_symbol(self.log_mass, symbols)

        log_share = self.log_copy - torch.logsumexp(self.log_copy, 1, keepdim=True)
        return log_share + self.log_copied(symbols)[:, None]

    def expected_log_prob(self, weights: Tensor, symbols: Tensor) -> Tensor:
        """Return sum_a weights(a) log p(y_t | s_t, h_a), (n,), of probabilities (n, m).

        The expectation is over the position of the context alone; the copy follows the prior.
        """
        log_prior = self.attention.log_prior
        log_attended = torch.logsumexp(self.of_symbol(log_prior, symbols), 1)

        return self.generated.expected_log_prob(
            weights=weights,
            symbols=self.vocabulary_symbols(symbols),
            log_gate=self.log_gate(symbols),
            log_copied=F.logsigmoid(-self.logit) + log_attended[:, None],
        )

    def at(self, weights: Tensor) -> CopyMixture:
        return CopyMixture(self.generated.at(weights), self.pointer, self.rows)


def pointers_of(model: nn.Module) -> list[PointerGenerator]:
    """Return the pointers of a model, or of the members of an ensemble."""
    return [part for part in model.modules() if isinstance(part, PointerGenerator)]
