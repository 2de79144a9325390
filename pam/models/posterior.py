"""Bayes' rule: the alignment once the symbol is seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Observation:
    """What source positions make of a symbol that was written."""

    posterior: Tensor  # (n, m)
    evidence: Tensor  # (n,) log p(y_t | y_<t, x)
    truncated: Tensor | None = None  # (n,) which sums are cut to K positions, or None: none is


def posterior(log_prior: Tensor, log_likelihood: Tensor, truncated: Tensor | None = None) -> Observation:
    """postr_t(a) = prior_t(a) p(y_t | s_t, h_a) / sum_a' prior_t(a') p(y_t | s_t, h_a') (Shankar & Sarawagi 2019,
    equations 12 and 13), with the log of the denominator as evidence.

    Args:
        log_prior: (n, m), `ZERO` at positions that are not summed over; log_likelihood: (n, m), without meaning there.
    """
    return normalized(log_prior + log_likelihood, truncated)


def normalized(joint: Tensor, truncated: Tensor | None = None) -> Observation:
    """The same of log p(a, y_t | y_<t, x), (n, m)."""
    evidence = torch.logsumexp(joint, dim=1)
    return Observation((joint - evidence[:, None]).exp(), evidence, truncated)
