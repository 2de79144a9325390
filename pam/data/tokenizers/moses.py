"""The Moses tokenizer (Koehn et al. 2007), in its Python port sacremoses."""

from __future__ import annotations

from collections.abc import Sequence

from sacremoses import MosesDetokenizer, MosesTokenizer


class Moses:
    """Marks are not escaped: an apostrophe stays one, and does not become `&apos;`."""

    def __init__(self, language: str) -> None:
        self._tokenizer = MosesTokenizer(lang=language)
        self._detokenizer = MosesDetokenizer(lang=language)

    def tokens(self, text: str) -> list[str]:
        # Its words may hold spaces that are not ASCII, such as U+00A0.
        return " ".join(self._tokenizer.tokenize(text, escape=False)).split()

    def text(self, tokens: Sequence[str]) -> str:
        return str(self._detokenizer.detokenize(tokens, unescape=False))


def make(language: str) -> Moses:
    """For any language; those without a list of abbreviations are split as English is."""
    return Moses(language)
