"""Sizes of data of inflection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pam.data.dataset import SPLITS
from pam.reporting.sizes import Sizes, Summary


def _forms(summary: Summary) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each split."""
    for split in SPLITS:
        counts = summary["splits"][split]
        yield (
            split,
            counts["rows"],
            counts["lemmas"],
            counts["duplicate_rows"],
            counts["cells_with_several_forms"],
            sum(counts["unseen_source"].values()) + sum(counts["unseen_target"].values()),
        )


SIZES = Sizes(
    headings=("Split", "Rows", "Lemmas", "Duplicates", "Several forms", "Unseen"),
    align="lrrrrr",
    rows=_forms,
)
