"""Word alignments that people made, as text: one line of links for each sentence pair."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pam.data.text import Line

Link = tuple[int, int]

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Links:
    """Links of one sentence pair as (source word, target word), numbered from 0 and sorted.

    Attributes:
        sure: those that an alignment must have.
        possible: those that it may have; the sure ones are among them (Och and Ney 2003).
    """

    sure: tuple[Link, ...]
    possible: tuple[Link, ...]

    def flipped(self) -> Links:
        """The links in the other direction."""
        sure, possible = (
            tuple(sorted((j, i) for i, j in links)) for links in (self.sure, self.possible)
        )
        return Links(sure, possible)


def parse_links(line: Line, lengths: tuple[int, int], first: int) -> Links:
    """Reads `i-j` (sure) and `ipj` (possible), separated by spaces.

    Args:
        lengths: words of the source and of the target sentence.
        first: number of the first word, 0 or 1.

    Raises:
        UserError: a link is malformed, or a sentence has no such word; names the link.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for written in line.text.split():
        match = _LINK.fullmatch(written)
        if match is None:
            raise line.fault(
                f"`{written}` is not a link",
                "write SOURCE-TARGET where it is sure, else SOURCEpTARGET",
            )
        link = int(match[1]) - first, int(match[3]) - first
        for side, number, length in zip(("source", "target"), link, lengths, strict=True):
            if not 0 <= number < length:
                raise line.fault(
                    f"link `{written}`: the {side} sentence has no word {number + first}",
                    f"its words are {first} to {length - 1 + first}",
                )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Links(tuple(sorted(sure)), tuple(sorted(possible)))
