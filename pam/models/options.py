"""The options that a choice is made with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pam.parsing import unknown


def check_options(what: str, made: Callable[..., Any], given: int, options: dict[str, Any]) -> None:
    """Checks the names of options.

    Args:
        what: whose they are, for the message.
        made: what takes them as keywords, after so many `given` arguments.

    Raises:
        UserError: it has no such option.
    """
    known = list(inspect.signature(made).parameters)[given:]
    for name in options:
        if name not in known:
            raise unknown(f"option of {what}", name, known)
