"""A folder that is damaged, and the function that makes something of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = Any
"""What must be the same; `==` has to say so."""


@dataclass(frozen=True)
class Subject:
    """A folder, and a function that makes of it what the next step of the workflow would.

    Attributes:
        use: takes a folder, raises UserError where it cannot be used.
        strangers: folders of the same kind, whose files may come in place of this one's.
        fair: results that are no error and no fault besides the undamaged one.
    """

    folder: Path
    use: Callable[[Path], Result]
    strangers: tuple[Path, ...] = ()
    fair: tuple[Result, ...] = ()
