"""Texts in the form that scores of summaries and captions compare, and metrics left out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pam.data.codecs import SideCodec
from pam.data.languages import Language, compared_words, has_word, language, visible
from pam.data.scripts import language_of
from pam.data.subword_marks import MarkedLines
from pam.evaluation.metrics import of_beam

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparedText:
    """The way in which texts of a task are compared."""

    language: Language
    # whether the words of the task are words, even where the language has no spaces
    segmented: bool = True
    # joins the words of a task that are characters; None: they are not
    spelled: SideCodec | None = None

    @property
    def has_words(self) -> bool:
        """Whether the words of the task can be compared as words."""
        return self.segmented and self.spelled is None

    def joined(self, text: str) -> str:
        """Return a text in Unicode NFC, without characters that show nothing.

        Words of the task that are characters are joined.
        """
        text = visible(text)
        if self.spelled is None:
            return text
        return self.spelled.tokenizer.text(text.split())

    def tokenize(self, text: str) -> list[str]:
        """Split a text into the words that ROUGE compares; the package calls this."""
        return compared_words(self.joined(text), self.language, segmented=self.has_words)

    def compared(self, text: str) -> str:
        """Return the words of a caption that scores compare: lower case, without punctuation."""
        if not (self.language.is_spaced or self.has_words):
            return " ".join(self.tokenize(text))

        words = self.language.lower(self.joined(text)).split()
        return " ".join(word for word in words if has_word(word))


def tell_left_out(reasons: Sequence[str], details: dict[str, Any]) -> None:
    """Warn of metrics that are left out, and note the reasons among the details of the scores."""
    for reason in reasons:
        log.warning(reason)

    if reasons:
        details["left_out"] = list(reasons)


def language_seen(code: str, texts: Iterable[str]) -> tuple[Language, list[str]]:
    """Return the language of references by its code or their script, and a note on the latter.

    The code is empty where no language is named.
    """
    seen = language_of(code, texts)
    if seen.tag == language(code).tag:
        return seen, []

    named_by = f"`{code}` is not its code" if code else "no language was named"
    note = f"scored as {seen.name} (`{seen.code}`), in whose script the references are: {named_by}"
    return seen, [note]


def blank_notes(outputs: Sequence[str], name: str) -> list[str]:
    """Say how many outputs are blank, if some are; messages call the outputs `name`."""
    blank = count_blank(outputs)
    if not blank:
        return []
    return [f"{blank:,} of {len(outputs):,} outputs of {name} are blank"]


def tell_outputs(outputs: Sequence[str], beam: int | None, details: dict[str, Any]) -> list[str]:
    """Count the blank outputs of a beam among the details; return notes on outputs in subwords."""
    details[of_beam("empty", beam)] = count_blank(outputs)
    return MarkedLines(outputs).warnings("the outputs")


def reference_notes(references: Iterable[str]) -> list[str]:
    """Say that references hold subwords, if they do."""
    return MarkedLines(references).warnings("the references")


def count_blank(outputs: Sequence[str]) -> int:
    """Count the outputs that show nothing."""
    return sum(not visible(text).strip() for text in outputs)


def tell_notes(notes: Sequence[str], details: dict[str, Any]) -> None:
    """Note what a reader of scores has to know among their details."""
    if notes:
        details["notes"] = list(notes)
