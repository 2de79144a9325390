"""The links of two files, line by line: memory does not grow with the number of lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pam.alignment.aligner import Aligner, WordAlignment
from pam.data.reading import aligned
from pam.data.text_files import Line, text_lines

BATCHES = 20  # that are read together, so that similar lengths are side by side
REPORT_EVERY_S = 20.0


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
        self.problems += bool(alignment.problem)
        self.blank += not alignment.source and not alignment.problem

    def report(self, seconds: float) -> str:
        """Return the counts as a line for people."""
        rate = self.pairs / max(seconds, 1e-9)
        return (
            f"{self.pairs:,} pairs, {self.links:,} links, {self.blank:,} blank,"
            f" {self.problems:,} that cannot be aligned, {seconds:.1f} s, {rate:,.0f} pairs/s"
        )


def align_files(aligner: Aligner, source: Path, target: Path) -> Iterator[WordAlignment]:
    """Yield the links of each pair of lines of two files, which may be compressed.

    What is wrong with a pair is told on standard error, with its line.

    Raises:
        UserError: a file is faulty, or has more lines than the other: before any work, unless a
            file can be read only once.
    """
    if source.is_file() and target.is_file():
        for _ in aligned(source, target, text_lines):
            pass

    counts = Counts()
    start = time.monotonic()
    next_report = start + REPORT_EVERY_S
    pairs = aligned(source, target, text_lines)
    while block := list(islice(pairs, BATCHES * aligner.settings.batch_size)):
        texts = [(source_line.text, target_line.text) for source_line, target_line in block]
        for (source_line, _), alignment in zip(block, aligner(texts), strict=True):
            _tell(source_line, alignment)
            counts.add(alignment)
            yield alignment

        now = time.monotonic()
        if now >= next_report:
            sys.stderr.write(f"{counts.report(now - start)}\n")
            next_report = now + REPORT_EVERY_S

    sys.stderr.write(f"{counts.report(time.monotonic() - start)}\n")


def _tell(line: Line, alignment: WordAlignment) -> None:
    """Write on standard error what is wrong with a pair."""
    if alignment.problem:
        sys.stderr.write(f"{line.file}:{line.number}: {alignment.problem}\n")
