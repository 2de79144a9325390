"""Edit distances, of which error rates of words, phonemes and characters are made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """What has to be changed in an output, and how long the reference is."""

    edits: int
    length: int


def edit_distance(output: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Fewest insertions, deletions and substitutions of symbols that make the one of the other
    (Levenshtein 1966).

    A column of the table of distances is two numbers of as many bits as the reference is long,
    which say where the next distance is one more and where it is one less (Hyyrö 2003).
    """
    if not reference:
        return len(output)
    places: dict[Hashable, int] = {}
    for place, symbol in enumerate(reference):
        places[symbol] = places.get(symbol, 0) | 1 << place

    mask = (1 << len(reference)) - 1
    last = 1 << (len(reference) - 1)
    more = mask
    less = 0
    distance = len(reference)
    for symbol in output:
        equal = places.get(symbol, 0)
        vertical = equal | less
        horizontal = (((equal & more) + more) ^ more) | equal
        row_more = less | (~(horizontal | more) & mask)
        row_less = more & horizontal
        distance += bool(row_more & last) - bool(row_less & last)
        row_more = (row_more << 1) | 1
        row_less = row_less << 1
        more = (row_less | ~(vertical | row_more)) & mask
        less = row_more & vertical & mask
    return distance


def fewest_edits(output: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> Edits:
    """Edits to that of several references which needs the fewest for its length, of equal ones the
    first.
    """
    counted = [Edits(edit_distance(output, reference), len(reference)) for reference in references]
    return min(counted, key=lambda found: found.edits / max(1, found.length))
