"""The links of two files, line by line: memory does not grow with the number of lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pam.alignment.aligner import WordAlignment
from pam.data.reading import aligned
from pam.data.text_files import given_lines

REPORT_EVERY_S = 20.0


class StreamAligner(Protocol):
    """What links the words of pairs: models, or a program."""

    @property
    def reading(self) -> str:
        """The name of the way in which links are read."""

    def stream(self, pairs: Iterable[tuple[str, str]]) -> Iterator[WordAlignment]:
        """Yield the links of each pair of texts."""


@dataclass
class Counts:
    """Pairs that were aligned so far."""

    pairs: int = 0
    blank: int = 0
    links: int = 0
    problems: int = 0

    def add(self, alignment: WordAlignment) -> None:
        """Count a pair."""
        self.pairs += 1
        self.links += len(alignment.links)
        self.blank += alignment.is_blank
        self.problems += bool(alignment.problem) and not alignment.is_blank

    def report(self, seconds: float) -> str:
        """Return the counts as a line for people."""
        rate = self.pairs / max(seconds, 1e-9)
        return (
            f"{self.pairs:,} pairs, {self.links:,} links, {self.blank:,} blank,"
            f" {self.problems:,} that cannot be aligned, {seconds:.1f} s, {rate:,.0f} pairs/s"
        )


def text_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files in pairs, which may be compressed.

    Raises:
        UserError: a file is faulty, or has more lines than the other: before the first pair, unless
            a file can be read only once.
    """
    if source.is_file() and target.is_file():
        for _ in aligned(source, target, given_lines):
            pass
    for source_line, target_line in aligned(source, target, given_lines):
        yield source_line.text, target_line.text


def told(
    alignments: Iterable[WordAlignment], file: Path, counts: Counts
) -> Iterator[WordAlignment]:
    """Yield alignments, count them, and tell of them on standard error.

    Args:
        file: the file of sources, by whose lines pairs are called that have a problem.
    """
    start = time.monotonic()
    next_report = start + REPORT_EVERY_S
    for number, alignment in enumerate(alignments, 1):
        counts.add(alignment)
        if alignment.problem:
            sys.stderr.write(f"{file}:{number}: {alignment.problem}\n")
        yield alignment

        now = time.monotonic()
        if now >= next_report:
            sys.stderr.write(f"{counts.report(now - start)}\n")
            next_report = now + REPORT_EVERY_S

    sys.stderr.write(f"{counts.report(time.monotonic() - start)}\n")
