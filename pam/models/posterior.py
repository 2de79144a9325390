"""Bayes' rule: the alignment once the symbol is seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def posterior(log_prior: Tensor, log_likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """postr_t(a) = prior_t(a) p(y_t | s_t, h_a) / sum_a' prior_t(a') p(y_t | s_t, h_a') (Shankar & Sarawagi 2019,
    equations 12 and 13).

    Args:
        log_prior, log_likelihood: (n, m).

    Returns: The posterior, (n, m), and the log of its denominator, log p(y_t | y_<t, x), (n,).
    """
    joint = log_prior + log_likelihood
    evidence = torch.logsumexp(joint, dim=1)
    return (joint - evidence[:, None]).exp(), evidence


@dataclass(frozen=True)
class Observation:
    """A symbol that was written, as each source position explains it."""

    log_prior: Tensor  # (n, m), `ZERO` at positions that are not summed over
    log_likelihood: Tensor  # (n, m) log p(y_t | s_t, h_a), without meaning there
    truncated: Tensor | None = None  # (n,) which sums are cut to K positions, or None: none is

    @cached_property
    def _bayes(self) -> tuple[Tensor, Tensor]:
        return posterior(self.log_prior, self.log_likelihood)

    @property
    def posterior(self) -> Tensor:
        """(n, m)."""
        return self._bayes[0]

    @property
    def evidence(self) -> Tensor:
        """(n,) log p(y_t | y_<t, x)."""
        return self._bayes[1]
