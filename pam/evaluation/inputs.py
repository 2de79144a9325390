"""Reading and checking of predictions and prepared data, and what is counted of them.

Each kind of task has a function from `EvalInputs` to `Counts`, `counts` of its `TaskKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pam.data.dataset import SUMMARY, Prepared
from pam.data.groups import GROUPS, rows_by_group
from pam.data.text_files import read_lines
from pam.evaluation.metrics import Units, plain_name
from pam.runtime.errors import UserError

PREDICT_AGAIN = "delete the file and predict again"
Row = TypeVar("Row", bound=NamedTuple)


@dataclass(frozen=True)
class EvalInputs:
    """The files to be scored; a UserError says that one is needed and missing."""

    predictions: Sequence[Path] = ()  # the main beam's first
    beams: Sequence[int | None] = ()  # of each; None where it is not known
    analysis: Path | None = None  # `analysis.json` of teacher forcing, where there is one
    # the prepared folder that holds `split`; None: nothing is checked against it
    data: Path | None = None
    split: str = "test"

    @property
    def by_beam(self) -> list[tuple[Path, int | None]]:
        """The files of predictions with their beams; there is at least one."""
        if not self.predictions:
            raise UserError("no predictions to score", hint="name files with --predictions")
        return list(zip(self.predictions, self.beams, strict=True))

    @property
    def prepared(self) -> Prepared:
        """The prepared data."""
        if self.data is None:
            raise UserError(
                "these scores need the prepared data", hint="name its folder with --data"
            )
        return Prepared(self.data)


@dataclass(frozen=True)
class GroupCounts:
    """The counts of a group of rows, and which metrics are defined for them."""

    units: Units
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """The counts of a kind of task, and which metrics they serve."""

    units: Units
    metrics: tuple[str, ...]  # names of metrics whose counts are there
    over: str  # the units in words, such as `sentences`
    # what else scores hold: signatures, counts of oddities
    details: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, GroupCounts] = field(default_factory=dict)  # where the data name groups


def read_row_groups(inputs: EvalInputs) -> dict[str, list[int]]:
    """Return the indices of the rows of each group of the split; nothing if it has no groups.

    A UserError says that they are not what was prepared.
    """
    # Forms can be scored without a summary of their data.
    if inputs.data is None or not (inputs.data / SUMMARY).is_file():
        return {}

    name = GROUPS.format(split=inputs.split)
    if name not in inputs.prepared.summary["outputs_sha256"]:
        return {}
    return rows_by_group(read_lines(inputs.prepared.file(name)))


def groups_of_rows(
    inputs: EvalInputs,
    units: Units,
    metrics: Sequence[str],
    reasons_of: Callable[[Sequence[int]], Mapping[str, str]],
) -> dict[str, GroupCounts]:
    """Count the groups of a split whose units are its rows; nothing if it has no groups.

    Args:
        metrics: names of metrics that are defined for the whole split.
        reasons_of: from the indices of rows to the reasons why metrics are not defined for them, by
            name without a beam.
    """
    groups = {}
    for group, indices in read_row_groups(inputs).items():
        undefined = reasons_of(indices)
        defined = [name for name in metrics if plain_name(name) not in undefined]
        groups[group] = GroupCounts(units.only(indices), tuple(defined))
    return groups


def read_predictions(path: Path | str, required: Sequence[str]) -> list[tuple[str, ...]]:
    """Read the `required` columns, in that order, of a tab-separated file.

    The first line of the file names its columns.

    Raises:
        UserError: it names file and line of a missing or empty file, a missing column, a line with
            too few or too many columns, or text that is not UTF-8.
    """
    lines = _lines(path)
    _, heading = next(lines, (1, ""))
    names = heading.split("\t")
    for column in required:
        if column not in names:
            hint = f"the first line names the columns: {', '.join(required)}, tab separated"
            raise UserError(f"missing column `{column}`", file=path, line=1, hint=hint)

    indices = [names.index(column) for column in required]
    rows = []
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(names):
            problem = f"expected {len(names)} columns, found {len(fields)}"
            raise UserError(problem, file=path, line=number, hint=PREDICT_AGAIN)
        rows.append(tuple(fields[index] for index in indices))

    if not rows:
        raise UserError("no predictions", file=path, hint=PREDICT_AGAIN)

    return rows


def columns_of(path: Path | str) -> list[str]:
    """Return the column names in the first line of predictions; errors as `read_predictions`."""
    _, heading = next(_lines(path))
    return heading.split("\t")


def read_checked(path: Path, inputs: EvalInputs, kind: type[Row]) -> list[Row]:
    """Read predictions of the split; an output may be empty.

    A UserError says that they are faulty, or of other rows.
    """
    rows = [kind._make(row) for row in read_predictions(path, kind._fields)]

    check_against_split(rows, path, inputs.prepared.folder / f"{inputs.split}.tsv")
    return rows


def check_against_split(
    rows: Sequence[tuple[str, ...]], path: Path | str, split: Path | str
) -> None:
    """Check that predictions begin with the columns of a prepared split.

    A UserError names the first line that differs, or is missing.

    Args:
        rows: the predictions.
        path: the file from which they were read, for messages.
        split: the prepared file, which has no header.
    """
    expected = [tuple(line.split("\t")) for _, line in _lines(split)]
    hint = "predict again on this data set"
    # Before the numbers of rows, since the first row that differs tells more.
    for index, (row, reference) in enumerate(zip(rows, expected, strict=False)):
        if row[: len(reference)] != reference:
            # The reference may be a whole article, so its beginning has to do.
            problem = f"this row is not line {index + 1} of {split}: {' '.join(reference)[:80]}"
            raise UserError(problem, file=path, line=index + 2, hint=hint)

    if len(rows) != len(expected):
        problem = f"{len(rows)} predictions for {len(expected)} rows of {split}"
        raise UserError(problem, file=path, line=min(len(rows), len(expected)) + 2, hint=hint)


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, with their numbers; blank lines at the end do not count."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    if not data.strip():
        raise UserError("empty file", file=path, hint="delete the file and make it again")

    # Lines end with LF or CR LF alone. All other characters, such as U+2028, belong to the text.
    for number, line in enumerate(data.rstrip(b"\r\n").split(b"\n"), start=1):
        try:
            yield number, line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                "this is not UTF-8 text", file=path, line=number, hint="save it as UTF-8"
            ) from error
