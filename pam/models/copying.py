"""Copying: an output symbol is generated from the vocabulary, or is a symbol of the source.

The vocabulary is extended for each source (See et al. 2017): of V target symbols, a word of the source that is none of
them has the id V + a, where a is the first position at which the source has it. In sources, words that are not in the
source's own vocabulary are numbered likewise, after its last symbol.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.data.vocabulary import SPECIALS, UNK, Vocabulary
from pam.models import options
from pam.models.interfaces import Component, Origin, Sizes, rows_of
from pam.models.logspace import ZERO


@dataclass(frozen=True)
class Switch:
    """What decides in n rows whether a symbol is generated or copied: p_gen = sigmoid(logit)."""

    logit: Tensor  # (n,) w_s . s_t + w_x . x_t + b
    of_values: Tensor  # (n, m) w_h . h_a
    copied: Tensor  # (n, m) the symbol that each position is copied as
    vocabulary: int  # V

    @property
    def by_position(self) -> Tensor:
        """(n, m) the logit at each h_a in place of a context."""
        return self.logit[:, None] + self.of_values

    def known(self, symbols: Tensor) -> Tensor:
        """Symbols (n,), those that the vocabulary lacks as unknown."""
        return symbols.masked_fill(symbols >= self.vocabulary, UNK)

    def gate(self, logit: Tensor, symbols: Tensor) -> Tensor:
        """log p_gen, (n, k), from its logit (n, k); `ZERO` and less where the symbol (n,) cannot be generated."""
        return F.logsigmoid(logit) + torch.where(symbols >= self.vocabulary, ZERO, 0.0).to(logit)[:, None]

    def of_symbol(self, log_mass: Tensor, symbols: Tensor) -> Tensor:
        """Log masses (n, m) of positions that have the symbol (n,); `ZERO` at others."""
        return log_mass.masked_fill(self.copied != symbols[:, None], ZERO)

    def select(self, rows: Tensor) -> Switch:
        logit, of_values, copied = (rows_of(part, rows) for part in (self.logit, self.of_values, self.copied))
        return Switch(logit, of_values, copied, self.vocabulary)


@dataclass(frozen=True)
class CopyMixture:
    """p(y) = sum_k gate(k) p_vocab(y | k) + sum_a mass(a) [x_a = y] of n rows, k being one context or a position."""

    switch: Switch
    logit: Tensor  # (n, k) of p_gen, so that gate(k) = sigmoid(logit)
    mass: Tensor  # (n, m) log probability that a symbol is copied from position a
    shares: Tensor | None = None  # (n, m) log of how contexts h_a share what is copied; None: each has its own position

    @classmethod
    def of(cls, switch: Switch, logit: Tensor, log_prior: Tensor) -> CopyMixture:
        """That in which position a, if a symbol is copied, is the one that is attended, with log prior (n, m)."""
        return cls(switch, logit, log_prior + F.logsigmoid(-logit))

    def gate(self, symbols: Tensor) -> Tensor:
        return self.switch.gate(self.logit, symbols)

    def total(self, symbols: Tensor) -> Tensor:
        """log sum_a mass(a) [x_a = y], (n,)."""
        return torch.logsumexp(self.switch.of_symbol(self.mass, symbols), 1)

    def by_position(self, symbols: Tensor) -> Tensor:
        """log p(a, y is copied), (n, m)."""
        if self.shares is None:
            return self.switch.of_symbol(self.mass, symbols)
        return self.shares + self.total(symbols)[:, None]

    def origin(self, symbols: Tensor) -> Origin:
        """What is not copied from any position is generated: of a single context this is its p_gen, and where the
        position is summed out at the output sum_a prior(a) p_gen(a), the mean of the positions' own."""
        return Origin((1 - self.mass.exp().sum(1)).clamp_min(0), self.total(symbols))

    def log_probs(self, generated: Tensor) -> Tensor:
        """log p(y) of all symbols, those of the source too, (n, V + m), from sum_k gate(k) p_vocab(y | k), (n, V)."""
        copied, first = self.switch.copied, self.switch.vocabulary
        probs = F.pad(generated, (0, self.mass.shape[1]))
        probs.scatter_add_(1, copied, self.mass.exp())
        log_probs = probs.clamp_min_(torch.finfo(probs.dtype).tiny).log_()
        # Ids that stand for no word of the source: its padding, and where a word is repeated or known.
        words = torch.zeros_like(self.mass, dtype=torch.bool)
        words = F.pad(words, (1, 0)).scatter_(1, (copied - first + 1).clamp_min(0), True)[:, 1:]
        log_probs[:, first:].masked_fill_(~words, -torch.inf)
        return log_probs

    def select(self, rows: Tensor) -> CopyMixture:
        shares = None if self.shares is None else rows_of(self.shares, rows)
        return CopyMixture(self.switch.select(rows), rows_of(self.logit, rows), rows_of(self.mass, rows), shares)


