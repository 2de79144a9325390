"""Files of predictions, read and held to the data that they were made for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pam.io import UserError

AGAIN = "delete the file and predict again"


def read_predictions(path: Path | str, required: Sequence[str]) -> list[tuple[str, ...]]:
    """Reads a tab-separated file whose first line names its columns.

    Args:
        required: names of the columns to read, in the order in which they are returned; others
            are allowed and ignored.

    Returns:
        One row per line, in the order of the file.

    Raises:
        UserError: missing or empty file, missing column, a line with too few or too many columns,
            text that is not UTF-8; names file and line.
    """
    lines = _lines(path)
    _, header = next(lines, (1, ""))
    names = header.split("\t")
    for column in required:
        if column not in names:
            raise UserError(
                f"missing column `{column}`",
                file=path,
                line=1,
                hint=f"the first line names the columns: {', '.join(required)}, tab separated",
            )
    places = [names.index(column) for column in required]
    rows = []
    for number, line in lines:
        runs = line.split("\t")
        if len(runs) != len(names):
            raise UserError(
                f"expected {len(names)} columns, found {len(runs)}",
                file=path,
                line=number,
                hint=AGAIN,
            )
        rows.append(tuple(runs[place] for place in places))
    if not rows:
        raise UserError("no predictions", file=path, hint=AGAIN)
    return rows


def check_against_split(
    rows: Sequence[tuple[str, ...]], path: Path | str, split: Path | str
) -> None:
    """Checks that predictions read from `path` belong to a prepared split, row by row.

    Args:
        rows: the columns that the split has, before others.
        split: checked text without a header.

    Raises:
        UserError: another row or another number of rows; names the first line that differs.
    """
    expected = [tuple(line.split("\t")) for _, line in _lines(split)]
    for index, (row, wanted) in enumerate(zip(rows, expected, strict=False)):
        if row[: len(wanted)] != wanted:
            raise UserError(
                f"this row is not line {index + 1} of {split}: {' '.join(wanted)}",
                file=path,
                line=index + 2,
                hint="predict again on this data set",
            )
    if len(rows) != len(expected):
        raise UserError(
            f"{len(rows)} predictions for {len(expected)} rows of {split}",
            file=path,
            line=min(len(rows), len(expected)) + 2,
            hint="predict again on this data set",
        )


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without line ends; blank lines at the end do not count."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    if not data.strip():
        raise UserError("empty file", file=path, hint="delete the file and make it again")
    for number, line in enumerate(data.rstrip(b"\r\n").split(b"\n"), start=1):
        try:
            yield number, line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                "this is not UTF-8 text", file=path, line=number, hint="save it as UTF-8"
            ) from error
