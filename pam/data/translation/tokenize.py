"""Stage `tokenize`: sentences to words, and training pairs that are not worth learning left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from pam.data.tasks import Files
from pam.data.translation import extract
from pam.data.translation.codec import Codec, Settings, SideSettings
from pam.data.translation.extract import splits_of
from pam.data.translation.folder import Writer, reading, told, writing
from pam.data.translation.format import Format
from pam.io import atomic_write

NAME = "tokenize"

REFERENCES = "{split}.target.txt"
"""Sentences of the target language as people write them, line by line with the pairs."""

ENTITIES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}
"""How the Moses tokenizer escapes marks; `&` last, so that nothing is taken back twice."""


def settings_of(layout: Format) -> Settings:
    """The codec without merges."""
    return Settings(
        source=_side(layout, layout.source),
        target=_side(layout, layout.target),
    )


def _side(layout: Format, language: str) -> SideSettings:
    return SideSettings(
        language=language,
        tokenize=layout.tokenizer_for(language),
        lowercase=layout.lowercase,
        merges=None,
    )


@dataclass(frozen=True)
class Words:
    """One pair: words with one space between two, and the target as people write it, on demand."""

    source: str
    target: str
    readable: Callable[[], str]


class Splitter:
    """Sentences of a pair to words, as a data set's format says."""

    def __init__(self, layout: Format) -> None:
        self._tokenized = layout.tokenized
        self._codec = Codec(settings_of(layout))

    def split(self, source: str, target: str) -> Words:
        """Words of both sentences."""
        codec = self._codec
        if self._tokenized:
            words = codec.target.cased(unescape(target))
            readable = partial(codec.readable, words)
            return Words(codec.source.cased(unescape(source)), words, readable)
        return Words(
            " ".join(codec.source.words(source)),
            " ".join(codec.target.words(target)),
            partial(codec.target.cased, target),
        )


def unescape(text: str) -> str:
    """Marks that the Moses tokenizer escaped, as they were."""
    if "&" in text:
        for entity, mark in ENTITIES.items():
            text = text.replace(entity, mark)
    return text


def reason_to_drop(words: Words, layout: Format) -> str | None:
    """Why a training pair is left out, if it is."""
    source, target = len(words.source.split()), len(words.target.split())
    longer, shorter = max(source, target), min(source, target)
    if layout.max_length is not None and longer > layout.max_length:
        return f"more than {layout.max_length} words"
    if layout.max_ratio is not None and longer > layout.max_ratio * shorter:
        return f"one more than {layout.max_ratio:g} times as long as the other"
    return None


@dataclass
class Output:
    """A split that is being written, and what is counted of it."""

    writer: Writer
    references: IO[str] | None
    dropped: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)

    def put(self, words: Words) -> None:
        """Adds a pair."""
        self.writer.write(words.source, words.target)
        self.words["source"] += words.source.count(" ") + 1
        self.words["target"] += words.target.count(" ") + 1
        if self.references is not None:
            self.references.write(f"{words.readable()}\n")

    def told(self, split: str) -> dict[str, Any]:
        """For the record."""
        return {
            **told(split, self.writer.count, self.dropped),
            "source_words": self.words["source"],
            "target_words": self.words["target"],
        }


def tokenize(files: Files, layout: Format, out: Path) -> dict[str, Any]:
    """Writes `tokenize/{train,dev,test}.{source,target}` and `tokenize/{dev,test}.target.txt`.

    Only training pairs are left out for their lengths; what is scored stays whole.

    Returns:
        for each split its pairs, its words, and the pairs left out.
    """
    splitter = Splitter(layout)
    counts = []
    for split in splits_of(out):
        holds_out = split == "train" and layout.dev_every is not None
        names = ["train", "dev"] if holds_out else [split]
        with ExitStack() as stack:
            outputs = [stack.enter_context(_writing(out / NAME, name)) for name in names]
            for pair in reading(out / extract.NAME, split):
                _put(splitter.split(*pair), outputs, layout, train=split == "train")
        counts += [own.told(name) for name, own in zip(names, outputs, strict=True)]
    return {"splits": counts}


def _put(words: Words, outputs: list[Output], layout: Format, *, train: bool) -> None:
    """Adds a pair to the first output, or, if every n-th is held out, to the second."""
    why = None if words.source and words.target else "a sentence without words"
    if train and why is None:
        why = reason_to_drop(words, layout)
        beyond = f"not of the first {layout.train_pairs}"
        kept = sum(output.writer.count for output in outputs) + outputs[0].dropped[beyond] + 1
        if why is None and layout.dev_every is not None and kept % layout.dev_every == 0:
            outputs[1].put(words)
            why = "kept for development"
        if why is None and outputs[0].writer.count == layout.train_pairs:
            why = beyond
    if why is None:
        outputs[0].put(words)
    else:
        outputs[0].dropped[why] += 1


@contextmanager
def _writing(folder: Path, split: str) -> Iterator[Output]:
    with ExitStack() as stack:
        writer = stack.enter_context(writing(folder, split))
        references = None
        if split != "train":
            path = stack.enter_context(atomic_write(folder / REFERENCES.format(split=split)))
            references = stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))
        yield Output(writer, references)
