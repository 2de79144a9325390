"""YAML is plain data of a bounded size, whatever it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.experiments.yaml import LARGEST, parse_yaml, read_yaml
from pam.runtime.errors import UserError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Nine lists of ten of the one before: a thousand million words."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, f"more than {LARGEST} keys and values"),
        ("a: &a [*a]\n", f"more than {LARGEST} keys and values"),
        ("a: &a {b: *a}\n", f"more than {LARGEST} keys and values"),
        ("[" * 50_000, "nested deeper"),
        (
            "a: 2001-99-99\n",
            "a value looks like a number or a date but is none: month must be in 1..12",
        ),
        ("a: !!int x\n", "a value looks like a number or a date but is none"),
        ("a: !!timestamp x\n", "a value looks like a number or a date but is none"),
        ("a: " + "9" * 5000, "a value looks like a number or a date but is none"),
        ("a: \x00\n", "this is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "this is not valid YAML"),
        ("{a: 1}: 2\n", "this is not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "`a` is given twice"),
        ("a: [{b: {c: 1, 'c': 2}}]\n", "`c` is given twice"),
    ],
    ids=range(13),
)
def test_what_is_no_configuration_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "config.yaml")

    assert message in caught.value.message
    assert caught.value.file == "config.yaml" and caught.value.hint


def test_a_key_that_is_given_twice_is_named_with_its_line() -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml("a: 1\nb:\n  c: 2\n  c: 3\n", "config.yaml")
    assert caught.value.line == 4


def test_an_alias_may_save_some_writing() -> None:
    content = parse_yaml("a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}\n", "config.yaml")
    assert content == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}, "c": {"x": [1, 2], "y": 3}}


@pytest.mark.parametrize("name", ["", "\x00", "a" * 5000, "none.yaml"])
def test_what_cannot_be_a_file_is_no_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_yaml(f"{tmp_path}/{name}")
