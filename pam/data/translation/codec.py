"""The codec of translation: sentences to words to symbols, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from pam.data.subwords import Subwords, join, word_numbers
from pam.data.tasks import Side
from pam.data.tokenizers import Tokenizer, load_tokenizer
from pam.io import Strict, UserError, write_text

FILE = "codec.json"
"""All that a codec is, in a prepared folder and in a model folder."""

COLUMNS = ("source", "target")

Merge = Annotated[str, Field(pattern=r"^[^ \n]+ [^ \n]+$")]


class SideSettings(Strict):
    """One side of a codec's file."""

    language: str
    tokenize: str = Field(description="name of a tokenizer")
    lowercase: bool
    merges: list[Merge] | None = Field(
        None, min_length=1, description="of byte pair encoding; null: words are symbols"
    )


class Settings(Strict):
    """A codec's file."""

    source: SideSettings
    target: SideSettings


class Language:
    """One side: how its sentences become words, and its words symbols."""

    def __init__(self, settings: SideSettings) -> None:
        self._settings = settings
        self._subwords = None if settings.merges is None else Subwords(settings.merges)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_tokenizer(self._settings.tokenize, self._settings.language)

    def words(self, text: str) -> list[str]:
        """Words of a sentence."""
        return self.cased(" ".join(self._tokenizer.tokens(text))).split()

    def cased(self, text: str) -> str:
        """The text, in small letters if the task is."""
        return text.lower() if self._settings.lowercase else text

    def text(self, words: Sequence[str]) -> str:
        """The sentence that words make."""
        return self._tokenizer.text(words)

    def symbols(self, words: Sequence[str]) -> list[str]:
        """Symbols of words."""
        return list(words) if self._subwords is None else self._subwords.split(words)

    def joined(self, symbols: Sequence[str]) -> list[str]:
        """Words of symbols."""
        return list(symbols) if self._subwords is None else join(symbols)

    def numbers(self, symbols: Sequence[str]) -> list[int]:
        """For each symbol the number of its word, from 0."""
        return list(range(len(symbols))) if self._subwords is None else word_numbers(symbols)


class Codec:
    """Both sides; a `pam.data.tasks.Codec`. A column holds words with one space between two."""

    columns: tuple[str, ...] = COLUMNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source = Language(settings.source)
        self.target = Language(settings.target)

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Symbols of the one source column.

        Raises:
            UserError: not one column, or no words.
        """
        if len(columns) != 1 or not columns[0].strip():
            raise UserError("expected a sentence", hint="write one sentence a line, without tabs")
        return self.source.symbols(columns[0].split())

    def target_symbols(self, target: str) -> list[str]:
        """Symbols of a target column."""
        return self.target.symbols(target.split())

    def typed_source(self, line: str) -> tuple[str, ...]:
        """Words of a typed sentence, as one column.

        Raises:
            UserError: it has none.
        """
        words = self.source.words(line)
        if not words:
            raise UserError("expected a sentence", hint="write one sentence a line")
        return (" ".join(words),)

    def target_text(self, symbols: Sequence[str]) -> str:
        """Words that symbols spell, with one space between two."""
        return " ".join(self.target.joined(symbols))

    def readable(self, target: str) -> str:
        """The sentence that the words of a target column make."""
        return self.target.text(target.split())

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        """The number of the word to which each symbol belongs."""
        return (self.source if side == "source" else self.target).numbers(symbols)


def save_codec(settings: Settings, folder: Path) -> None:
    """Writes a codec's file into a folder, whole or not at all."""
    write_text(folder / FILE, settings.model_dump_json(indent=1) + "\n")


def load_codec(folder: Path) -> Codec:
    """Reads what `save_codec` wrote.

    Raises:
        UserError: missing or damaged.
    """
    path = folder / FILE
    hint = "prepare the data again, or take the file from where the model was made"
    try:
        return Codec(Settings.model_validate_json(path.read_bytes()))
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint=hint) from error
    except ValidationError as error:
        raise UserError("this is not a codec of translation", file=path, hint=hint) from error
