"""The text of prepared data, which stays on disk until a row of it is asked for."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

PIECE = 2**20  # bytes of a file that are looked through at once


@dataclass(frozen=True)
class TextRows(Sequence[tuple[str, ...]]):
    """The columns of each row of a file, read when they are asked for.

    So a large corpus stays on disk.
    """

    file: int  # its descriptor, which is closed with the object
    ends: NDArray[np.int64]  # rows + 1 offsets from 0: where each line ends, with its line feed

    @classmethod
    def of(cls, path: Path) -> TextRows:
        """Index the rows of a file of lines that all end in a line feed."""
        file = os.open(path, os.O_RDONLY)
        offset = 0
        ends = [np.zeros(1, np.int64)]
        while piece := os.read(file, PIECE):
            line_feeds = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
            ends.append(line_feeds + (offset + 1))
            offset += len(piece)

        rows = cls(file, np.concatenate(ends))
        weakref.finalize(rows, os.close, file)
        return rows

    @overload
    def __getitem__(self, row: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, row: slice) -> list[tuple[str, ...]]: ...

    def __getitem__(self, row: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(row, slice):
            return [self[number] for number in range(len(self))[row]]

        # A range counts from the end too, and raises an IndexError beyond it.
        number = range(len(self))[row]
        first, last = self.ends[number : number + 2].tolist()
        line = os.pread(self.file, last - first, first)[:-1]
        return tuple(line.decode("utf-8").split("\t"))

    def __len__(self) -> int:
        return len(self.ends) - 1
