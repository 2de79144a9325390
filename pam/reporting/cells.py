"""Hold what stands in the cells of a table as typed values, each with its texts for people.

A cell answers one question: `Name` which one, `Value` how much or what, `Estimate` how much and how
surely, `PaperFigure` what a paper reports, `Judgement` what follows, and `Missing` why there is
nothing. A row is a mapping from names to such cells. Markdown, LaTeX, CSV, HTML and the page of
results are formats of rows; none reads what another one has written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pam.evaluation.bootstrap import LEVEL

FINEST = 8  # the most digits after the point
MINUS = "\N{MINUS SIGN}"
OTHER_DATA_MARK = "*"
UNDECIDED = "undecided"
SIDES = ("better", "worse", "agrees", "contradicts")  # words that need a gain beyond chance


# Numbers as people read them.


def signed(value: float | None, digits: int) -> str:
    """Return a difference with its sign, such as `+1.37` or `−0.40`.

    A difference that rounds to nothing has no sign, an unknown one no text.
    """
    if value is None:
        return ""

    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text[1:]
    return text.replace("-", MINUS)


def true_minus(text: str) -> str:
    """Write a minus sign in place of each hyphen that stands before a number."""
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def interval(low: float | None, high: float | None, digits: int, sign: bool = False) -> str:
    """Return an interval such as `[84.10, 86.02]`, or with signs.

    Both ends are written in full, as in `[0, 0]`, where they are the same. Where they are unknown,
    there is no text.
    """
    if low is None or high is None:
        return ""
    # No number of digits tells such ends apart.
    if round(low, FINEST) == round(high, FINEST):
        return true_minus(f"[{low:g}, {high:g}]")
    if sign:
        return f"[{signed(low, digits)}, {signed(high, digits)}]"
    return true_minus(f"[{low:.{digits}f}, {high:.{digits}f}]")


def probability(value: float) -> str:
    """Return a probability such as `0.013`, and `< 0.001` below that."""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}"


# Cells.


@dataclass(frozen=True)
class Name:
    """A task, a model or a metric: its key in the configuration, and its label for people."""

    key: str
    label: str

    @property
    def text(self) -> str:
        """The label."""
        return self.label


@dataclass(frozen=True)
class Value:
    """A count, a time, a rate or a text."""

    value: float | str | None
    form: str = ""  # how a number is written, as `format` has it, such as `,.0f`

    @property
    def text(self) -> str:
        """The number as it is to be written, or the text as it is; empty if unknown."""
        if self.value is None:
            return ""
        if isinstance(self.value, str):
            return self.value
        return format(self.value, self.form)

    @property
    def text_unless_zero(self) -> str:
        """The same, but nothing for zero."""
        return self.text if self.value else ""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or the gain of one mean over another, with its 95 % interval."""

    value: float | None
    digits: int  # after the point
    low: float | None = None
    high: float | None = None
    sd: float | None = None  # over seeds
    seeds: int | None = None
    is_gain: bool = False  # a gain is written with its sign
    p: float | None = None
    p_holm: float | None = None  # corrected for all gains of the task by the metric

    @property
    def may_be_chance(self) -> bool:
        """Whether a gain is not beyond chance after Holm's correction."""
        return self.p_holm is not None and self.p_holm > 1 - LEVEL

    @property
    def mean_text(self) -> str:
        """The value alone."""
        if self.value is None:
            return ""
        if self.is_gain:
            return signed(self.value, self.digits)
        return f"{self.value:.{self.digits}f}"

    @property
    def text(self) -> str:
        """The value, and the standard deviation over seeds if there is one."""
        if self.sd is None:
            return self.mean_text
        return f"{self.mean_text} ± {self.sd:.{self.digits}f}"

    @property
    def interval(self) -> str:
        """Both ends of the interval."""
        return interval(self.low, self.high, self.digits, sign=self.is_gain)

    @property
    def text_with_interval(self) -> str:
        """The value and the interval, as far as they are known."""
        return f"{self.text} {self.interval}".strip()

    @property
    def p_text(self) -> str:
        """The probability of such a gain by chance."""
        return "" if self.p is None else probability(self.p)

    @property
    def holm_text(self) -> str:
        """The same, corrected."""
        return "" if self.p_holm is None else probability(self.p_holm)


@dataclass(frozen=True)
class PaperFigure:
    """A value or a gain that a paper reports."""

    value: float
    digits: int
    same_data: bool  # whether it was measured on the data of ours
    is_gain: bool = False

    @property
    def text(self) -> str:
        """The figure, marked where it is of other data."""
        text = f"{self.value:.{self.digits}f}"
        if self.is_gain:
            text = signed(self.value, self.digits)
        return text if self.same_data else text + OTHER_DATA_MARK


@dataclass(frozen=True)
class Judgement:
    """What follows from a gain or a level, such as `agrees`, `better` or `not judged, 1 seed`."""

    word: str
    detail: str = ""

    @property
    def text(self) -> str:
        """Both words; one that is said twice is said once."""
        return ", ".join(dict.fromkeys(filter(None, [self.word, self.detail])))

    def html_class(self, gain: Estimate | None = None) -> str:
        """Return the class by which a style colors it: none of a side for what may be chance.

        Args:
            gain: on which it is.
        """
        if self.word in SIDES and gain is not None and gain.may_be_chance:
            return UNDECIDED
        return self.word.replace(" ", "-")


@dataclass(frozen=True)
class Missing:
    """Nothing, with the reason."""

    reason: str

    @property
    def text(self) -> str:
        """An empty text."""
        return ""


Cell = Name | Value | Estimate | PaperFigure | Judgement | Missing
KINDS: dict[str, type[Cell]] = {
    kind.__name__: kind for kind in (Name, Value, Estimate, PaperFigure, Judgement, Missing)
}


def to_record(cell: Cell) -> dict[str, Any]:
    """Return a cell as a record for JSON, with its kind."""
    return {"kind": type(cell).__name__, **asdict(cell)}


def from_record(record: Mapping[str, Any]) -> Cell:
    """Return the cell of a record."""
    values = {name: value for name, value in record.items() if name != "kind"}
    return KINDS[record["kind"]](**values)
