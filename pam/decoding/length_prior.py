"""p(target length | source length), counted from training text.

Left alone, models favour short outputs; a prior over lengths sets that right (as in Eriguchi et al.
2016): y = argmax log p(|y| | |x|) + log p(y | x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pam.data.dataset import Split
from pam.io import Strict, parse, read_json, write_text

FILE = "lengths.json"
"""Its name in a model's folder."""


class LengthPrior(Strict):
    """Counts of pairs of lengths, smoothed.

    p(n | m) = (c(m, n) + d(m) q(n | m)) / (c(m) + d(m)), where c counts training pairs, d(m) is the number of different
    n seen with m (Witten & Bell 1991), and q is a Poisson distribution whose mean grows with m. So every n is possible,
    for every m, also one that training did not contain. Lengths are in symbols, without end symbols.
    """

    ratio: float = Field(ge=0, description="mean target length over mean of source length + 1")
    counts: list[Annotated[list[int], Field(min_length=3, max_length=3)]] = Field(
        description="source length, target length, number of training pairs"
    )

    @classmethod
    def of(cls, split: Split) -> LengthPrior:
        """Counts the pairs of lengths of a prepared split, end symbols left out."""
        return cls.fit(split.sources.lengths - 1, split.targets.lengths - 1)

    @classmethod
    def fit(cls, source: Iterable[int], target: Iterable[int]) -> LengthPrior:
        """Counts pairs of lengths."""
        counted = Counter(zip(map(int, source), map(int, target), strict=True))
        below = sum(count * (m + 1) for (m, _), count in counted.items())
        above = sum(count * n for (_, n), count in counted.items())
        rows = [[m, n, count] for (m, n), count in sorted(counted.items())]
        return cls(ratio=above / max(1, below), counts=rows)

    def save(self, path: Path | str) -> None:
        """Writes it as JSON, whole or not at all."""
        write_text(path, self.model_dump_json() + "\n")

    @classmethod
    def load(cls, path: Path | str) -> LengthPrior:
        """Reads what `save` wrote.

        Raises:
            UserError: missing or damaged.
        """
        content: Any = read_json(path)
        return parse(cls, content, path)

    def log_probs(self, source: int, longest: int) -> NDArray[np.float64]:
        """log p(n | source) of n = 0, 1, ..., `longest`: (longest + 1,)."""
        n = np.arange(longest + 1)
        rate = max(self.ratio * (source + 1), 0.01)
        poisson = np.exp(n * np.log(rate) - rate - np.cumsum(np.log(np.maximum(n, 1))))
        seen = self._by_source.get(source, {})
        total, different = sum(seen.values()), max(1, len(seen))
        counts = np.array([seen.get(length, 0) for length in range(longest + 1)])
        tiny = np.finfo(np.float64).tiny
        log_probs: NDArray[np.float64] = np.log((counts + different * poisson) / (total + different) + tiny)
        return log_probs

    @cached_property
    def _by_source(self) -> dict[int, dict[int, int]]:
        """Counts of target lengths by source length."""
        table: dict[int, dict[int, int]] = {}
        for m, n, count in self.counts:
            table.setdefault(m, {})[n] = count
        return table
