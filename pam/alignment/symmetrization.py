"""One set of links from those of two directions.

The heuristics are those of Koehn et al. (2005), as Moses and fast_align have them. `product` needs
probabilities, as only models have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from pam.alignment.links import Link
from pam.evaluation.metrics import Floats

Links = set[Link]

# Neighbors of a link, in the order in which Moses tries them: side by side first, then diagonal.
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
PRODUCT = "product"
PRODUCT_THRESHOLD = 0.5
"""The least geometric mean of both directions' probabilities of a link by `product`."""


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


def product_probabilities(ahead: Floats, back: Floats) -> Floats:
    """Compute the geometric mean of both directions' probabilities of each link.

    Args:
        ahead: P(i | j), (source words, target words).
        back: P(j | i) of the model of the opposite direction, in the same shape.
    """
    return np.asarray(np.sqrt(ahead * back))
