"""What hypothesis draws: odd text, odd values, and documents that have been changed."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.faults.outcomes import outcome

ODD = (
    *("", " ", "\t", "\n", "\r\n", "\r", "\u2028", "\x85", "\x0b", "\x00", "\x1f", "\x7f"),
    *(
        "\ufeff",
        "\u200b",
        "\u00a0",
        "\u202e",
        "e\u0301",
        "é",
        "ﬁ",
        "İ",
        "ß",
        "ǆ",
        "𝔸",
        "👩🏽‍🚀",
        "漢字",
    ),
    *("-x", "--help", "../x", "/etc/passwd", "~", ".", "..", "a b", "a;b", "$(touch x)", "`x`"),
    *("'", '"', "\\", "{task}", "{{}}", "%s", "*", "?", "|", "&", "<", "<script>", "$x$", "#", ":"),
    *("<unk>", "<pad>", "@@", "a@@", "＠＠", "null", "yes", "1e3", "0x10", "1_000", "2001-01-01"),
)
"""Texts that programs take for something else."""

odd = st.sampled_from(ODD)
texts = st.one_of(odd, st.text(max_size=8), st.lists(odd, max_size=4).map("".join))

numbers = st.one_of(
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(2**63)]),
    st.integers(-3, 9),
    st.sampled_from([0.0, -0.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"), 0.5]),
    st.floats(-2, 2),
)

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        numbers,
        texts,
        st.binary(max_size=4),
        st.just(datetime.date(2018, 5, 1)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(texts | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to all keys and items of a document."""
    children = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in children:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def replaced(document: Any, place: Sequence[Any], value: Any) -> Any:
    """A document with another value at a place."""
    document = copy.deepcopy(document)
    node = document
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return document


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same type, which get furthest."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int | float):
        return numbers
    if isinstance(value, str):
        return texts
    return values


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A document in which values are others, keys are gone, misspelt, or of somewhere else."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(document))
        if not found:
            break
        *way, last = draw(st.sampled_from(found))
        node = document
        for key in way:
            node = node[key]
        fate = draw(st.sampled_from(["like", "like", "like", "value", "gone", "renamed", "added"]))
        if fate == "like":
            node[last] = draw(_like(node[last]))
        elif fate == "value" or isinstance(node, list):
            node[last] = draw(values)
        elif fate == "gone":
            del node[last]
        elif fate == "renamed":
            node[draw(texts)] = node.pop(last)
        else:
            node[draw(texts | st.integers())] = draw(values)
    return document


def fuzz(
    number: int, cases: int, strategy: st.SearchStrategy[Any], check: Callable[..., None]
) -> None:
    """Calls `check` with drawn values, the same ones for the same number.

    A UserError is as good as a result: it must have a hint. All else is a fault.
    """

    @seed(number)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # looking for a smaller case can take longer than all of them
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def checked(value: Any) -> None:
        outcome(lambda: check(value), repr(value)[:1000])

    checked()
