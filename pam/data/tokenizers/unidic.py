"""MeCab with the dictionary UniDic (unidic-lite) through fugashi, for Japanese."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fugashi import Tagger

from pam.io import UserError

_BETWEEN_JAPANESE = re.compile(r"(?<![!-~]) | (?![!-~])")
"""Spaces that do not stand between two words in Latin letters or digits."""


class UniDic:
    """Short unit words."""

    def __init__(self) -> None:
        self._tagger = Tagger("-Owakati")

    def tokens(self, text: str) -> list[str]:
        return str(self._tagger.parse(text)).split()

    def text(self, tokens: Sequence[str]) -> str:
        return _BETWEEN_JAPANESE.sub("", " ".join(tokens))


def make(language: str) -> UniDic:
    """For Japanese alone.

    Raises:
        UserError: another language.
    """
    if language != "ja":
        raise UserError(
            f"the tokenizer unidic is for Japanese (ja), not for `{language}`",
            hint="use `moses` or `none` for this language",
        )
    return UniDic()
