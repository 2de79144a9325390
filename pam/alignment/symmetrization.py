"""One set of links from those of two directions.

The heuristics are those of Koehn et al. (2005), as Moses and fast_align have them. `product` needs
probabilities, as only models have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pam.alignment.links import Link, linked
from pam.evaluation.metrics import Floats

Links = set[Link]

ONE_DIRECTION = "one direction"
OPPOSITE_DIRECTION = "opposite direction"
IS_LINK = 1.0

# Neighbors of a link, in the order in which Moses tries them: side by side first, then diagonal.
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
PRODUCT = "product"
PRODUCT_THRESHOLD = 0.3
"""The least geometric mean of both directions' probabilities of a link by `product`.

It was chosen on every other sentence of RWTH Aachen, see docs/alignment.md.
"""


def intersection(ahead: Links, back: Links) -> Links:
    """Return the links that both directions have."""
    return ahead & back


def union(ahead: Links, back: Links) -> Links:
    """Return the links that either direction has."""
    return ahead | back


def grow_diag(ahead: Links, back: Links) -> Links:
    """Grow the intersection by neighboring links of the union, if they link a word without links.

    Links are looked at by source word, then by target word, until there is nothing to add.
    """
    candidates = sorted(ahead | back)
    links = ahead & back
    linked_sources = {source for source, _ in links}
    linked_targets = {target for _, target in links}

    is_growing = True
    while is_growing:
        is_growing = False
        for source, target in candidates:
            if (source, target) not in links:
                continue
            for source_step, target_step in NEIGHBORS:
                neighbor = (source + source_step, target + target_step)
                links_both = neighbor[0] in linked_sources and neighbor[1] in linked_targets
                if links_both or (neighbor not in ahead and neighbor not in back):
                    continue
                links.add(neighbor)
                linked_sources.add(neighbor[0])
                linked_targets.add(neighbor[1])
                is_growing = True

    return links


def grow_diag_final(ahead: Links, back: Links) -> Links:
    """Grow the intersection, then add links of a direction that link a word without links."""
    links = grow_diag(ahead, back)
    for of_direction in (ahead, back):
        _add_final(links, of_direction, needs_both=False)
    return links


def grow_diag_final_and(ahead: Links, back: Links) -> Links:
    """Grow the intersection, then add links of a direction whose words both have no link."""
    links = grow_diag(ahead, back)
    for of_direction in (ahead, back):
        _add_final(links, of_direction, needs_both=True)
    return links


def _add_final(links: Links, of_direction: Iterable[Link], *, needs_both: bool) -> None:
    """Add links of words that have none: of both words, or else of one of them."""
    linked_sources = {source for source, _ in links}
    linked_targets = {target for _, target in links}

    for source, target in sorted(of_direction):
        without_link = (source not in linked_sources) + (target not in linked_targets)
        if without_link == 2 or (without_link == 1 and not needs_both):
            links.add((source, target))
            linked_sources.add(source)
            linked_targets.add(target)


SYMMETRIZATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
}
NAMES = (*SYMMETRIZATIONS, PRODUCT)
DEFAULT = "grow-diag-final-and"
NONE = "none"
"""What is asked for where links of the opposite direction are not wanted."""


def product_probabilities(ahead: Floats, back: Floats) -> Floats:
    """Compute the geometric mean of both directions' probabilities of each link.

    Args:
        ahead: P(i | j), (source words, target words).
        back: P(j | i) of the model of the opposite direction, in the same shape.
    """
    return np.asarray(np.sqrt(ahead * back))


def as_matrix(links: Iterable[Link], shape: tuple[int, ...]) -> Floats:
    """Return a matrix (source words, target words) with 1 for each link, else 0."""
    matrix = np.zeros(shape)
    for link in links:
        matrix[link] = IS_LINK
    return matrix


@dataclass(frozen=True, eq=False)
class Directions:
    """What one direction or two say of the words of a pair; links can be read in several ways.

    Attributes:
        ahead: P(i | j) of source word i and target word j, (source words, target words).
        back: P(j | i) of the opposite direction, in the same shape; None if there is none.
        threshold: the least probability of a link; see `links.linked`.
        has_probabilities: whether these are probabilities; else they are links, by `as_matrix`.
    """

    ahead: Floats
    back: Floats | None = None
    threshold: float | None = None
    has_probabilities: bool = True

    @property
    def readings(self) -> tuple[str, ...]:
        """Names of all ways to read links."""
        if self.back is None:
            return (ONE_DIRECTION,)
        joined = NAMES if self.has_probabilities else tuple(SYMMETRIZATIONS)
        return (ONE_DIRECTION, OPPOSITE_DIRECTION, *joined)

    def links(self, reading: str) -> Links:
        """Read links, in one of the ways of `readings`."""
        if reading == PRODUCT:
            threshold = PRODUCT_THRESHOLD if self.threshold is None else self.threshold
            return linked(self.probabilities(reading), threshold)

        if reading == ONE_DIRECTION:
            return linked(self.ahead, self.threshold)

        # The opposite direction links each source word to target words.
        assert self.back is not None
        links_back = {(i, j) for j, i in linked(self.back.T, self.threshold)}
        if reading == OPPOSITE_DIRECTION:
            return links_back
        return SYMMETRIZATIONS[reading](linked(self.ahead, self.threshold), links_back)

    def probabilities(self, reading: str) -> Floats:
        """Compute the probability of each link: by both directions their mean."""
        if self.back is None or reading == ONE_DIRECTION:
            return self.ahead
        if reading == OPPOSITE_DIRECTION:
            return self.back
        if reading == PRODUCT:
            return product_probabilities(self.ahead, self.back)
        return np.asarray((self.ahead + self.back) / 2)
