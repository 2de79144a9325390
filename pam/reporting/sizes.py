"""The table of the data of a kind of task: sizes of each split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pam.data.dataset import SPLITS

Summary = dict[str, Any]  # of prepared data


@dataclass(frozen=True)
class Sizes:
    """The columns of the table, besides task and data set."""

    headings: tuple[str, ...]
    align: str  # a letter for each: `l` left, `r` right
    rows: Callable[[Summary], Iterator[tuple[Any, ...]]]  # from a summary, one for each split


def _pairs(summary: Summary) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each split."""
    for split in SPLITS:
        counts = summary["splits"][split]
        source = counts["source"]
        target = counts["target"]

        yield (
            split,
            counts["rows"],
            summary["languages"]["source"],
            source["symbols"],
            source["unknown"],
            summary["languages"]["target"],
            target["symbols"],
            target["unknown"],
            max(source["longest"], target["longest"]),
            summary["pairs_in_train_too"].get(split),
        )


PAIRS = Sizes(
    headings=(
        *("Split", "Pairs"),
        *("From", "Symbols", "Unknown"),
        *("To", "Symbols", "Unknown"),
        *("Longest", "In train too"),
    ),
    align="lrlrrlrrrr",
    rows=_pairs,
)
"""The columns of sources and targets that are sequences of symbols."""
