"""Words that know what they were made from, and the links that follow from it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

_WORD = re.compile(r"[€$£¥%]|,(?!\d)|(?:[^\s€$£¥%,]|,(?=\d))+")
"""Signs stand by themselves, and commas that are not within a number."""


class Word(NamedTuple):
    """A word and its origin; words of the same origin in the other language are its partners.

    Attributes:
        origin: None has no partner.
        sure: whether links to it are beyond doubt.
    """

    text: str
    origin: str | None = None
    sure: bool = True


Words = tuple[Word, ...]


@dataclass(frozen=True)
class Side:
    """A sentence."""

    words: Words

    @property
    def text(self) -> str:
        """Words with a space between two."""
        return " ".join(word.text for word in self.words)


def words_of(spans: Iterable[tuple[str, str | None]]) -> Words:
    """Splits the text that spans make; a word's origin is that of its first span that has one."""
    text, origins = "", list[str | None]()
    for span, origin in spans:
        text += span
        origins += [origin] * len(span)
    return tuple(
        Word(match[0], next(filter(None, origins[match.start() : match.end()]), None))
        for match in _WORD.finditer(text)
    )


def under(name: str, words: Words) -> Words:
    """The same words with origins that only they have, as long as only they bear the name."""
    return tuple(
        word if word.origin is None else word._replace(origin=f"{name} {word.origin}")
        for word in words
    )


def linked(source: Side, target: Side) -> str:
    """Links as `i-j` (sure) and `ipj` (possible), words numbered from 1.

    Words of the same origin are partners: in their order where both sides have as many, else each
    with all. That is sure where one side has a single one.
    """
    ours, theirs = _places(source.words), _places(target.words)
    links = []
    for origin, first in ours.items():
        second = theirs.get(origin, [])
        in_order = len(first) == len(second)
        known = in_order or 1 in (len(first), len(second))
        for i, j in zip(first, second, strict=True) if in_order else product(first, second):
            sure = known and source.words[i].sure and target.words[j].sure
            links.append((i, j, "-" if sure else "p"))
    return " ".join(f"{i + 1}{kind}{j + 1}" for i, j, kind in sorted(links))


def _places(words: Sequence[Word]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        if word.origin is not None:
            places[word.origin].append(place)
    return places
