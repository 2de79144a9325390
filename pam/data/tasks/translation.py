"""Translation: a sentence gives its translation.

A row's columns hold words with one space between two; its symbols are those words, or subwords.
"""

from __future__ import annotations

from pathlib import Path

from pam.config import kind_of
from pam.data.readers import load_reader
from pam.data.tasks import Stage
from pam.data.translation import codec as codecs
from pam.data.translation import extract, index, segment, tokenize
from pam.data.translation.format import Format

__all__ = ["COLUMNS", "FILES", "STAGES", "Format", "codec", "modules", "splits"]

COLUMNS = codecs.COLUMNS

FILES = (codecs.FILE,)

STAGES: dict[str, Stage] = {
    extract.NAME: extract.extract,
    tokenize.NAME: tokenize.tokenize,
    segment.NAME: segment.segment,
    index.NAME: index.index,
}

KEYS = {
    extract.NAME: ("source", "target", "read", "blank_lines"),
    tokenize.NAME: (
        "tokenize", "tokenized", "lowercase", "max_length", "max_ratio", "dev_every",
    ),
    segment.NAME: ("subwords",),
    index.NAME: ("vocabulary",),
}  # fmt: skip


def splits(layout: Format) -> tuple[str, ...]:
    """What the reader wants; without dev, if that is cut from train."""
    kind, options = kind_of(layout.read)
    reader = load_reader(kind)
    wanted = reader.splits(reader.Options.model_validate(options))
    return tuple(name for name in wanted if name != "dev" or layout.dev_every is None)


def keys(step: str) -> tuple[str, ...]:
    """Those that the stage reads, so that another vocabulary tokenizes nothing again."""
    return KEYS[step]


def modules(step: str, layout: Format) -> list[str]:
    """The step's own module, with the reader or the tokenizers that it loads by name."""
    found = [f"pam.data.translation.{step}"]
    if step == extract.NAME:
        found.append(f"pam.data.readers.{kind_of(layout.read)[0]}")
    else:
        names = {layout.tokenizer_for(language) for language in (layout.source, layout.target)}
        found += [f"pam.data.tokenizers.{name}" for name in sorted(names)]
    return found


def codec(folder: Path) -> codecs.Codec:
    """The codec of a folder; see `Task.codec`."""
    return codecs.load_codec(folder)
