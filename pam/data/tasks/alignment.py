"""Word alignments that people made: the words of two sentences, and links between them.

They are no task that a model learns. `pam.data.gold` prepares them for a task of translation, whose
vocabularies and subwords they take.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pam.data.tasks import Stage
from pam.data.translation import codec as codecs
from pam.data.translation.format import LANGUAGE
from pam.io import Strict

COLUMNS = codecs.COLUMNS

FILES = (codecs.FILE,)

STAGES: dict[str, Stage] = {}

GOLD = "gold"
"""The one split."""

LINKS = "links"
"""Beside the two languages, the key of the file that holds the links."""


class Format(Strict):
    """Keys that a data set of word alignments may have under `format`."""

    source: str = Field(pattern=LANGUAGE, description="language of a link's first number")
    target: str = Field(pattern=LANGUAGE, description="language of a link's second number")
    first: int = Field(1, ge=0, le=1, description="number of a sentence's first word")


def splits(layout: Format) -> tuple[str, ...]:
    """One."""
    return (GOLD,)


def keys(step: str) -> tuple[str, ...]:
    """All."""
    return tuple(Format.model_fields)


def modules(step: str, layout: Format) -> list[str]:
    """That which prepares them."""
    return ["pam.data.gold"]


def codec(folder: Path) -> codecs.Codec:
    """That of the task for which they were prepared."""
    return codecs.load_codec(folder)
