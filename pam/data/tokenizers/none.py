"""No tokenizer: words are what stands between spaces."""

from __future__ import annotations

from collections.abc import Sequence


class Spaces:
    """Splits at white space."""

    def tokens(self, text: str) -> list[str]:
        return text.split()

    def text(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


def make(language: str) -> Spaces:
    """The same for every language."""
    return Spaces()
