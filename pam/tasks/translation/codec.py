"""Words of both sides of a translation to symbols, and back."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import ClassVar, Self

from pam.data.codecs import Codec, Settings, Side, SideCodec, load_settings
from pam.runtime.errors import UserError
from pam.runtime.files import write_text


class TranslationCodec(Codec):
    """Both sides of a translation; a column holds words with one space between two."""

    columns = ("source", "target")
    files = ("codec.json",)
    has_words = True
    settings_type: ClassVar[type[Settings]] = Settings

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

        self.source = SideCodec(settings.source)
        self.target = SideCodec(settings.target)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(load_settings(cls.settings_type, folder / cls.files[0]))

    def know(self, source: Container[str], target: Container[str]) -> None:
        self.source.known = source
        self.target.known = target

    def save(self, folder: Path) -> None:
        """Write the settings into a folder, whole or not at all."""
        write_text(folder / self.files[0], self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        if len(columns) != 1 or not columns[0].strip():
            raise UserError("expected a sentence", hint="write one sentence a line, without tabs")

        return self.source.symbols(columns[0].split())

    def target_symbols(self, target: str) -> list[str]:
        return self.target.symbols(target.split())

    def typed_source(self, line: str) -> tuple[str, ...]:
        words = self.source.typed_words(line)
        if not words:
            raise UserError("expected a sentence", hint="write one sentence a line")

        return (" ".join(words),)

    def typed_target(self, line: str) -> str:
        return " ".join(self.target.typed_words(line, is_target=True))

    def target_text(self, symbols: Sequence[str]) -> str:
        return " ".join(self.target.joined(symbols))

    def readable(self, target: str) -> str:
        return self.target.tokenizer.text(target.split())

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        side_codec = self.source if side == "source" else self.target
        return side_codec.numbers(symbols)
