"""How a call may end: with a result, or with an error that a user can mend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pam.io import UserError

Result = TypeVar("Result")


def outcome(call: Callable[[], Result], what: str = "this case") -> Result | UserError:
    """What a call gives, or its UserError, which must have a hint; all else is a fault.

    Args:
        what: the case in words, for the message about a fault.
    """
    try:
        return call()
    except UserError as error:
        caught = error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    assert caught.hint, f"{what}: no hint: {caught}"
    return caught
