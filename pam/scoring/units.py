"""Counts per resampling unit (a lemma, a sentence): all that metrics and bootstrap need."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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


def join(parts: Sequence[Units]) -> Units:
    """Counts of the same units side by side; of a column that several parts have, the first.

    Raises:
        ValueError: the parts are not about the same units.
    """
    first, columns, counts = parts[0], list[str](), list[Floats]()
    for part in parts:
        if (part.names, part.references) != (first.names, first.references):
            raise ValueError("counts of other units")
        for column in part.columns:
            if column not in columns:
                columns.append(column)
                counts.append(part.of([column])[:, 0])
    return Units(first.names, tuple(columns), np.stack(counts, axis=1), first.references)


def digest_of(rows: Iterable[Sequence[str]]) -> str:
    """SHA-256 of rows of text, as lines with tabs between columns."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(("\t".join(row) + "\n").encode())
    return digest.hexdigest()
