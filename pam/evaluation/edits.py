"""Edit distances, the basis of error rates of words, phonemes and characters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """The number of edits that an output needs, and the length of the reference."""

    edits: int
    length: int

    @property
    def rate(self) -> float:
        """Edits per symbol of the reference."""
        return self.edits / max(1, self.length)


def edit_distance(output: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Count the edits that turn an output into a reference (Levenshtein 1966).

    Edits are insertions, deletions and substitutions of symbols, as few as possible. A column of
    the table of distances is two numbers with as many bits as the reference is long. They say
    where the next distance is one more and where it is one less (Hyyrö 2003).
    """
    if not reference:
        return len(output)

    positions: dict[Hashable, int] = {}  # of each symbol in the reference, as bits
    for position, symbol in enumerate(reference):
        positions[symbol] = positions.get(symbol, 0) | 1 << position

    mask = (1 << len(reference)) - 1
    last = 1 << (len(reference) - 1)
    more = mask
    less = 0
    distance = len(reference)
    for symbol in output:
        equal = positions.get(symbol, 0)
        vertical = equal | less
        horizontal = (((equal & more) + more) ^ more) | equal
        row_more = less | (~(horizontal | more) & mask)
        row_less = more & horizontal
        # The last row of the column holds the distance to the whole reference.
        distance += bool(row_more & last) - bool(row_less & last)

        # Down one row. The first row counts the output's symbols: it is one more in each column.
        row_more = (row_more << 1) | 1
        row_less = row_less << 1
        more = (row_less | ~(vertical | row_more)) & mask
        less = row_more & vertical & mask

    return distance


def fewest_edits(output: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> Edits:
    """Return the edits to the reference that needs the fewest for its length.

    Of equally good references the shortest counts, whatever their order.
    """
    counted = [Edits(edit_distance(output, reference), len(reference)) for reference in references]
    return min(counted, key=lambda edits: (edits.rate, edits.length))
