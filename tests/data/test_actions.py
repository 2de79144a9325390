from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam.data.vocabulary import EOS, STEP, strip, to_actions


def test_the_pointer_steps_to_where_each_symbol_is_written() -> None:
    # Positions 1, 1, 3 of a source of five, then the end symbol at position 4.
    assert to_actions([7, 8, 9, EOS], [1, 1, 3], 5) == [STEP, 7, 8, STEP, STEP, 9, STEP, EOS]


@given(st.data())
def test_following_the_actions_writes_each_symbol_at_its_position(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 12))
    positions = sorted(data.draw(st.lists(st.integers(0, length - 1), max_size=10)))
    target = [
        *data.draw(st.lists(st.integers(5, 9), min_size=len(positions), max_size=len(positions))),
        EOS,
    ]
    pointer, written = 0, []
    for action in to_actions(target, positions, length):
        if action == STEP:
            pointer += 1
        else:
            written.append((action, pointer))
    assert written == list(zip(target, [*positions, length - 1], strict=True))


@given(st.lists(st.integers(5, 9)))
def test_stripping_undoes_the_steps(symbols: list[int]) -> None:
    target = [*symbols, EOS]
    assert strip(to_actions(target, list(range(len(symbols))), len(symbols) + 1)) == target


@pytest.mark.parametrize("positions", [[2, 1], [0, 5], [0]])
def test_positions_that_decrease_or_leave_the_source_are_refused(positions: list[int]) -> None:
    with pytest.raises(ValueError, match="position"):
        to_actions([7, 8, EOS], positions, 5)
