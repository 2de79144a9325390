"""Choices that depend on a seed alone, not on the version of a random generator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Draws one item after another, by hashes of the seed and of a count."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0

    def one_of(self, items: Sequence[Item]) -> Item:
        """An item, each as likely as the others."""
        self._count += 1
        digest = hashlib.sha256(f"{self._seed} {self._count}".encode()).digest()
        return items[int.from_bytes(digest[:8]) % len(items)]
