"""How a parallel text is read, split into words and given numbers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from pam.config import Choice, kind_of
from pam.data.readers import load_reader
from pam.data.tasks import Side
from pam.data.tokenizers import tokenizers
from pam.io import Strict, UserError

LANGUAGE = r"^[a-z]{2,3}$"

PerLanguage = str | dict[str, str]


class Subwords(Strict):
    """Byte pair encoding."""

    merges: int = Field(ge=1, description="merges that are learned, on each side or for both")
    joint: bool = Field(False, description="learn one list of merges from both languages")


class Words(Strict):
    """Which symbols of the training text have an id; the others are unknown."""

    size: int | dict[str, int] | None = Field(
        None, description="so many of the most frequent, or so many by language"
    )
    min_count: int = Field(1, ge=1, description="only those that occur so often")

    @field_validator("size")
    @classmethod
    def _positive(cls, size: int | dict[str, int] | None) -> int | dict[str, int] | None:
        sizes = size.values() if isinstance(size, dict) else [size]
        if any(number is not None and number < 1 for number in sizes):
            raise ValueError("a vocabulary has at least one word")
        return size

    def size_for(self, language: str) -> int | None:
        """The limit for one language, if it has one."""
        return self.size.get(language) if isinstance(self.size, dict) else self.size


class Format(Strict):
    """Keys that a data set of sentence pairs may have under `format`."""

    source: str = Field(pattern=LANGUAGE, description="code of the language translated from")
    target: str = Field(pattern=LANGUAGE, description="code of the language translated to")
    read: Choice = Field("lines", description="how the files hold pairs, see pam.data.readers")
    blank_lines: Literal["refuse", "drop"] = Field(
        "refuse", description="`drop` leaves out pairs without words"
    )
    tokenize: PerLanguage = Field(
        "moses", description="tokenizer, or one by language, see pam.data.tokenizers"
    )
    tokenized: bool = Field(
        False, description="the files hold words already, split as `tokenize` would"
    )
    lowercase: bool = Field(False, description="all letters small")
    train_pairs: int | None = Field(
        None, ge=1, description="train on so many pairs, the first ones; null: all"
    )
    max_length: int | None = Field(None, ge=1, description="words of the longest training sentence")
    max_ratio: float | None = Field(
        None, ge=1, description="of the longer to the shorter sentence of a training pair, in words"
    )
    dev_every: int | None = Field(
        None, ge=2, description="every n-th training pair becomes development data"
    )
    subwords: Subwords | None = Field(None, description="byte pair encoding; null: whole words")
    vocabulary: Words = Field(default_factory=lambda: Words(), description="which symbols have ids")

    @field_validator("read")
    @classmethod
    def _readable(cls, read: Choice) -> Choice:
        try:
            kind, options = kind_of(read)
            load_reader(kind).Options.model_validate(options)
        except UserError as error:
            raise ValueError(str(error)) from error
        return read

    @model_validator(mode="after")
    def _serves_its_languages(self) -> Format:
        if self.source == self.target:
            raise ValueError("source and target are the same language")
        for language in (self.source, self.target):
            name = self.tokenizer_for(language)
            if name not in tokenizers():
                raise ValueError(f"no tokenizer `{name}`; known: {', '.join(tokenizers())}")
        return self

    def tokenizer_for(self, language: str) -> str:
        """Name of a language's tokenizer."""
        if isinstance(self.tokenize, str):
            return self.tokenize
        return self.tokenize.get(language, "none")

    def language(self, side: Side) -> str:
        """The language of a side."""
        return self.source if side == "source" else self.target
