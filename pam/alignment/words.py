"""Words of a text as its user has them, and the symbols that a model reads of them.

A model splits a text by its own tokenizer, changes its case, and reads subwords. Its user means the
words of the given text: those between white space, or those of the tokenizer, each with its place
in the text. Both are matched by their characters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import NamedTuple

from pam.data.codecs import Codec, Side
from pam.data.languages import INVISIBLE, SPACE
from pam.data.text_files import CONTROL
from pam.data.tokenizers import INDENTATION

SPACES = frozenset(SPACE + INDENTATION)


class Word(NamedTuple):
    """A word of a text, which is text[start:end]."""

    text: str
    start: int
    end: int


class Origin(NamedTuple):
    """Where a character comes from."""

    text: int  # the index of its text
    place: int  # its index in the text


@dataclass(frozen=True)
class ReadText:
    """A text as a model reads it, and the words that its symbols are parts of."""

    text: str
    symbols: Sequence[str]  # without an end symbol
    tokens: list[str] | None  # the words of the model's tokenizer; None: symbols are words
    token_indices: list[int]  # for each symbol the index of its token

    @cached_property
    def token_places(self) -> list[Word]:
        """Where each token is in the text."""
        assert self.tokens is not None
        return placed(self.tokens, self.text)

    def own_words(self) -> list[Word]:
        """Return the words of the model itself: its tokenizer's, or its symbols without places."""
        if self.tokens is None:
            return [Word(str(symbol), 0, 0) for symbol in self.symbols]
        # Signs for spaces have no place of their own.
        return [token for token in self.token_places if token.end > token.start]

    def word_indices(self, words: Sequence[Word]) -> list[int]:
        """Return for each symbol the index of the word in which its token begins."""
        if self.tokens is None:
            return list(range(len(self.symbols)))

        starts = [word.start for word in words]
        by_token = [max(bisect_right(starts, token.start) - 1, 0) for token in self.token_places]
        return [by_token[index] for index in self.token_indices]


def read_text(codec: Codec, text: str, side: Side) -> ReadText:
    """Split a text into the symbols of a model; a UserError says that it is none for the model."""
    if side == "source":
        columns = codec.typed_source(text)
        symbols = codec.source_symbols(columns)
        column = columns[0]
    else:
        column = codec.typed_target(text)
        symbols = codec.target_symbols(column)

    if not codec.has_words:
        return ReadText(text, symbols, None, list(range(len(symbols))))
    return ReadText(text, symbols, column.split(), codec.words(symbols, side))


def words_between_spaces(text: str) -> list[Word]:
    """Return the words of a text that are between white space."""
    return [Word(match[0], *match.span()) for match in re.finditer(r"\S+", text)]


def placed(tokens: Sequence[str], text: str) -> list[Word]:
    """Return where in a text its tokens are, whatever case and composition they have.

    A token that has no character of the text, such as the sign for a space, has an empty place at
    the beginning of the token that follows.
    """
    text_characters, places = _folded([text])
    token_characters, owners = _folded(tokens)

    # Characters of the text by token; where both differ, those that are left in the right order.
    spans: list[list[int] | None] = [None] * len(tokens)
    for token_start, text_start, size in _matches(token_characters, text_characters):
        for offset in range(size):
            token_index = owners[token_start + offset].text
            place = places[text_start + offset].place
            span = spans[token_index]
            if span is None:
                spans[token_index] = [place, place + 1]
            else:
                span[1] = place + 1

    words: list[Word] = []
    following = len(text)
    for span in reversed(spans):
        if span is None:
            words.append(Word("", following, following))
        else:
            start, end = span
            words.append(Word(text[start:end], start, end))
            following = start
    return words[::-1]


def _matches(first: str, second: str) -> list[tuple[int, int, int]]:
    """Return runs of equal characters, (start in the first, start in the second, length)."""
    if first == second:
        return [(0, 0, len(first))]
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return [(block.a, block.b, block.size) for block in matcher.get_matching_blocks()]


def _folded(texts: Sequence[str]) -> tuple[str, list[Origin]]:
    """Return the visible characters of texts, without case and composition, and their origins."""
    characters = []
    origins = []
    for index, text in enumerate(texts):
        for place, character in enumerate(text):
            for part in _parts(character):
                characters.append(part)
                origins.append(Origin(index, place))
    return "".join(characters), origins


@lru_cache(maxsize=2**14)
def _parts(character: str) -> str:
    """Return the parts of a character that show, in small letters."""
    if character in SPACES or INVISIBLE.match(character) or CONTROL.match(character):
        return ""
    return "".join(unicodedata.normalize("NFKD", character).casefold().split())
