"""Rows drawn at random, the same wherever they are drawn: samples of a split, and division into
splits.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from pam.data.dataset import SPLITS
from pam.io import Strict, UserError

if TYPE_CHECKING:
    from pam.data.readers import Languages, Pair
    from pam.data.text_files import Line

Item = TypeVar("Item")


class Sample(Strict):
    """How many rows of each split are used, drawn at random, in their own order; null: all."""

    train: int | None = Field(None, ge=1, description="rows for training")
    dev: int | None = Field(None, ge=1, description="rows for development")
    test: int | None = Field(None, ge=1, description="rows for testing")
    seed: int = Field(1, description="another seed draws other rows")

    def of(self, split: str, rows: Iterable[Item]) -> tuple[Iterable[Item], int]:
        """The rows that a split is left with, and how many are left out.

        A larger sample of the same seed has all rows of a smaller one.
        """
        wanted, numbers = getattr(self, split), count()
        if wanted is None:
            return rows, 0
        numbered = zip(rows, numbers, strict=False)  # rows end, numbers do not
        drawn = heapq.nsmallest(
            wanted, numbered, key=lambda one: rank(self.seed, f"{split} {one[1]}")
        )
        return [row for row, _ in sorted(drawn, key=lambda one: one[1])], next(numbers) - len(drawn)


def rank(seed: int, name: str) -> bytes:
    """A place in an order that is random, but the same wherever it is asked for."""
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


class Divide(Strict):
    """Pairs for development and testing, drawn at random; the rest is for training."""

    dev: int = Field(ge=1, description="pairs for development")
    test: int = Field(ge=1, description="pairs for testing")
    seed: int = Field(1, description="another seed draws other pairs")


def divided(
    pairs: list[Pair], languages: Languages, divide: Divide, names: Sequence[str] | None = None
) -> dict[str, list[Pair]]:
    """Splits that have no sentence in common, on either side; the same in both directions; a
    UserError if too few.

    Pairs that share a sentence, white space and case aside, stay together, and so do pairs that are
    linked through others; where `names` are given, those of the same name do, and no others. Groups
    are ranked by a hash of the seed and of their name or of their first sentence in order of code
    points, so that the draw depends on nothing else; test takes the first that fit, then dev. A
    size that whole groups do not make becomes the nearest one that is found. Within a split, pairs
    keep their order.
    """
    groups = _groups(pairs, languages) if names is None else _named(names)
    sizes = {"test": divide.test, "dev": divide.dev}
    drawn = drawn_groups(groups, sizes, divide.seed)
    for split, size in sizes.items():
        _approach(drawn, split, size, groups)
    if not all(drawn.values()):
        message = (
            f"{len(pairs)} pairs are too few for {divide.dev} of dev and {divide.test} of test"
        )
        raise UserError(message, hint="ask for fewer in `divide`")
    return {name: [pairs[number] for number in drawn[name]] for name in SPLITS}


def _approach(
    drawn: dict[str, list[int]], split: str, size: int, groups: Mapping[str, list[int]]
) -> None:
    """Move a group from train to a split that is short of its size, if that brings it nearer: the
    one that does so most, the first of several.
    """
    short = size - len(drawn[split])
    training = set(drawn["train"])
    left = [
        group
        for _, group in sorted(groups.items())
        if group[0] in training and len(group) < len(training)
    ]
    nearest = min(left, key=lambda group: abs(len(group) - short), default=[])
    if abs(len(nearest) - short) < short:
        drawn[split] = sorted(drawn[split] + nearest)
        drawn["train"] = sorted(training.difference(nearest))


def drawn_groups(
    groups: Mapping[str, list[int]], sizes: Mapping[str, int], seed: int
) -> dict[str, list[int]]:
    """Numbers of rows by split, groups whole, by a random rank of their names: the first that fit
    go to a split of `sizes`, the rest to train.
    """
    drawn: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for name in sorted(groups, key=lambda first: rank(seed, first)):
        group = groups[name]
        fits = (split for split, size in sizes.items() if len(drawn[split]) + len(group) <= size)
        drawn[next(fits, "train")] += group
    return {split: sorted(numbers) for split, numbers in drawn.items()}


def _named(names: Sequence[str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        groups[name].append(number)
    return groups


def _groups(pairs: list[Pair], languages: Languages) -> dict[str, list[int]]:
    """Numbers of pairs that belong together, by the first of their sentences (union-find)."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while (higher := above.setdefault(node, node)) != node:
            above[node] = node = above[higher]
        return node

    def key(language: str, line: Line) -> str:
        return f"{language} {' '.join(line.text.lower().split())}"

    keys = [tuple(map(key, languages, pair)) for pair in pairs]
    for one, other in keys:
        first, second = sorted((top(one), top(other)))
        above[second] = first
    groups: dict[str, list[int]] = defaultdict(list)
    for number, (one, _) in enumerate(keys):
        groups[top(one)].append(number)
    return groups
