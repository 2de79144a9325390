"""Marks that tools leave in text that is split into subwords, and how to join it again.

Such a text scores low against references in words, and pieces of words pass for words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

# Share of lines with a mark from which a text is taken for one in subwords.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Mark:
    """A way in which subwords are written."""

    sign: str  # each text that is written in this way has it
    seen: str  # pattern that a line in subwords has
    joins: tuple[tuple[str, str], ...]  # patterns and what takes their places, one after another

    def is_in(self, text: str) -> bool:
        """Tell whether a text has the mark."""
        return self.sign in text and self._pattern.search(text) is not None

    def join(self, text: str) -> str:
        """Return a text with its subwords joined to words."""
        for pattern, replacement in self.joins:
            text = re.sub(pattern, replacement, text)
        return text

    @property
    def command(self) -> str:
        """The command that joins the subwords of a file."""
        steps = "; ".join(f"s,{pattern},{replacement},g" for pattern, replacement in self.joins)
        return f"sed -E '{steps}' FILE > NEW"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.seen)


MARKS = (
    # subword-nmt and fairseq
    Mark("@@", r"@@( |$)", ((r"@@( |$)", ""),)),
    # SentencePiece
    Mark("▁", r"(^| )▁", ((" ", ""), ("▁", " "), ("^ ", ""))),
    # WordPiece
    Mark("##", r" ##[^ #]", ((r" ##", ""),)),
    # the tokenizer of OpenNMT
    Mark("￭", r"￭", ((r" ?￭ ?", ""),)),
    # BPE with ends of words
    Mark("</w>", r"[^ ]</w>( |$)", ((" ", ""), ("</w>", " "), (" $", ""))),
)


class MarkedLines:
    """Numbers of lines, and of lines that have each mark of subwords."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.lines = 0
        self.marked: Counter[Mark] = Counter()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Count a line."""
        self.lines += 1
        self.marked.update(mark for mark in MARKS if mark.is_in(text))

    def marks(self) -> list[Mark]:
        """List the marks that so many lines have that the text is one in subwords."""
        return [mark for mark, count in self.marked.items() if count >= LEAST_SHARE * self.lines]

    def warnings(self, name: str, option: str = "") -> list[str]:
        """Say that a text holds subwords, and how to join them.

        Args:
            name: what messages call the text.
            option: of the command, which joins them too.
        """
        ways = f"`{option}`, or by " if option else ""
        return [
            f"{self.marked[mark]:,} of {self.lines:,} lines of {name} hold subwords, marked by"
            f" `{mark.sign}`: join them by {ways}`{mark.command}`"
            for mark in self.marks()
        ]


def joined(texts: Sequence[str]) -> list[str]:
    """Return texts with their subwords joined, if they hold any."""
    lines = list(texts)
    for mark in MarkedLines(texts).marks():
        lines = [mark.join(line) if mark.is_in(line) else line for line in lines]
    return lines
