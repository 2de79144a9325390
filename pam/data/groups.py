"""Groups of rows, such as `seen` and `unseen`, by which scores of a split are told too.

A prepared folder has the name of each row's group in `{dev,test}.groups.txt`, line by line with the
rows, if the data name groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

from pam.data.dataset import text_file
from pam.data.text_files import Line, lines_of
from pam.runtime.errors import UserError

GROUPS = "{split}.groups.txt"


def no_group(line: Line) -> UserError:
    """Make the error for a line that is scored and that has no group."""
    return line.error("no group for this line", "write one, such as `other`")


def write_groups(folder: Path, split: str, groups: Sequence[str], rows: int) -> None:
    """Write the groups of the rows of a split, if all rows have one.

    Otherwise the file is deleted, which an earlier preparation may have left.
    """
    path = folder / GROUPS.format(split=split)
    if not groups or len(groups) < rows:
        path.unlink(missing_ok=True)
        return

    with text_file(path) as file:
        file.writelines(f"{group}\n" for group in groups)


def read_groups(folder: Path, split: str) -> Iterator[str]:
    """Yield the group of each row of a split; without a file of them, empty names without end."""
    path = folder / GROUPS.format(split=split)
    if not path.is_file():
        return repeat("")
    return (line.text for line in lines_of(path))


def rows_by_group(groups: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of the rows of each group, groups in the order of their first rows."""
    indices: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        indices.setdefault(group, []).append(index)
    return indices
