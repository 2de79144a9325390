"""How many cases of a kind are tried: a few by `make test`, all by `make faults`."""

from __future__ import annotations

from typing import Any

from tests.long_forms import long_form


def numbered(cases: int, sample: int) -> list[Any]:
    """Return parameters 0 .. `cases` - 1; all but the first `sample` carry the mark `faults`."""
    return [*range(sample), *long_form(range(sample, cases))]
