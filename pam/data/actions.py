"""Targets as actions of a pointer, for hard monotone attention (Aharoni and Goldberg 2017).

The pointer starts at source position 0. The action STEP moves it one position to the right; any
other action writes that symbol at the pointer's position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pam.data.vocabulary import STEP


def to_actions(
    target_ids: Sequence[int], alignment: Sequence[int], source_length: int
) -> list[int]:
    """Inserts STEPs so that each symbol is written where it is aligned.

    Args:
        target_ids: m symbols, the last of them EOS.
        alignment: non-decreasing source positions of the first m - 1; EOS is written at the last
            source position.
        source_length: number of source positions, that of its EOS included.

    Returns:
        m + source_length - 1 actions.

    Raises:
        ValueError: the positions decrease or leave the source.
    """
    if len(alignment) != len(target_ids) - 1:
        raise ValueError("every target symbol but the last needs a position")
    actions: list[int] = []
    pointer = 0
    for symbol, position in zip(target_ids, [*alignment, source_length - 1], strict=True):
        if not pointer <= position < source_length:
            raise ValueError(f"position {position} after {pointer} of {source_length}")
        actions.extend([STEP] * int(position - pointer))
        actions.append(int(symbol))
        pointer = position
    return actions


def strip(ids: Iterable[int]) -> list[int]:
    """Actions without STEPs: the symbols that they write."""
    return [int(number) for number in ids if number != STEP]
