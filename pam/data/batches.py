"""Bucketed batches, the same for a seed and an epoch wherever and whenever they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pam.data.actions import to_actions
from pam.data.prepared import Ragged, Split
from pam.data.vocabulary import PAD
from pam.errors import UserError

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Rows of a split as padded tensors.

    Attributes:
        rows: (B,) row numbers in the split.
        source: (B, m) ids, PAD at the end; lengths: (B,) real source lengths.
        target: (B, n) ids ending with EOS, PAD at the end.
    """

    rows: Rows
    source: Tensor
    lengths: Tensor
    target: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, n) true at real target positions."""
        return self.target != PAD

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        if device.type == "cpu":
            return self
        moved = (x.to(device, non_blocking=True) for x in (self.source, self.lengths, self.target))
        return Batch(self.rows, *moved)


class Examples:
    """The rows of a split as a model takes them.

    Args:
        split: prepared ids.
        targets: `symbols`: as they are; `actions`: with the steps of a pointer, which needs the
            split's alignment (`pam.data.actions`).
    """

    def __init__(self, split: Split, targets: Literal["symbols", "actions"]) -> None:
        self.sources, self.targets = split.sources, split.targets
        if targets == "actions":
            if split.alignment is None:
                raise UserError(
                    "this split has no alignment, from which step actions are made",
                    remedy="use `targets: symbols`, or a split that is aligned (train, dev)",
                )
            self.targets = Ragged.of(
                to_actions(
                    split.target_row(row).tolist(),
                    split.alignment_row(row).tolist(),
                    len(split.source_row(row)),
                )
                for row in range(len(split))
            )
        self.source_lengths = self.sources.lengths
        self.target_lengths = self.targets.lengths

    def __len__(self) -> int:
        return len(self.sources)

    def batch(self, rows: Rows) -> Batch:
        """The given rows, padded; longest target first, by which `pam.fast` gains."""
        rows = rows[np.argsort(-self.target_lengths[rows], kind="stable")]
        lengths = torch.from_numpy(self.source_lengths[rows])
        source = _padded([self.sources[row] for row in rows])
        return Batch(rows, source, lengths, _padded([self.targets[row] for row in rows]))

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows, similar lengths side by side: for decoding and evaluation."""
        order = np.lexsort((self.target_lengths, self.source_lengths))
        for first in range(0, len(order), size):
            yield self.batch(order[first : first + size])

    def shuffled(self, size: int, seed: int, epoch: int) -> list[Rows]:
        """Batches of one epoch: rows shuffled, grouped by source length, groups shuffled.

        The result depends on the arguments alone, so that a position in the data is an epoch and
        a number of batches, and no generator needs to be saved.
        """
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(self))
        order = order[np.argsort(self.source_lengths[order], kind="stable")]
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        return [batches[number] for number in generator.permutation(len(batches))]


def _padded(rows: list[NDArray[np.int32]]) -> Tensor:
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), PAD, np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)
