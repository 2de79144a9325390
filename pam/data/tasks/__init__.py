"""Kinds of task: each module here knows what a row of its data is.

A kind is a module `pam.data.tasks.<kind>` with what `Task` lists; the rest of the package knows
rows only through it. A new kind is a new module and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pam.config import Strict, unknown


class Task(Protocol):
    """What a kind of task offers."""

    COLUMNS: tuple[str, ...]
    """Names of the columns of a prepared text; the last one is the target."""

    Format: type[Strict]
    """Keys that a data set of this kind may have under `format`."""

    def prepare(self, files: Mapping[str, Path], layout: Any, out: Path) -> dict[str, Any]:
        """Checks the text of each split and writes a prepared folder, its summary excepted.

        Args:
            files: split name (train, dev, test) to its file.
            layout: a `Format`.
            out: the folder to write to.

        Returns:
            Counts for the summary, with `warnings`: sentences that the user should read.

        Raises:
            UserError: a fault in a file; nothing has been written then.
        """

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Symbols of a source (all columns but the last), without the end symbol.

        Raises:
            UserError: the columns are not a source of this kind.
        """

    def target_symbols(self, target: str) -> list[str]:
        """Symbols of a target, without the end symbol."""

    def target_text(self, symbols: Sequence[str]) -> str:
        """The text that target symbols spell."""


def kinds() -> list[str]:
    """Names of all kinds of task."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_task(kind: str) -> Task:
    """The module of a kind of task.

    Raises:
        UserError: there is no such kind; names the closest.
    """
    if kind not in kinds():
        raise unknown("kind of task", kind, kinds())
    return cast(Task, importlib.import_module(f"{__name__}.{kind}"))
