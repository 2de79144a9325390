"""Texts as scores of summaries and captions compare them, and metrics that are left out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pam.data.languages import Language, compared_words, composed, has_word
from pam.data.tokenizers import SideCodec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparedText:
    """How texts of a task are compared."""

    language: Language
    segmented: bool = (
        True  # whether the words of the task are words, also where the language has no spaces
    )
    spelled: SideCodec | None = None  # joins words that are characters

    @property
    def has_words(self) -> bool:
        """Whether the task's own words are what a reader would call words, or can be taken for
        them.
        """
        return self.segmented and self.spelled is None

    def joined(self, text: str) -> str:
        """Words of the task in one form; where they are characters, those that they spell."""
        text = composed(text)
        return text if self.spelled is None else self.spelled.tokenizer.text(text.split())

    def tokenize(self, text: str) -> list[str]:
        """Words that ROUGE compares, as the package asks for them."""
        return compared_words(self.joined(text), self.language, segmented=self.has_words)

    def compared(self, text: str) -> str:
        """The words of a caption that scores compare: in small letters, without marks."""
        if not (self.language.is_spaced or self.has_words):
            return " ".join(self.tokenize(text))
        return " ".join(
            word for word in self.language.lower(self.joined(text)).split() if has_word(word)
        )


def tell_left_out(reasons: Sequence[str], details: dict[str, Any]) -> None:
    """Warn of metrics that are left out, and note the reasons among the details of the scores."""
    for reason in reasons:
        log.warning(reason)
    if reasons:
        details["left_out"] = list(reasons)
