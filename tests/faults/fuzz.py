"""Strategies of hypothesis: odd text, odd values, and documents that have been changed."""

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


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all keys and items of a document."""
    children = enumerate(node)
    if isinstance(node, dict):
        children = node.items()

    for key, value in children:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def replaced(document: Any, path: Sequence[Any], value: Any) -> Any:
    """Return a document with another value at the end of a path."""
    document = copy.deepcopy(document)
    node = document
    for key in path[:-1]:
        node = node[key]

    node[path[-1]] = value
    return document


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Draw values of the same type, which get furthest."""
    if isinstance(value, bool):
        return st.booleans()

    if isinstance(value, int | float):
        return numbers

    if isinstance(value, str):
        return texts

    return values


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """Draw a document with changed values, and keys that are gone, misspelt, or out of place."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 2))):
        all_paths = list(paths(document))
        if not all_paths:
            break

        *way, last = draw(st.sampled_from(all_paths))
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
    """Call `check` with drawn values, the same ones for the same number.

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
