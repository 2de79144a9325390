"""Vocabularies as files and as ids, and the actions of a pointer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    STEP,
    UNK,
    Vocabulary,
    escape,
    strip,
    to_actions,
    unescape,
)
from pam.runtime.errors import UserError


def test_special_symbols_come_first_in_file_and_ids(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["a", "b"])
    vocabulary.save(tmp_path / "v")
    assert (tmp_path / "v").read_text().split("\n") == [*SPECIALS, "a", "b", ""]
    assert (PAD, BOS, EOS, UNK, STEP) == (0, 1, 2, 3, 4)
    assert vocabulary.encode(["b", "z", "a"]) == [6, UNK, 5]
    assert vocabulary.spell([6, UNK, EOS]) == ["b", "<unk>", "<eos>"]


def test_order_of_rows_does_not_change_the_ids() -> None:
    assert Vocabulary.of(["ba", "cä"]).symbols == Vocabulary.of(["äc", "ab"]).symbols


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_escaping_is_reversible_and_keeps_to_one_line(symbol: str) -> None:
    line = escape(symbol)
    assert unescape(line) == symbol
    assert line.isprintable() and " " not in line


def test_awkward_symbols_survive_a_file(tmp_path: Path) -> None:
    symbols = [
        "<pad>",
        "<unk>",
        "\\",
        "\\s",
        " ",
        "\n",
        "\r",
        "\u2028",
        "\u00a0",
        "a=b c",
        "\\<pad>",
    ]
    vocabulary = Vocabulary(symbols)
    vocabulary.save(tmp_path / "v")
    loaded = Vocabulary.load(tmp_path / "v")

    assert loaded.symbols == tuple(symbols)
    assert loaded.digest == vocabulary.digest
    assert loaded.encode(["<pad>"]) == [5]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("a\nb\n", 1),
        ("<pad>\n<bos>\n<eos>\n<unk>\nx\n", 5),
        ("\n".join(SPECIALS) + "\na\n\nb\n", 7),
        ("\n".join(SPECIALS) + "\na\na\n", 7),
        ("\n".join(SPECIALS) + "\n\\q\n", 6),
        ("\n".join(SPECIALS) + "\n\\u{999999999}\n", 6),
        ("\n".join(SPECIALS) + "\na b\n", 6),
        ("\n".join(SPECIALS) + "\nabc", None),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(
    tmp_path: Path, content: str, line: int | None
) -> None:
    (tmp_path / "v").write_text(content)
    with pytest.raises(UserError) as caught:
        Vocabulary.load(tmp_path / "v")
    assert caught.value.line == line
    assert caught.value.hint


def test_binary_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a vocabulary"):
        Vocabulary.load(tmp_path / "v")


def test_a_symbol_cannot_stand_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Vocabulary(["a", "a"])


def test_the_pointer_steps_to_where_each_symbol_is_written() -> None:
    # Positions 1, 1, 3 of a source of five, then the end symbol at position 4.
    assert to_actions([7, 8, 9, EOS], [1, 1, 3], 5) == [STEP, 7, 8, STEP, STEP, 9, STEP, EOS]


@given(st.data())
def test_following_the_actions_writes_each_symbol_at_its_position(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 12))
    positions = sorted(data.draw(st.lists(st.integers(0, length - 1), max_size=10)))
    count = len(positions)
    symbols = data.draw(st.lists(st.integers(5, 9), min_size=count, max_size=count))
    target = [*symbols, EOS]

    pointer = 0
    written = []
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
