"""What a kind of task is: how its data is read, and in which stages it is prepared.

The rest of the project knows rows only through a `Task`, and symbols only through its codec. A new
kind is a class with a line in `pam.data.registry.TASKS`, and one in `pam.data.tokenizers.CODECS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pam.data.text import Files
from pam.io import Strict

Layout = TypeVar("Layout", bound=Strict)


class Stage(ABC, Generic[Layout]):
    """One step of preparing.

    All stages but the last write into the folder of their name within the prepared folder, and
    read what the one before wrote there; the last one makes the prepared folder.

    Args:
        files: the fetched files.
        layout: the task's `Format`: how they are read.
        out: the prepared folder.
    """

    keys: ClassVar[tuple[str, ...]]
    """Keys of the format that decide the result, besides what the stage before wrote."""

    def __init__(self, files: Files, layout: Layout, out: Path) -> None:
        self.files = files
        self.layout = layout
        self.out = out

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Writes the stage's files.

        Returns:
            Counts; among them may be `warnings`, sentences that the user should read.

        Raises:
            UserError: a fault in a file.
        """


class Task(ABC, Generic[Layout]):
    """A kind of task."""

    Format: ClassVar[type[Strict]]
    """Keys that a data set of this kind may have under `format`."""

    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]]
    """Steps of preparing by name, in their order; none where no model learns the data."""

    has_actions: ClassVar[bool] = False
    """Whether targets can be actions of a pointer, as hard monotone attention writes them."""

    @abstractmethod
    def splits(self, layout: Layout) -> tuple[str, ...]:
        """Splits that a registry has to give files for."""

    @abstractmethod
    def modules(self, stage: str, layout: Layout) -> list[str]:
        """`module:Class` of the classes that decide what a stage, or the `codec`, results in."""

    def keys(self, stage: str) -> tuple[str, ...]:
        """Keys of `Format` that decide what a stage results in."""
        return self.STAGES[stage].keys
