"""Kinds of task: each module here knows what a row of its data is.

A kind is a module `pam.data.tasks.<kind>` with what `Task` lists; the rest of the package knows
rows only through it, and symbols only through its codec. A new kind is a new module and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from pam import plugins
from pam.io import Strict

Side = Literal["source", "target"]

Files = Mapping[str, Path | Mapping[str, Path]]
"""Split name to its file, or to its files by what they hold, such as a language."""

Stage = Callable[[Files, Any, Path], dict[str, Any]]
"""One step of preparing: (the fetched files, a `Format`, the prepared folder) to counts.

All stages but the last write into the folder of their name within the prepared folder, and read
what the one before wrote there. The counts may hold `warnings`, sentences that the user should
read. A fault in a file is a UserError.
"""


class Codec(Protocol):
    """Prepared text to symbols and back, and what a person types to prepared text.

    It comes from the files that a prepared folder and a model folder hold alike, so that a model
    can be used by itself.
    """

    columns: tuple[str, ...]
    """Names of the columns of a prepared text; the last one is the target."""

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Symbols of a source (all columns but the last), without the end symbol.

        Raises:
            UserError: the columns are not a source of this kind.
        """

    def target_symbols(self, target: str) -> list[str]:
        """Symbols of a target, without the end symbol."""

    def typed_source(self, line: str) -> tuple[str, ...]:
        """The source columns that a typed line means.

        Raises:
            UserError: it means none.
        """

    def target_text(self, symbols: Sequence[str]) -> str:
        """The target column that symbols spell."""

    def readable(self, target: str) -> str:
        """A target column as a person writes it."""

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        """For each symbol, the index of the word that it is a part of, from 0."""


class Task(Protocol):
    """What a kind of task offers."""

    COLUMNS: tuple[str, ...]
    """Names of the columns of a prepared text; the last one is the target."""

    FILES: tuple[str, ...]
    """Files of a prepared folder that a model needs, beside the vocabularies, to be used alone."""

    STAGES: dict[str, Stage]
    """Steps of preparing by name, in their order; the last one makes the prepared folder."""

    Format: type[Strict]
    """Keys that a data set of this kind may have under `format`."""

    def splits(self, layout: Any) -> tuple[str, ...]:
        """Splits that a registry has to give files for, under a `Format`."""

    def keys(self, step: str) -> tuple[str, ...]:
        """Keys of `Format` that decide what a stage results in."""

    def modules(self, step: str, layout: Any) -> list[str]:
        """Modules of this package that decide what a stage, or the `codec`, results in."""

    def codec(self, folder: Path) -> Codec:
        """The codec of a prepared folder or a model folder.

        Raises:
            UserError: one of `FILES` is missing there or damaged.
        """


def load_task(kind: str) -> Task:
    """The module of a kind of task.

    Raises:
        UserError: there is no such kind; names the closest.
    """
    return cast(Task, plugins.load(__name__, "kind of task", kind))
