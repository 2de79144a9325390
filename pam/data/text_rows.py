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
    """The columns of each row of a file, which are read when they are asked for: a large corpus
    stays on disk.
    """

    file: int  # its descriptor, which is closed with the object
    ends: NDArray[np.int64]  # rows + 1 places from 0: where each line ends, with its line feed

    @classmethod
    def of(cls, path: Path) -> TextRows:
        """The rows of a file of lines that all end in a line feed."""
        file, places, found = os.open(path, os.O_RDONLY), 0, [np.zeros(1, np.int64)]
        while piece := os.read(file, PIECE):
            found.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + (places + 1))
            places += len(piece)
        rows = cls(file, np.concatenate(found))
        weakref.finalize(rows, os.close, file)
        return rows

    @overload
    def __getitem__(self, row: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, row: slice) -> list[tuple[str, ...]]: ...

    def __getitem__(self, row: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(row, slice):
            return [self[one] for one in range(len(self))[row]]
        number = range(len(self))[row]  # counts from the end, and ends
        first, last = self.ends[number : number + 2].tolist()
        return tuple(os.pread(self.file, last - first, first)[:-1].decode("utf-8").split("\t"))

    def __len__(self) -> int:
        return len(self.ends) - 1
