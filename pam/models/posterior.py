"""Bayes' rule: the alignment once the symbol is seen (equations 12 and 13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior over source positions, given the symbol that was written."""

    alignment: Tensor  # (n, m) postr_t
    evidence: Tensor  # (n,) log p(y_t | y_<t, x)
    truncated: Tensor | None = None  # (n,) whether a sum is cut to K positions; None: none is


def bayes(joint: Tensor, truncated: Tensor | None = None) -> Posterior:
    """Normalize the joint probability of position and symbol.

    Equations 12 and 13 of Shankar & Sarawagi (2019):

        postr_t(a) = p(a, y_t | y_<t, x) / sum_a' p(a', y_t | y_<t, x),

    with the log of the denominator as evidence. Without copying, log p(a, y_t | y_<t, x) =
    log prior_t(a) + log p(y_t | s_t, h_a).

    Args:
        joint: (n, m) log p(a, y_t | y_<t, x), about `ZERO` at positions that are not summed over.
        truncated: (n,) whether a sum is cut to K positions, or None.
    """
    evidence = torch.logsumexp(joint, dim=1)
    alignment = (joint - evidence[:, None]).exp()

    return Posterior(alignment, evidence, truncated)