class Copying(Component):
    """Whether symbols of the source can be written as they are."""

    copies = False

    def symbols(self, source: Tensor) -> Tensor | None:
        """The symbols that positions of a source (B, m) are copied as, (B, m); None: nothing is copied."""
        return None

    def of_positions(self, values: Tensor) -> Tensor | None:
        """What positions add to the logit of p_gen, (B, m), of (B, m, D)."""
        return None

    def switch(self, copied: Tensor | None, pointed: Tensor | None, query: Tensor, fed: Tensor) -> Switch | None:
        """What decides in n rows, from what `symbols` and `of_positions` gave, of each row (n, m), the query s_t
        (n, H), and the decoder's input x_t (n, E), the embedding of y_{t-1}."""
        return None

    def of_context(self, context: Tensor) -> Tensor:
        """What a context (n, D) adds to the logit, (n,)."""
        raise NotImplementedError("nothing is copied")


class NoCopying(Copying):
    """All symbols are generated."""


class PointerGenerator(Copying):
    """p(y_t) = p_gen p_vocab(y_t) + (1 - p_gen) sum_a prior_t(a) [x_a = y_t], with p_gen = sigmoid(w_h . c_t +
    w_s . s_t + w_x . x_t + b) (See et al. 2017, equations 8 and 9; 'Amortized Context Vector Inference', 5 and 6).

    Where the position is summed out at the output, each has a p_gen of its own, in which h_a is in the place of c_t,
    and whoever attends to a and copies writes x_a:

        p(y_t | s_t, h_a) = p_gen(a) p_vocab(y_t | s_t, h_a) + (1 - p_gen(a)) [x_a = y_t],
        p(y_t) = sum_a prior_t(a) p(y_t | s_t, h_a).

    Bayes' rule applies to it as it stands: the posterior moves to positions that have the symbol. Where the sum is cut
    (`top_k`, `mass`), what is generated is summed over the kept positions and what is copied over all, as that costs
    nothing: a word that can only be copied keeps its probability. With both terms at least zero, it is a lower bound of
    the exact sum as before. Where the sum is renormalized in training, the kept positions generate as much as all do.

    A bound needs log p(y_t | s_t, h_a) at positions that do not have the symbol, which would be minus infinity where
    it is not in the vocabulary. So there the latent position decides the context alone, and what is copied follows the
    attention, [x_a = y_t] above giving way to sum_a' prior_t(a') [x_a' = y_t].

    The embedding x_t is read without dropout. Until `match` is called, both vocabularies are taken to be the same.
    """

    copies = True
    targets: Tensor

    def __init__(self, options: options.PointerGenerator, sizes: Sizes) -> None:
        super().__init__()
        self.vocabulary = sizes.target
        self.of_values = nn.Linear(sizes.values, 1, bias=False)
        self.of_query = nn.Linear(sizes.query, 1)
        self.of_symbol = nn.Linear(sizes.embedding, 1, bias=False)
        # Vocabularies belong to a model's folder, so that its weights need not hold what follows from them.
        same = torch.arange(sizes.source)
        self.register_buffer("targets", same.masked_fill(same >= sizes.target, -1), persistent=False)

    def match(self, source: Vocabulary, target: Vocabulary) -> None:
        """Learns which symbols of the source are which of the target: (source symbols,) ids, -1 for none."""
        found = torch.tensor([*range(len(SPECIALS)), *target.encode(source.symbols)])
        found[len(SPECIALS) :].masked_fill_(found[len(SPECIALS) :] == UNK, -1)
        self.targets.copy_(found)

    def symbols(self, source: Tensor) -> Tensor:
        beyond = source >= len(self.targets)
        found = self.targets[source.masked_fill(beyond, UNK)].masked_fill(beyond, -1)
        if bool((found >= 0).all()):
            return found
        first = (source[:, :, None] == source[:, None]).byte().argmax(2)
        return torch.where(found < 0, self.vocabulary + first, found)

    def of_positions(self, values: Tensor) -> Tensor:
        return self.of_context(values)

    def of_context(self, context: Tensor) -> Tensor:
        found: Tensor = self.of_values(context)
        return found.squeeze(-1)

    def switch(self, copied: Tensor | None, pointed: Tensor | None, query: Tensor, fed: Tensor) -> Switch:
        assert copied is not None and pointed is not None
        logit = (self.of_query(query) + self.of_symbol(fed)).squeeze(1)
        return Switch(logit, pointed, copied, self.vocabulary)


def pointers_of(model: nn.Module) -> list[PointerGenerator]:
    """The pointers of a model, or of the members of an ensemble."""
    return [part for part in model.modules() if isinstance(part, PointerGenerator)]


def match(model: nn.Module, source: Vocabulary, target: Vocabulary) -> None:
    """Tells the pointers of a model, if it has any, what its symbols are."""
    for pointer in pointers_of(model):
        pointer.match(source, target)
