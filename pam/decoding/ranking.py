"""The score by which outputs of a sentence are ranked, and how high it can still get."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pam.config import Decoding
from pam.decoding.length_prior import LengthPrior


class Ranking:
    """score(y) = log p(y | x) / l^a + w log p(n | m).

    l is the number of symbols written, end symbol included, n without it; a is
    `decoding.length_penalty`, w is `decoding.length_prior`. With a = w = 0 the score is log p.

    Args:
        decoding: a and w.
        lengths: (B,) source lengths m + 1, end symbol included.
        limits: (B,) the largest l of each sentence.
        prior: p(n | m); None: w counts as 0.
    """

    def __init__(
        self, decoding: Decoding, lengths: Tensor, limits: Tensor, prior: LengthPrior | None
    ) -> None:
        self.power = decoding.length_penalty
        self.bonus: list[Tensor] | None = None
        # log p is negative, so that dividing it by the largest length raises it most.
        self.scale = limits.double() ** -self.power
        if prior is None or decoding.length_prior == 0:
            return
        tables = [
            decoding.length_prior * prior.log_probs(length - 1, limit)
            for length, limit in zip(lengths.tolist(), limits.tolist(), strict=True)
        ]
        self.bonus = [torch.from_numpy(table) for table in tables]
        self.ahead = torch.full((len(tables), int(limits.max()) + 1), -torch.inf).double()
        for row, table in enumerate(tables):
            highest = np.maximum.accumulate(table[::-1])[::-1]
            self.ahead[row, : len(table)] = torch.from_numpy(highest.copy())
        self.ahead = self.ahead.to(limits.device)

    def score(self, row: int, log_prob: float, written: int, complete: bool) -> float:
        """The score of an output of sentence `row` with `written` symbols."""
        score = log_prob / float(written**self.power)
        if self.bonus is not None:
            score += float(self.bonus[row][written - 1 if complete else written])
        return score

    def bound(self, rows: Tensor, total: Tensor, written: int) -> Tensor:
        """What no continuation of an open output can exceed.

        Args:
            rows: (B',) which sentences.
            total: (B', k) log p of what was written so far, `written` symbols.

        Returns:
            (B', k)
        """
        bound = total * self.scale[rows, None] if self.power else total
        return bound if self.bonus is None else bound + self.ahead[rows, written, None]
