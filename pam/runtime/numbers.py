"""Numbers as callers give them: those of Python, and those of NumPy, which are of other types."""

from __future__ import annotations

import numpy as np

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value, (int, np.integer))


def is_number(value: object) -> bool:
    """Return whether a value is a number."""
    return isinstance(value, (int, float, np.number))
