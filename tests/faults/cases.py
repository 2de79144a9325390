"""How many cases of a kind are tried: a few by `make test`, all by `make faults`."""

from __future__ import annotations

from typing import Any

import pytest


def numbered(cases: int, sample: int) -> list[Any]:
    """Return parameters 0 .. `cases` - 1; all but the first `sample` carry the mark `faults`."""
    in_both = list(range(sample))
    in_faults = [pytest.param(number, marks=pytest.mark.faults) for number in range(sample, cases)]

    return [*in_both, *in_faults]
