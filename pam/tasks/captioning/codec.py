"""Clips to their frames, and words of captions to symbols and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from pam.data.codecs import Codec, SideCodec, SideSettings, load_settings
from pam.data.features import Frames, Table, checked, read_array, spaced
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.runtime.files import write_text


class CaptioningSettings(Strict):
    """A captioning codec's file."""

    units: int = Field(ge=1, description="of what is known of a frame")
    first: int | None = Field(
        None, description="frames that are read, from the first on; null: all"
    )
    spaced: int | None = Field(None, description="of these so many, equally spaced; null: all")
    target: SideSettings


class CaptioningCodec(Codec):
    """Clips to their frames, and words of captions.

    The codec of a prepared folder knows its clips by their names. That of a model reads the `.npy`
    file that a line names.
    """

    columns = ("source", "target")
    files = ("codec.json",)

    def __init__(self, settings: CaptioningSettings, clips: Table | None = None) -> None:
        self.settings = settings
        self.clips = clips
        self.units = settings.units

        self.target = SideCodec(settings.target)

    @classmethod
    def load(cls, folder: Path) -> CaptioningCodec:
        settings = load_settings(CaptioningSettings, folder / cls.files[0])
        if not (folder / Table.FILES[0]).is_file():
            return cls(settings)

        return cls(settings, Table.load(folder))

    def save(self, folder: Path) -> None:
        """Write the settings into a folder, whole or not at all."""
        write_text(folder / self.files[0], self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the clip's frames, as `Frames`."""
        (clip,) = columns
        if self.clips is not None and clip in self.clips.places:
            return Frames(self.clips[clip])

        try:
            vectors = checked(read_array(Path(clip)), clip, self.units)
        except UserError as error:
            # The error's file and line are those of the text that names the clip.
            raise UserError(f"{clip}: {error.message}", hint=error.hint) from error

        return Frames(spaced(vectors, self.settings.first, self.settings.spaced))

    def target_symbols(self, target: str) -> list[str]:
        return target.split()

    def typed_source(self, line: str) -> tuple[str, ...]:
        return (line.strip(),)

    def typed_target(self, line: str) -> str:
        return " ".join(self.target.typed_words(line))

    def target_text(self, symbols: Sequence[str]) -> str:
        return " ".join(symbols)

    def readable(self, target: str) -> str:
        return self.target.tokenizer.text(target.split())
