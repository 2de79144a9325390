"""Batches in few shapes: rows, positions and steps are padded to the sizes of buckets."""

from __future__ import annotations

from pam.data.dataset import Batch
from pam.data.vocabulary import PAD

# Sizes are multiples of it. They are so far apart too, but for long rows.
STEP = 8
# Sizes of long rows are at most one part of so many apart, so that no more of a row is padding.
SHARE = 12


def bucket_size(length: int) -> int:
    """Return the least size of a bucket that holds so many symbols: 8, 16, ..., 192, 208, ..."""
    size = STEP
    while size < length:
        size += max(STEP, size // SHARE // STEP * STEP)
    return size


def pad_to_bucket(batch: Batch, rows: int) -> Batch:
    """Pad a batch to so many rows, and sources and targets to the sizes of their buckets.

    Rows of padding have sources of one symbol, which is padding, and no target.
    """
    from torch.nn import functional as F

    count, positions, *units = batch.source.shape
    missing_rows = rows - count
    missing_positions = bucket_size(positions) - positions
    missing_steps = bucket_size(batch.target.shape[1]) - batch.target.shape[1]

    # Pairs of numbers before and behind, from the last dimension to the first.
    source_padding = (*(0, 0) * len(units), 0, missing_positions, 0, missing_rows)
    return Batch(
        rows=batch.rows,
        source=F.pad(batch.source, source_padding, value=PAD),
        lengths=F.pad(batch.lengths, (0, missing_rows), value=1),
        target=F.pad(batch.target, (0, missing_steps, 0, missing_rows), value=PAD),
    )
