"""Constraints as people write them, as texts, for the sources of one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pam.data.vocabulary import UNK
from pam.decoding.constraints import Constraint
from pam.models.checkpoint import SavedModel
from pam.runtime.errors import UserError

Words = Sequence[str] | Sequence[Sequence[str]]
"""Words for all sources, or for each source a list of its own."""


@dataclass(frozen=True)
class TypedConstraints:
    """What outputs must begin with, and which words they must or must not contain.

    Attributes:
        prefix: a text for all sources, or one for each.
        include, exclude: words for all sources, or a list of words for each.
    """

    prefix: str | Sequence[str] = ""
    include: Words = ()
    exclude: Words = ()

    def __post_init__(self) -> None:
        """Take arrays of NumPy and pandas as the lists that they are."""
        for name in ("prefix", "include", "exclude"):
            value = getattr(self, name)
            if hasattr(value, "tolist"):
                object.__setattr__(self, name, value.tolist())

    def __bool__(self) -> bool:
        """Return whether anything is asked for."""
        return bool(self.prefix or self.include or self.exclude)

    def read(
        self, model: SavedModel, sources: Sequence[Sequence[str]], longest: int | None
    ) -> list[Constraint]:
        """Return the constraint of each source, in ids of the model.

        Words with symbols that the model cannot write are left out of what is excluded.

        Args:
            model: with the codec that splits texts into symbols.
            sources: symbols of each source, which a model that copies can write.
            longest: number of symbols of a source that are read; None: all.

        Raises:
            UserError: one is no text, the numbers differ, or the model cannot write what it must.
        """
        prefixes = _for_each(self.prefix, len(sources), "prefix")
        included = _lists_for_each(self.include, len(sources), "include")
        excluded = _lists_for_each(self.exclude, len(sources), "exclude")

        constraints = []
        for number, source in enumerate(sources):
            typed = _Texts(model, source[:longest], number)
            constraints.append(
                Constraint(
                    prefix=typed.prefix(prefixes[number]),
                    include=[typed.required(word, "include") for word in included[number]],
                    exclude=[
                        ids
                        for word in excluded[number]
                        if UNK not in (ids := typed.ids(word, "exclude"))
                    ],
                )
            )
        return constraints


@dataclass(frozen=True)
class _Texts:
    """The texts that are asked for, or excluded, of one source."""

    model: SavedModel
    source: Sequence[str]
    number: int

    def prefix(self, text: Any) -> list[int]:
        """Return the ids that a text begins with; an empty text has none."""
        if text == "":
            return []
        return self.required(text, "prefix")

    def required(self, text: Any, name: str) -> list[int]:
        """Return the ids of a text; a UserError says that the model cannot write it."""
        ids = self.ids(text, name)
        if UNK in ids:
            message = f"source {self.number}: the model cannot write `{text}` of `{name}`"
            raise UserError(message, hint="leave it out, or write it in symbols that it knows")
        return ids

    def ids(self, text: Any, name: str) -> list[int]:
        """Return the ids of a text as the model would write it; a UserError if it is none."""
        codec = self.model.codec
        hint = "give texts, as the output has them"
        if not isinstance(text, str):
            message = f"source {self.number}: `{name}` has a {type(text).__name__}"
            raise UserError(message, hint=hint)

        symbols = codec.target_symbols(codec.typed_target(text))
        if not symbols:
            raise UserError(f"source {self.number}: `{name}` has a blank text", hint=hint)
        return self.model.target_ids(symbols, self.source)


def _for_each(texts: Any, count: int, name: str) -> Sequence[Any]:
    """Return a text for each source, of one for all or one for each."""
    if isinstance(texts, str):
        return [texts] * count
    if not isinstance(texts, Sequence) or len(texts) != count:
        raise UserError(
            f"`{name}` does not fit {count} sources",
            hint="give one for all sources, or as many as sources",
        )
    return texts


def _lists_for_each(words: Any, count: int, name: str) -> Sequence[Sequence[Any]]:
    """Return a list of words for each source, of one list for all or one for each."""
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise UserError(f"`{name}` is no list of words", hint=f"write `{name}=[...]`")
    if any(isinstance(word, str) or not isinstance(word, Sequence) for word in words):
        return [words] * count
    if not words:
        return [()] * count
    return _for_each(words, count, name)
