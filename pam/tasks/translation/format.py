"""The keys of `format` of sentence pairs, and of all kinds of task whose rows are two texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from pam.data.codecs import SIDES, Settings, Side, SideSettings
from pam.data.languages import language
from pam.data.prepare import (
    Symbols,
    TaskFormat,
)
from pam.data.readers import load_reader
from pam.data.reading import Reader
from pam.data.tokenizers import TOKENIZERS
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.tasks.translation.codec import TranslationCodec

# Names of the two sides of a pair: codes of languages, or others, such as those of a program and of
# what it does.
SIDE = r"^[A-Za-z][A-Za-z0-9_-]*$"


class SubwordsFormat(Strict):
    """Byte pair encoding."""

    merges: int = Field(ge=1, description="merges that are learned, on each side or for both")
    joint: bool = Field(False, description="learn one list of merges from both languages")


class VocabularyFormat(Strict):
    """Choice of the symbols of the training text that have an id; all others are unknown."""

    joint: bool = Field(False, description="one vocabulary, of both sides' symbols, for both")

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


class PairsFormat(TaskFormat):
    """Keys under `format` of every kind of task whose rows are two texts.

    Each side has a name and a language.
    """

    source: str
    target: str
    read: Annotated[SerializeAsAny[Reader], BeforeValidator(load_reader)] = Field(
        "lines", description="the reader of the files, see below", validate_default=True
    )
    blank_lines: Literal["refuse", "drop"] = Field(
        "refuse",
        description=(
            "`refuse`: an error that counts pairs without words and names the first ones; `drop`:"
            " leave them out"
        ),
    )
    invisible: Literal["drop", "keep"] = Field(
        "drop",
        description=(
            "characters that show nothing, such as soft hyphens and marks of direction: `drop`:"
            " leave them out and count them; `keep`: learn them"
        ),
    )
    tokenize: str | dict[str, str] = Field(
        "moses",
        description=(
            "`moses`, `unidic` (Japanese), `characters` or `none` (split at spaces); or one for"
            " each language: `{ja: unidic, en: moses}`; `none` for a side that is no language"
        ),
    )
    tokenized: bool = Field(
        False, description="whether the files are tokenized already, as by `tokenize`"
    )
    lowercase: bool = Field(False, description="whether to lowercase the text")
    train_pairs: int | None = Field(
        None,
        ge=1,
        description=(
            "train on this many first pairs; tasks that differ only in this key get a figure of"
            " BLEU by training size"
        ),
    )
    subwords: SubwordsFormat | None = Field(
        None, description="byte pair encoding: `{merges: 8000, joint: false}`; null: whole words"
    )
    vocabulary: VocabularyFormat = Field(
        VocabularyFormat(),
        description=(
            "words in the vocabulary: `{size: 30000, min_count: 2}`; a size for each side:"
            " `size: {de: 30000, en: 20000}`; one vocabulary for both sides: `joint: true`"
        ),
    )

    @property
    def fields(self) -> tuple[str, str]:
        """Names by which a reader knows source and target."""
        return self.source, self.target

    @property
    def languages(self) -> tuple[str, str]:
        """Languages of source and target."""
        return self.source, self.target

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Numbers of symbols of source and target that are read of a longer one; None: all."""
        return None, None

    def tokenizer_for(self, language: str) -> str:
        if isinstance(self.tokenize, str):
            return self.tokenize
        return self.tokenize.get(language, "none")

    @model_validator(mode="after")
    def _serves_its_languages(self) -> PairsFormat:
        for name in map(self.tokenizer_for, self.languages):
            if name not in TOKENIZERS:
                raise ValueError(f"no tokenizer `{name}`; known: {', '.join(sorted(TOKENIZERS))}")
        return self

    def sides(self, merges: Sequence[list[str]]) -> dict[Side, SideSettings]:
        """Return a codec's settings of source and target, with their merges if there are any."""
        merges_by_side = merges or (None, None)
        settings: dict[Side, SideSettings] = {}
        for side, code, side_merges in zip(SIDES, self.languages, merges_by_side, strict=True):
            settings[side] = SideSettings.of_new_data(
                language=code,
                tokenize=self.tokenizer_for(code),
                lowercase=self.lowercase,
                merges=side_merges,
            )
        return settings

    def codec(self, *merges: list[str]) -> TranslationCodec:
        """Make the codec, with merges of source and target if they are given."""
        return TranslationCodec(Settings(**self.sides(merges)))


class TranslationFormat(PairsFormat):
    """Keys that a data set of sentence pairs may have under `format`."""

    source: str = Field(
        pattern=SIDE,
        description="code of the language translated from, or another name of that side",
    )
    target: str = Field(
        pattern=SIDE, description="code of the language translated to, or another name of that side"
    )
    max_length: int | None = Field(
        None,
        ge=1,
        description=("longest training sentence in words; test sentences are never left out"),
    )
    max_ratio: float | None = Field(
        None, ge=1, description="longest training sentence as a multiple of its translation"
    )
    dev_every: int | None = Field(
        None, ge=2, description="every n-th training pair becomes development data"
    )

    @model_validator(mode="before")
    @classmethod
    def _no_language_no_tokenizer(cls, keys: Any) -> Any:
        """Let a side that is no language, such as `sql`, have no tokenizer of a language."""
        if not isinstance(keys, dict) or "tokenize" in keys:
            return keys

        sides = [side for side in (keys.get("source"), keys.get("target")) if isinstance(side, str)]
        if all(language(side).tag for side in sides):
            return keys
        return keys | {"tokenize": {side: _default_tokenizer(side) for side in sides}}

    @model_validator(mode="after")
    def _has_two_languages(self) -> TranslationFormat:
        if self.source == self.target:
            raise ValueError("source and target are the same language")
        return self


def _default_tokenizer(side: str) -> str:
    """Return the tokenizer of a side of which the format says nothing, by its name."""
    return "moses" if language(side).tag else "none"


def pair_symbols(layout: PairsFormat) -> dict[str, Any]:
    """Return the part of a format that decides which symbols a pair of texts becomes."""
    symbols: dict[str, Any] = {
        "language": layout.languages,
        "tokenize": [layout.tokenizer_for(language) for language in layout.languages],
    }
    for key in ("lowercase", "subwords", "vocabulary", "source_eos"):
        symbols[key] = getattr(layout, key)
    return symbols


def pair_symbols_of(layout: PairsFormat, codec: TranslationCodec, model: Symbols) -> dict[str, Any]:
    """Return the keys of a format that a trained model decides, but for `tokenize`.

    A UserError says that the model is of other languages.
    """
    for side, code in zip(SIDES, layout.languages, strict=True):
        language_of_model = getattr(codec.settings, side).language
        if language_of_model != code:
            hint = "name a model of the same languages, or call them as it does in `format`"
            message = (
                f"the {side} of `{model.name}` is {language_of_model}, but that of the data {code}"
            )
            raise UserError(message, hint=hint)

    return {"lowercase": codec.settings.source.lowercase, "source_eos": model.source_eos}
