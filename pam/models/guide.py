"""Given links as one more term of the objective (Garg et al. 2019, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

SMALLEST = 1e-9
"""Smaller probabilities of a linked word count as this one: its log has a bound."""


@dataclass(frozen=True, eq=False)
class Guide:
    """Given links of the words of a batch, which attention is to learn.

    A target symbol has the links of its word, and a source word the sum of the attention to its
    symbols.

    Attributes:
        words: (B, m) the index of each position's word; S where it is part of no word.
        links: (B, T, S) for each target symbol a distribution over the words that it is linked to;
            zeros where it is linked to none, which adds nothing.
        weight: of the term in the objective.
        of_posterior: whether the posterior learns the links, in place of the prior.
    """

    words: Tensor
    links: Tensor
    weight: float
    of_posterior: bool = False

    def cost(self, alignment: Tensor) -> Tensor:
        """Compute the nats (B, T) that the objective pays for alignments (B, T, m).

        They are the weighted cross-entropy of the given links,

            - weight sum_i links_t(i) log sum_{a in word i} alignment_t(a).
        """
        count = self.links.shape[2]
        of_word = F.one_hot(self.words, count + 1)[:, :, :count].to(alignment.dtype)
        probabilities = torch.bmm(alignment, of_word)
        log_probabilities = probabilities.clamp_min(SMALLEST).log()
        return -self.weight * (self.links.to(alignment.dtype) * log_probabilities).sum(2)

    def repeat(self, times: int) -> Guide:
        """Repeat each row for so many draws, one after another."""
        return replace(
            self,
            words=self.words.repeat_interleave(times, 0),
            links=self.links.repeat_interleave(times, 0),
        )

    def to(self, device: torch.device) -> Guide:
        return replace(self, words=self.words.to(device), links=self.links.to(device))
