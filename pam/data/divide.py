"""One text divided into splits that share no sentence."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from pydantic import Field

from pam.data.dataset import SPLITS
from pam.data.readers import Pair
from pam.data.text import Line
from pam.io import Strict, UserError

ALL = "all"
"""The one split, in a registry, of a text that is divided."""


class Divide(Strict):
    """Pairs for development and testing, drawn at random; the rest is for training."""

    dev: int = Field(ge=1, description="pairs for development")
    test: int = Field(ge=1, description="pairs for testing")
    seed: int = Field(1, description="another seed draws other pairs")


def files_wanted(divide: Divide | None) -> tuple[str, ...]:
    """Splits that a registry gives: one for all where they are made here."""
    return SPLITS if divide is None else (ALL,)


def in_splits(
    split: str, pairs: Iterator[Pair], languages: tuple[str, str], divide: Divide | None
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """The pairs that a registry gives as `split`, as they are or divided."""
    if divide is None:
        yield split, pairs
    else:
        for name, drawn in divided(list(pairs), languages, divide).items():
            yield name, iter(drawn)


def divided(pairs: list[Pair], languages: tuple[str, str], divide: Divide) -> dict[str, list[Pair]]:
    """Splits that have no sentence in common, on either side; the same in both directions.

    Pairs that share a sentence, white space and case aside, stay together, and so do pairs that
    are linked through others. Groups are ranked by a hash of the seed and of their first sentence
    in order of code points, so that the draw depends on nothing else; test takes the first that
    fit, then dev. Within a split, pairs keep their order.

    Raises:
        UserError: there are fewer pairs than are wanted.
    """
    groups = _groups(pairs, languages)
    wanted = {"test": divide.test, "dev": divide.dev}
    taken: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for group in (groups[name] for name in sorted(groups, key=partial(_rank, divide.seed))):
        fits = (name for name, size in wanted.items() if len(taken[name]) + len(group) <= size)
        taken[next(fits, "train")] += group
    if not taken["train"] or any(len(taken[name]) < size for name, size in wanted.items()):
        raise UserError(
            f"{len(pairs)} pairs are too few for {divide.dev} of dev and {divide.test} of test",
            hint="ask for fewer in `divide`",
        )
    return {name: [pairs[number] for number in sorted(taken[name])] for name in SPLITS}


def _groups(pairs: list[Pair], languages: tuple[str, str]) -> dict[str, list[int]]:
    """Numbers of pairs that belong together, by the first of their sentences (union-find)."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while (higher := above.setdefault(node, node)) != node:
            above[node] = node = above[higher]
        return node

    keys = [
        tuple(f"{language} {_key(line)}" for language, line in zip(languages, pair, strict=True))
        for pair in pairs
    ]
    for one, other in keys:
        first, second = sorted((top(one), top(other)))
        above[second] = first
    groups: dict[str, list[int]] = defaultdict(list)
    for number, (one, _) in enumerate(keys):
        groups[top(one)].append(number)
    return groups


def _key(line: Line) -> str:
    return " ".join(line.text.lower().split())


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()
