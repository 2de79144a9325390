"""Tokenizers, a module each, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from pam import plugins
from pam.io import UserError


class Tokenizer(Protocol):
    """Splits sentences of one language into words and joins them again."""

    def tokens(self, text: str) -> list[str]:
        """Words and marks of a sentence, none of them with white space inside."""

    def text(self, tokens: Sequence[str]) -> str:
        """A sentence as people write it."""


class Module(Protocol):
    """What a module of this folder offers."""

    def make(self, language: str) -> Tokenizer:
        """The tokenizer for a language, by its code such as `de`.

        Raises:
            UserError: it cannot serve that language, or a package is missing.
        """


def tokenizers() -> list[str]:
    """Names of all tokenizers."""
    return plugins.names(__name__)


def load_tokenizer(name: str, language: str) -> Tokenizer:
    """A tokenizer by its name.

    Raises:
        UserError: there is none of that name, a package that it needs is not installed, or it
            does not serve the language.
    """
    try:
        module = cast(Module, plugins.load(__name__, "tokenizer", name))
    except ModuleNotFoundError as error:
        raise UserError(
            f"the package {error.name}, which the tokenizer {name} needs, is not installed",
            hint="pip install sacremoses fugashi unidic-lite",
        ) from error
    return module.make(language)
