"""Sentence pairs of a stage, as two files of a line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, get_args

from pam.data.tasks import Side
from pam.data.text import lines_of
from pam.io import UserError, atomic_write

SIDES: tuple[Side, ...] = get_args(Side)


def path_of(folder: Path, split: str, side: Side) -> Path:
    """Where one side of a split stands."""
    return folder / f"{split}.{side}"


def told(split: str, written: int, dropped: Counter[str]) -> dict[str, Any]:
    """What a stage's record says of a split.

    Args:
        written: pairs that the stage wrote.
        dropped: how many others it left out, by the reason in words.
    """
    return {
        "split": split,
        "pairs_in": written + dropped.total(),
        "pairs_out": written,
        "dropped": {reason: count for reason, count in sorted(dropped.items()) if count},
    }


class Writer:
    """Writes pairs of lines, none of them empty."""

    def __init__(self, files: tuple[IO[str], IO[str]]) -> None:
        self._files = files
        self.count = 0

    def write(self, source: str, target: str) -> None:
        """Adds a pair."""
        for file, text in zip(self._files, (source, target), strict=True):
            if not text or "\n" in text:
                raise ValueError(f"not a line of text: {text!r}")
            file.write(f"{text}\n")
        self.count += 1


@contextmanager
def writing(folder: Path, split: str) -> Iterator[Writer]:
    """A writer of the pairs of a split; the files are whole, or as they were.

    Raises:
        UserError: nothing was written, or the disk is full.
    """
    with ExitStack() as stack:
        paths = [stack.enter_context(atomic_write(path_of(folder, split, side))) for side in SIDES]
        with ExitStack() as opened:
            source, target = (
                opened.enter_context(open(path, "w", encoding="utf-8", newline="\n"))
                for path in paths
            )
            writer = Writer((source, target))
            yield writer
        if writer.count == 0:
            raise UserError(f"no sentence pairs are left for {split}", hint="give more data")


def reading(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a split that `writing` wrote."""
    source, target = (lines_of(path_of(folder, split, side)) for side in SIDES)
    for line, other in zip(source, target, strict=True):
        yield line.text, other.text
