"""Bayes' rule: the alignment once the symbol is seen (equations 12 and 13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Observed:
    """A step once its symbol y_t is known."""

    alignment: Tensor  # (n, m) by which the next context is averaged, or which is handed on
    log_prob: Tensor | None = None  # (n,) log p(y_t | y_<t, x); None: nobody has asked for it yet


def bayes(joint: Tensor) -> Observed:
    """Normalize the joint probability of position and symbol.

    Equations 12 and 13 of Shankar & Sarawagi (2019):

        postr_t(a) = p(a, y_t | y_<t, x) / sum_a' p(a', y_t | y_<t, x),

    with the log of the denominator as log p(y_t | y_<t, x). Without copying, log p(a, y_t | y_<t,
    x) = log prior_t(a) + log p(y_t | s_t, h_a).

    Args:
        joint: (n, m) log p(a, y_t | y_<t, x), about `ZERO` at positions that are not summed over.
    """
    log_prob = torch.logsumexp(joint, dim=1)
    alignment = (joint - log_prob[:, None]).exp()

    return Observed(alignment, log_prob)
