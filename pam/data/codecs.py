"""Symbols of a kind of task and back: what all codecs have in common."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, ValidationError

from pam.data.features import Table
from pam.data.languages import language as language_of
from pam.data.text_files import cleaned
from pam.data.tokenizers import (
    BPE_VERSION,
    CONTINUES,
    TOKENIZERS,
    Tokenizer,
    library,
    load_tokenizer,
    unescape_moses,
    unmarked,
)
from pam.experiments.parsing import Section, Strict
from pam.runtime.errors import UserError
from pam.tasks import find_kind, imported

MOST_PARTS = 5  # into which a tokenizer splits a word that a model knows as one
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)


class Codec(ABC):
    """Prepared text to symbols and back, and what a person types to prepared text."""

    # of a prepared text; the last one is the target
    columns: ClassVar[tuple[str, ...]]

    # whether a typed line is a source, or all that is typed
    by_line: ClassVar[bool] = True

    # length of the vectors that sources consist of, in place of symbols; 0: there are none
    units: int = 0

    # the vectors of the sources of a prepared folder
    clips: Table | None = None

    # whether columns are sentences, whose words consist of symbols; else symbols are the words
    has_words: ClassVar[bool] = False

    # files that it is stored in, in a prepared folder and a model folder alike
    files: ClassVar[tuple[str, ...]]

    # further files, of which a folder may have none
    optional_files: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Codec:
        """Load the codec of a prepared folder or a model folder.

        A UserError says that one of `files` is missing or damaged.
        """

    def know(self, source: Container[str], target: Container[str]) -> None:  # noqa: B027
        """Take the symbols of a model's vocabularies, for the reading of what a person types."""

    @abstractmethod
    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the symbols of a source (all columns but the last), without the end symbol.

        A UserError says that it is none.
        """

    @abstractmethod
    def target_symbols(self, target: str) -> list[str]:
        """Return the symbols of a target, without the end symbol."""

    @abstractmethod
    def typed_source(self, line: str) -> tuple[str, ...]:
        """Return the source columns that a typed line means; a UserError if it means none."""

    def typed_target(self, line: str) -> str:
        """Return the target column that a typed line means."""
        return line

    def unread(self, line: str) -> int:
        """Return how many symbols at the end of a typed source no model reads."""
        return 0

    @abstractmethod
    def target_text(self, symbols: Sequence[str]) -> str:
        """Return the target column that symbols spell."""

    @classmethod
    def files_in(cls, folder: Path) -> tuple[str, ...]:
        """Return the names of the codec's files that a folder has."""
        optional = [name for name in cls.optional_files if (folder / name).is_file()]
        return (*cls.files, *optional)

    def readable(self, target: str) -> str:
        """Return a target column as a person writes it."""
        return target

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        """Return for each symbol the index of the word that it is a part of, from 0."""
        return list(range(len(symbols)))


class SideSettings(Strict):
    """One side of a translation codec's file."""

    language: str
    tokenize: str = Field(description="name of a tokenizer")
    lowercase: bool
    merges: list[Annotated[str, Field(pattern=r"^[^ \n]+ [^ \n]+$")]] | None = Field(
        None, min_length=1, description="of byte pair encoding; null: words are symbols"
    )
    # Left out where it is false, as in files from before there was this key.
    whole_words: bool = Field(
        False,
        description="words with an apostrophe inside are not torn by Moses",
        exclude_if=lambda value: not value,
    )

    @classmethod
    def of_new_data(cls, **settings: Any) -> SideSettings:
        """Return the settings with which new data are made."""
        tokenizer = TOKENIZERS[settings["tokenize"]]
        return cls(**settings, whole_words=tokenizer.keeps_words(settings["language"]))


class Settings(Strict):
    """A translation codec's file."""

    source: SideSettings
    target: SideSettings


class SideCodec:
    """One side of a translation: sentences to words to symbols, and back.

    Symbols are subwords, or words if there are no merges.
    """

    # the symbols of a model; None: of no model, or unknown
    known: Container[str] | None = None

    def __init__(self, settings: SideSettings) -> None:
        self._settings = settings

        self._bpe = None
        if settings.merges is not None:
            merge_list = io.StringIO("\n".join([BPE_VERSION, *settings.merges, ""]))
            self._bpe = library("subword_nmt.apply_bpe").BPE(merge_list, separator=CONTINUES)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(
            self._settings.tokenize,
            self._settings.language,
            whole_words=self._settings.whole_words,
        )

    def words(self, text: str, *, tokenized: bool = False) -> list[str]:
        """Return the words of a sentence.

        A `tokenized` text holds them already, with white space between.
        """
        if tokenized:
            return self.cased(unescape_moses(text)).split()
        return self.cased(" ".join(self.tokenizer.tokens(text))).split()

    def typed_words(self, line: str, *, is_target: bool = False) -> list[str]:
        """Return the words of a line that a person types.

        It is cleaned as training text is, whose targets keep their indentation in programs.
        """
        is_program = is_target and not language_of(self._settings.language).tag
        text = cleaned(line, keep_indentation=is_program)
        words = self.words(text)
        if self.known is None or self._bpe is not None:
            return words
        return self._known_words(words, self.cased(text), self.known)

    def _known_words(self, words: list[str], text: str, known: Container[str]) -> list[str]:
        """Join the parts of words that the model knows as one, such as `15:00`, and not in parts.

        Its text was tokenized already, perhaps by another tokenizer.
        """
        joined = []
        first = 0
        while first < len(words):
            after = first + 1
            for end in range(first + MOST_PARTS, first + 1, -1):
                parts = words[first:end]
                word = "".join(parts)
                if word in known and word in text and not all(part in known for part in parts):
                    after = end
                    break
            joined.append("".join(words[first:after]))
            first = after
        return joined

    def cased(self, text: str) -> str:
        """Return the text, in small letters if the task's text is."""
        if self._settings.lowercase:
            return language_of(self._settings.language).lower(text)
        return text

    def symbols(self, words: Sequence[str]) -> list[str]:
        """Return subwords, of which all but a word's last end in `@@`, or the words themselves."""
        if self._bpe is None:
            return list(words)
        return list(self._bpe.segment_tokens(map(unmarked, words)))

    def joined(self, symbols: Sequence[str]) -> list[str]:
        """Return the words that symbols spell; an end that was left open is closed."""
        if self._bpe is None:
            return list(symbols)

        words = defaultdict[int, str](str)
        for word_index, symbol in zip(self.numbers(symbols), symbols, strict=True):
            words[word_index] += symbol.removesuffix(CONTINUES)
        return list(words.values())

    def numbers(self, symbols: Sequence[str]) -> list[int]:
        """Return for each symbol the index of its word, from 0."""
        word_indices = []
        word_index = 0
        for symbol in symbols:
            word_indices.append(word_index)
            if self._bpe is None or not symbol.endswith(CONTINUES):
                word_index += 1
        return word_indices


def load_settings(kind: type[Section], path: Path) -> Section:
    """Read a codec's file; a UserError if it is missing, or not of this kind."""
    hint = "prepare the data again, or take the file from where the model was made"
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint=hint) from error
    except ValidationError as error:
        raise UserError("this is not a codec of this kind of task", file=path, hint=hint) from error


def codec_of(kind: str) -> type[Codec]:
    """Return the class of the codec of a kind of task; a UserError if there is no such kind."""
    codec: type[Codec] = imported(find_kind(kind).codec)
    return codec


def load_codec(kind: str, folder: Path) -> Codec:
    """Load the codec of a prepared folder or a model folder.

    A UserError says that there is no such kind, or as `Codec.load`.
    """
    return codec_of(kind).load(folder)
