"""Words of a text and its summary to symbols, and back."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pam.data.codecs import Settings
from pam.tasks.translation.codec import TranslationCodec


class SummarizationSettings(Settings):
    """A summarization codec's file."""

    longest: int | None = Field(
        None, ge=1, description="symbols of a source that are read; null: all"
    )


class SummarizationCodec(TranslationCodec):
    """Both sides of a summary.

    A column holds the whole text, of which a model reads the first symbols.
    """

    settings_type = SummarizationSettings
    settings: SummarizationSettings
    by_line = False

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        return super().source_symbols(columns)[: self.settings.longest]

    def unread(self, line: str) -> int:
        columns = self.typed_source(line)
        return len(super().source_symbols(columns)) - len(self.source_symbols(columns))
