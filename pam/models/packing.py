"""Packed targets: the tokens of a batch, step after step, and the rows that each step has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pam.data.vocabulary import BOS, PAD


@dataclass(frozen=True, eq=False)
class PackedTargets:
    """The N tokens of targets (B, T), step after step, as torch's `PackedSequence` holds them.

    Nothing else decides which rows a step has. As a rule these are the rows that have not ended:
    then sentences stand in the order of falling length, and a step has the first ones.

    With `drop_ended=False` a step has all rows, so that shapes depend on nothing but B and T. Then
    values after the end of a row have no meaning, and no gradient if they are left out of the loss.
    """

    order: Tensor  # (B,) the row of each of our sentences in the targets that were given
    target: Tensor  # (B, T) in this order
    batch_sizes: list[int]  # rows of each step; they never grow in number
    sentences: Tensor  # (N,) the row of each token's sentence
    symbols: Tensor  # (N,) y_t
    before: Tensor  # (B, T) y_{t-1} in this order
    previous: Tensor  # (N,) y_{t-1}

    @classmethod
    def of(cls, target: Tensor, drop_ended: bool = True) -> PackedTargets:
        """Pack targets (B, T), padded at the end."""
        rows, steps = target.shape

        if drop_ended:
            lengths = (target != PAD).sum(1)
            order = lengths.argsort(descending=True, stable=True)
            target = target[order]

            # Count the sentences that reach each step.
            times = torch.arange(steps, device=target.device)
            counts = (lengths[None] > times[:, None]).sum(1).tolist()
            batch_sizes = [count for count in counts if count]
        else:
            order = torch.arange(rows, device=target.device)
            batch_sizes = [rows] * steps

        # y_{t-1} is y_t one step later, behind the start symbol.
        first = torch.full_like(target[:, :1], BOS)
        before = torch.cat([first, target[:, :-1]], dim=1)

        row_numbers = torch.arange(rows, device=target.device)
        return cls(
            order=order,
            target=target,
            batch_sizes=batch_sizes,
            sentences=torch.cat([row_numbers[:count] for count in batch_sizes]),
            symbols=torch.cat([target[:count, t] for t, count in enumerate(batch_sizes)]),
            before=before,
            previous=torch.cat([before[:count, t] for t, count in enumerate(batch_sizes)]),
        )

    @property
    def steps(self) -> int:
        """The number of steps until the last row has ended."""
        return len(self.batch_sizes)

    @cached_property
    def is_full(self) -> bool:
        """True if every step has all rows."""
        return self.batch_sizes[-1] == len(self.target)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """Divide values (N, ...) of all tokens into those of each step, (n, ...)."""
        steps: tuple[Tensor, ...] = values.split(self.batch_sizes)
        return steps

    def split_optional(self, values: Tensor | None) -> Sequence[Tensor | None]:
        """Divide values that may be missing; then no step has any."""
        if values is None:
            return [None] * self.steps
        return self.split(values)

    def pack(self, values: Tensor) -> Tensor:
        """Take the tokens (N, ...) out of values (T, B, ...)."""
        if self.is_full:
            return values.flatten(0, 1)

        steps = zip(values, self.batch_sizes, strict=True)
        return torch.cat([step[:count] for step, count in steps])

    def pad(self, values: Tensor) -> Tensor:
        """Put values (N, ...) of all tokens into (T, B, ...), zeros where a row has ended."""
        steps = self.steps
        rows = len(self.target)
        trailing = values.shape[1:]

        if self.is_full:
            is_real = self.target[:, :steps].t() != PAD
            is_real = is_real.view(steps, rows, *[1] * len(trailing))
            return values.view(steps, rows, *trailing) * is_real

        times = torch.repeat_interleave(torch.tensor(self.batch_sizes, device=values.device))
        index = times * rows + self.sentences
        padded = values.new_zeros(steps * rows, *trailing).index_copy(0, index, values)
        return padded.view(steps, rows, *trailing)

    def unpack(self, values: Tensor) -> Tensor:
        """Put values (N, ...) of all tokens into (B, T, ...), zeros at padding.

        Rows are in the order of the targets that were given.
        """
        unpacked = self.pad(values).transpose(0, 1)[torch.argsort(self.order)]
        missing = self.target.shape[1] - self.steps
        if not missing:
            return unpacked

        padding = unpacked.new_zeros(len(unpacked), missing, *unpacked.shape[2:])
        return torch.cat([unpacked, padding], 1)


def rows_of(values: Tensor, rows: Tensor | slice) -> Tensor:
    """Take some rows."""
    if isinstance(rows, slice):
        return values[rows]
    # Several times as fast as `values[rows]`.
    return values.index_select(0, rows)


def optional_rows(values: Tensor | None, rows: Tensor | slice) -> Tensor | None:
    """Take some rows of a tensor that may be missing."""
    if values is None:
        return None
    return rows_of(values, rows)


def cat_optional(parts: list[Tensor | None]) -> Tensor | None:
    """Join the rows of all steps, where every step has some or none has."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return torch.cat(present)
