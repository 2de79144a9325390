"""Whether words, joined again, are the text that a user gave.

What scores of readable text compare, and what `predict` prints, is joined from words. Where a
tokenizer cannot join them to the text, perfect words have errors, and users have to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pam.data.languages import Language

SENTENCE_END = re.compile(r"\w[.?!]$")
SHOWN = 80  # characters of a text that a message shows


@dataclass
class WayBack:
    """Counts the targets of one split that are not their texts once their words are joined."""

    compared: int = 0
    differing: int = 0
    sentences: int = 0  # texts whose last word ends in a mark
    indented: int = 0  # of these that differ, lines whose spaces at the beginning are lost
    text: str = ""  # the first one that differs
    joined: str = ""

    def add(self, text: str, joined: str) -> None:
        """Compare a text with its words, which are joined."""
        self.compared += 1
        self.sentences += bool(SENTENCE_END.search(text))
        if joined == text:
            return

        if not self.differing:
            self.text = text
            self.joined = joined
        self.differing += 1
        self.indented += text[:1] == " " and joined[:1] != " "

    def counts(self) -> dict[str, Any]:
        """Return the counts for a summary, with the first text that differs."""
        counts: dict[str, Any] = {"compared": self.compared, "differing": self.differing}
        if self.differing:
            counts |= {"text": self.text, "joined": self.joined, "indented": self.indented}
        return counts


def way_back_warnings(
    splits: Mapping[str, WayBack], tokenizer: str, lang: Language, *, lowercase: bool
) -> list[str]:
    """Warn of targets that differ, with the first one and what to choose."""
    differing = [split for split in splits if splits[split].differing]
    if not differing:
        return _prose_warnings(splits, tokenizer, lang)

    counted = " and ".join(
        f"{splits[split].differing} of {splits[split].compared} targets of {split}"
        for split in differing
    )
    case = " (but for small letters)" if lowercase else ""
    first = splits[differing[0]]
    hint = "`tokenize: characters` keeps all of a text"
    if lang.is_spaced:
        hint = "`tokenize: none` or `characters` keeps them"
    indented = sum(splits[split].indented for split in differing)
    lost = f"; {indented} lose the spaces at their beginning" if indented else ""
    return [
        f"{counted} are not their text again{case} when their words, split by `{tokenizer}`, are"
        f" joined{lost}: `{_short(first.text)}` becomes `{_short(first.joined)}`. Scores of"
        f" readable text, such as sacreBLEU, and what `predict` prints have such errors; {hint}"
    ]


def _prose_warnings(splits: Mapping[str, WayBack], tokenizer: str, lang: Language) -> list[str]:
    """Propose a tokenizer for sentences of a side that is called by no language."""
    compared = sum(way.compared for way in splits.values())
    sentences = sum(way.sentences for way in splits.values())
    if tokenizer != "none" or lang.tag or 2 * sentences <= compared:
        return []
    return [
        f"`{lang.code}` is no language, so that its words are split at spaces alone, and"
        f" {sentences} of {compared} targets end in a mark: write `tokenize: moses`, or call the"
        " side by its language"
    ]


def _short(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}..."
