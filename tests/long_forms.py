"""Long forms of tests: parameters that `make faults` tries beside those of `make test`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

_is_asked_for = True


def ask_for(marker_expression: str) -> None:
    """Decide, before tests are imported, whether they make the parameters of their long forms.

    There are thousands of them, and `make test` would make each only to leave it out.
    """
    global _is_asked_for
    _is_asked_for = not re.search(r"\bnot\s+faults\b", marker_expression)


def long_form(parameters: Iterable[Any]) -> list[Any]:
    """Return parameters of a test with the mark `faults`; none if no test of that mark can run.

    A tuple holds the values of several arguments.
    """
    if not _is_asked_for:
        return []

    marked = []
    for values in parameters:
        arguments = values if isinstance(values, tuple) else (values,)
        marked.append(pytest.param(*arguments, marks=pytest.mark.faults))
    return marked


def in_turn(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return pairs in which each of `first` meets one of `second`, in turn.

    All other pairs are the long form.
    """
    pairs = list(product(first, second))
    short = [(value, second[number % len(second)]) for number, value in enumerate(first)]
    return [*short, *long_form(pair for pair in pairs if pair not in short)]
