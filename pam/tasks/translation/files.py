"""Pairs of texts on disk, from stage to stage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pam.data.codecs import SIDES
from pam.data.dataset import text_file
from pam.data.groups import GROUPS, write_groups
from pam.data.text_files import lines_of
from pam.runtime.errors import UserError

# Between two references of one text from stage to stage. Cleaned text has no such character.
REFERENCE = "\x1e"


# sentences of the target language as people write them, line by line with the pairs
REFERENCES = "{split}.target.txt"


# further references where some pairs have several, line by line too
OTHER_REFERENCES = "{split}.references.jsonl"


# files that only some data have
OPTIONAL = (OTHER_REFERENCES, GROUPS)


SCORED = ("dev", "test")  # splits whose outputs are compared with references


@dataclass
class PairWriter:
    """Writes pairs of lines, none empty, into two files, and counts them and their words."""

    files: tuple[IO[str], IO[str]]
    references: IO[str] | None  # where targets are written as people write them
    count: int = 0
    words: Counter[str] = field(default_factory=Counter)  # by side
    dropped: Counter[str] = field(default_factory=Counter)  # pairs left out, by the reason in words
    groups: list[str] = field(default_factory=list)  # of the pairs that have one
    # further references of each pair, if any has some
    other_references: list[list[dict[str, str]]] = field(default_factory=list)

    def write(
        self,
        source: str,
        target: str,
        *,
        readable: Callable[[], str] = str,
        other_references: Sequence[dict[str, str]] = (),
        group: str = "",
    ) -> None:
        """Write a pair.

        `readable` is called for the reference, if references are written; `other_references` are
        further ones, each as `text` and in `words`. `group` is the name of the pair's group.
        """
        for side, file, text in zip(SIDES, self.files, (source, target), strict=True):
            if not text or "\n" in text:
                raise ValueError(f"not a line of text: {text!r}")
            file.write(f"{text}\n")
            self.words[side] += text.count(" ") + 1

        if self.references is not None:
            self.references.write(f"{readable()}\n")
            if other_references or self.other_references:
                # Pairs before the first with several references have no further ones.
                missing = self.count - len(self.other_references)
                self.other_references += [[] for _ in range(missing)]
                self.other_references.append(list(other_references))

        if group:
            self.groups.append(group)
        self.count += 1

    def stats(self, split: str, unit: str = "") -> dict[str, Any]:
        """Count pairs, those left out, and the words of each side if their `unit` has a name."""
        counts = {
            "split": split,
            "pairs_in": self.count + self.dropped.total(),
            "pairs_out": self.count,
            "dropped": {reason: count for reason, count in sorted(self.dropped.items()) if count},
        }
        if unit:
            counts |= {f"{side}_{unit}": count for side, count in self.words.items()}
        return counts


@contextmanager
def pair_writer(folder: Path, split: str, *, references: bool = False) -> Iterator[PairWriter]:
    """Write `<folder>/<split>.{source,target}`, whole or as they were.

    A UserError says that nothing was written.
    """
    source_file, target_file = (text_file(folder / f"{split}.{side}") for side in SIDES)
    reference_file: AbstractContextManager[IO[str] | None] = nullcontext()
    if references:
        reference_file = text_file(folder / REFERENCES.format(split=split))

    with source_file as source, target_file as target, reference_file as reference:
        writer = PairWriter((source, target), reference)
        yield writer
        if writer.count == 0:
            raise UserError(f"no sentence pairs are left for {split}", hint="give more data")

        # An earlier preparation may have left such a file.
        other_references = folder / OTHER_REFERENCES.format(split=split)
        if writer.other_references:
            with text_file(other_references) as file:
                for texts in writer.other_references:
                    file.write(f"{json.dumps(texts, ensure_ascii=False)}\n")
        else:
            other_references.unlink(missing_ok=True)
        write_groups(folder, split, writer.groups, rows=writer.count)


def read_pairs(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a split that `pair_writer` wrote."""
    sources, targets = (lines_of(folder / f"{split}.{side}") for side in SIDES)
    for source, target in zip(sources, targets, strict=True):
        yield source.text, target.text
