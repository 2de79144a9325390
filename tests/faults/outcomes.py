"""How a call may end: with a result, or with an error that a user can mend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pam.runtime.errors import UserError

Result = TypeVar("Result")


def outcome(call: Callable[[], Result], case: str = "this case") -> Result | UserError:
    """Return the result of a call, or its UserError, which must have a hint; all else is a fault.

    Args:
        case: the case in words, for the message about a fault.
    """
    try:
        return call()
    except UserError as error:
        caught = error
    except Exception as error:
        raise AssertionError(f"{case}: {error!r}") from error

    assert caught.hint, f"{case}: no hint: {caught}"
    return caught
