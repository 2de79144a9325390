"""Counts per resampling unit (a lemma, a sentence): all that metrics and bootstrap need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pam.scoring.metrics import Floats


@dataclass(frozen=True)
class Units:
    """Counts of one system on one test set.

    Attributes:
        names: one per unit, unique.
        columns: names of the counts.
        counts: (units, columns).
        references: SHA-256 of what was to be predicted; two systems can be compared only where
            it is the same.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Floats
    references: str

    def of(self, columns: Sequence[str]) -> Floats:
        """The named counts, (units, len(columns))."""
        return self.counts[:, [self.columns.index(column) for column in columns]]

    def total(self, columns: Sequence[str]) -> Floats:
        """Sums of the named counts over all units, (len(columns),)."""
        sums: Floats = np.sum(self.of(columns), axis=0)
        return sums
