"""Readers of parallel text, a module for each way in which files hold sentence pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, cast

from pam import plugins
from pam.data.tasks import Files
from pam.data.text import Line
from pam.io import Strict

Pair = tuple[Line, Line]
"""A sentence and its translation, each with where it stands."""


class Reader(Protocol):
    """What a module of this folder offers."""

    Options: type[Strict]
    """What one can choose, in `read: {kind: NAME, ...}`."""

    def splits(self, options: Any) -> tuple[str, ...]:
        """Splits that the registry has to give files for."""

    def read(
        self, files: Files, languages: tuple[str, str], options: Any
    ) -> Iterator[tuple[str, Iterator[Pair]]]:
        """Names of splits (train, dev, test), each with its pairs in order.

        The pairs of a split are read before the next split is asked for.

        Args:
            files: what the registry gives for each of `splits`.
            languages: codes of source and target.

        Raises:
            UserError: a fault in a file, while its pairs are read.
        """


def load_reader(name: str) -> Reader:
    """A reader by its name.

    Raises:
        UserError: there is none of that name.
    """
    return cast(Reader, plugins.load(__name__, "reader", name))
