"""Tokenisers, a module each, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from pam import plugins
from pam.errors import UserError


class Tokeniser(Protocol):
    """Splits sentences of one language into words and joins them again."""

    def tokens(self, text: str) -> list[str]:
        """Words and marks of a sentence, none of them with white space inside."""

    def text(self, tokens: Sequence[str]) -> str:
        """A sentence as people write it."""


class Module(Protocol):
    """What a module of this folder offers."""

    def make(self, language: str) -> Tokeniser:
        """The tokeniser for a language, by its code such as `de`.

        Raises:
            UserError: it cannot serve that language, or a package is missing.
        """


def tokenisers() -> list[str]:
    """Names of all tokenisers."""
    return plugins.names(__name__)


def load_tokeniser(name: str, language: str) -> Tokeniser:
    """A tokeniser by its name.

    Raises:
        UserError: there is none of that name, a package that it needs is not installed, or it
            does not serve the language.
    """
    try:
        module = cast(Module, plugins.load(__name__, "tokeniser", name))
    except ModuleNotFoundError as error:
        raise UserError(
            f"the package {error.name}, which the tokeniser {name} needs, is not installed",
            remedy="pip install sacremoses fugashi unidic-lite",
        ) from error
    return module.make(language)
