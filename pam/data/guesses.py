"""What a person says of files for `pam data new`, what is guessed of them, and kinds of characters.

Hints hold the command with which to call again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MOST = 500  # lines of dev and test, at most
SPACED = 0.5  # share of targets with spaces from which these separate phonemes


@dataclass(frozen=True)
class Choices:
    """What the command says, which is not guessed; None: no choice."""

    files: Sequence[Path]
    name: str | None = None  # of the data set
    registry: Path | None = None
    kind: str | None = None  # of task, or one of `CHARACTERS`
    languages: Sequence[str] | None = None  # names of source and target
    columns: Sequence[str] | None = None  # names of the columns of a table, in their order
    header: bool | None = None  # whether the first line of a table names the columns
    splits: Sequence[str] | None = None  # of the files, in their order
    replace: bool = False  # an entry of the same name

    def instead(self, **changes: Any) -> str:
        """Return the command that replaces the entry by one of other choices."""
        return self.command(replace=True, **changes)

    def command(self, **changes: Any) -> str:
        """Return the command with some choices changed, as a shell takes it."""
        choices = replace(self, **changes)
        words = ["pam", "data", "new", *map(str, choices.files)]
        for option in ("name", "registry", "kind", "languages", "columns", "splits"):
            value = getattr(choices, option)
            if value is None:
                continue
            words.append(f"--{option}")
            if isinstance(value, str | Path):
                words.append(str(value))
            else:
                words += value

        if choices.header is not None:
            words.append("--header" if choices.header else "--no-header")
        if choices.replace:
            words.append("--replace")
        return f"`{shlex.join(words)}`"


@dataclass(frozen=True)
class Guess:
    """An entry for files, with notes on what in it is not sure."""

    task: str
    splits: dict[str, Any]
    format: dict[str, Any]
    notes: tuple[str, ...] = ()  # how to say otherwise what was guessed


@dataclass(frozen=True)
class Characters:
    """A kind of data whose words are read character by character: its entry is of translation."""

    sides: tuple[str, str]  # usual names of source and target
    # whether the target's symbols are separated by spaces where there are any, as phonemes
    spaced: bool = False
    source_eos: bool = False  # endings belong to no letter, so that lemmas have an end symbol

    def format(self, sides: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        """Return the keys that make characters of both sides; `targets` are the first ones."""
        source, target = sides
        layout: dict[str, Any] = {"tokenize": "characters"}
        has_spaces = sum(" " in text.strip() for text in targets) > SPACED * len(targets)
        if self.spaced and has_spaces:
            layout = {"tokenize": {source: "characters", target: "none"}}
        if self.source_eos:
            layout["source_eos"] = True
        return layout


CHARACTERS = {
    "diacritics": Characters(("plain", "marked")),
    "g2p": Characters(("word", "phonemes"), spaced=True),
    "lemmatization": Characters(("form", "lemma"), source_eos=True),
    "transliteration": Characters(("source", "target")),
}
KINDS = ("inflection", "translation", "summarization", *CHARACTERS)


def task_of(kind: str | None) -> str:
    """Return the kind of task of one of `KINDS`, whose words read by characters are translated."""
    return kind if kind in ("inflection", "summarization") else "translation"


def format_of_kind(
    kind: str | None, sides: Sequence[str], targets: Sequence[str]
) -> dict[str, Any]:
    """Return what a kind of characters adds to a format; nothing of other kinds."""
    if kind not in CHARACTERS:
        return {}
    return CHARACTERS[kind].format(sides, targets)


def size_of(count: int) -> int:
    """Return the size of dev or test: a tenth of all rows, 500 at most."""
    return max(1, min(MOST, count // 10))
