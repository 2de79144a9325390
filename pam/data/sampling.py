"""Samples of a split and division into splits: rows drawn at random, the same everywhere."""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TypeVar

from pydantic import Field

from pam.data.dataset import SPLITS
from pam.data.text_files import Line
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError

ALL = "all"  # the one split, in a registry, of pairs that a reader divides into train, dev and test
Languages = tuple[str, str]  # names of source and target: codes of languages, or fields of a record
Pair = tuple[Line, Line]  # a sentence and its translation
Item = TypeVar("Item")


class Sample(Strict):
    """How many rows of each split are used, drawn at random, in their own order; null: all."""

    train: int | None = Field(None, ge=1, description="rows for training")
    dev: int | None = Field(None, ge=1, description="rows for development")
    test: int | None = Field(None, ge=1, description="rows for testing")
    seed: int = Field(1, description="another seed draws other rows")

    def of(self, split: str, rows: Iterable[Item]) -> tuple[Iterable[Item], int]:
        """Return the rows that a split is left with, and how many are left out.

        A larger sample of the same seed has all rows of a smaller one.
        """
        size = getattr(self, split)
        if size is None:
            return rows, 0

        # Rows come first in the pairs: once they end, no further number is taken.
        numbers = count()
        numbered = zip(rows, numbers, strict=False)
        drawn = heapq.nsmallest(
            size, numbered, key=lambda item: rank(self.seed, f"{split} {item[1]}")
        )
        in_order = sorted(drawn, key=lambda item: item[1])
        return [row for row, _ in in_order], next(numbers) - len(drawn)


def rank(seed: int, name: str) -> bytes:
    """Return a key to sort by: the order is random, but the same everywhere."""
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


class Divide(Strict):
    """Pairs for development and testing, drawn at random; the rest is for training."""

    dev: int = Field(ge=1, description="pairs for development")
    test: int | None = Field(
        None, ge=1, description="pairs for testing; null: the test split has files of its own"
    )
    seed: int = Field(1, description="another seed draws other pairs")

    @property
    def divided(self) -> str:
        """The split, in a registry, that is divided."""
        if self.test is None:
            return "train"
        return ALL

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the splits that are drawn, in the order in which they are."""
        if self.test is None:
            return {"dev": self.dev}
        return {"test": self.test, "dev": self.dev}

    def too_few(self, count: int, items: str) -> UserError:
        """Make the error for so many `items`, of which the splits cannot be made."""
        sizes = [f"{size} of {split}" for split, size in sorted(self.sizes.items())]
        message = f"{count} {items} are too few for {' and '.join(sizes)}"
        return UserError(message, hint="ask for fewer in `divide`")


def splits_of(divide: Divide | None) -> tuple[str, ...]:
    """Return the splits that a registry has to give files for."""
    if divide is None:
        return SPLITS
    if divide.test is None:
        return ("train", "test")
    return (ALL,)


def divided(
    pairs: list[Pair], languages: Languages, divide: Divide, names: Sequence[str] | None = None
) -> dict[str, list[Pair]]:
    """Divide pairs into splits that have no sentence in common, on either side.

    Pairs that share a sentence, white space and case aside, stay together, and so do pairs that are
    linked through others. Where `names` are given, pairs of the same name stay together, and no
    others. Groups are ranked by a hash of the seed and of their name or of their first sentence in
    order of code points, so that the draw depends on nothing else and is the same in both
    directions. Test takes the first groups that fit, then dev. A size that whole groups do not make
    becomes the nearest one that is found. Within a split, pairs keep their order. A UserError says
    that there are too few pairs.
    """
    groups = _groups(pairs, languages) if names is None else _named(names)
    drawn = drawn_groups(groups, divide.sizes, divide.seed)

    # Whole groups may have left a split short of its size.
    for split, size in divide.sizes.items():
        _approach(drawn, split, size, groups)
    if not all(drawn.values()):
        raise divide.too_few(len(pairs), "pairs")

    return {name: [pairs[number] for number in drawn[name]] for name in SPLITS if name in drawn}


def _approach(
    drawn: dict[str, list[int]], split: str, size: int, groups: Mapping[str, list[int]]
) -> None:
    """Move a group from train to a split that is short of its size, if that brings it nearer.

    The group that does so most is moved, the first of several.
    """
    short = size - len(drawn[split])
    training = set(drawn["train"])
    # Train must not become empty.
    candidates = [
        group
        for _, group in sorted(groups.items())
        if group[0] in training and len(group) < len(training)
    ]
    nearest = min(candidates, key=lambda group: abs(len(group) - short), default=[])

    if abs(len(nearest) - short) < short:
        drawn[split] = sorted(drawn[split] + nearest)
        drawn["train"] = sorted(training.difference(nearest))


def drawn_groups(
    groups: Mapping[str, list[int]], sizes: Mapping[str, int], seed: int
) -> dict[str, list[int]]:
    """Return numbers of rows by split, groups whole, by a random rank of their names.

    The first groups that fit go to a split of `sizes`, the rest to train.
    """
    drawn: dict[str, list[int]] = {"train": [], **{split: [] for split in sizes}}
    for name in sorted(groups, key=lambda name: rank(seed, name)):
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
    """Return numbers of pairs that belong together, by the first of their sentences.

    The sentences are the nodes of a union-find forest, in which each pair joins two.
    """
    parents: dict[str, str] = {}

    def root(node: str) -> str:
        while (parent := parents.setdefault(node, node)) != node:
            # Halve the path, so that later searches are short.
            parents[node] = node = parents[parent]
        return node

    def key(language: str, line: Line) -> str:
        return f"{language} {' '.join(line.text.lower().split())}"

    keys = [tuple(map(key, languages, pair)) for pair in pairs]
    for source, target in keys:
        first, second = sorted((root(source), root(target)))
        parents[second] = first

    groups: dict[str, list[int]] = defaultdict(list)
    for number, (source, _) in enumerate(keys):
        groups[root(source)].append(number)
    return groups
