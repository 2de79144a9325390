"""Heat maps of two models' alignments and their difference (Shankar & Sarawagi, Figures 2, 5)."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from pydantic import Field

from pam.evaluation.inputs import read_record
from pam.io import Strict, UserError
from pam.reporting.figures import style

ACROSS = 18
"""Target symbols up to which three panels fit side by side and words stay legible."""

_LABEL = 7.5
_ROW, _LETTER, _BAR = 0.165, 0.066, 0.9
"""Inches of a source symbol's row, of a letter of a target word that is written upwards, and of a scale."""


class Row(Strict, extra="ignore"):
    """One test row under teacher forcing; the alignment is target x source."""

    lemma: str | None = None
    form: str | None = None
    source: list[str]
    target: list[str]
    alignment: list[list[float | int]] = Field(description="what is fed to the next state")


class Alignments(Strict, extra="ignore"):
    """The content of `attention.json`."""

    model: str
    label: str
    rows: list[Row] = Field(min_length=1)


def attention(base: Path, other: Path, rows: int) -> Figure:
    """Three panels per row of the test split: base, other, other minus base.

    Source symbols run down and target symbols to the right. The panels are side by side
    where every target is short enough for that, else below each other.

    Raises:
        UserError: a file that holds no alignments, or files about different rows.
    """
    ours, theirs = _read(base), _read(other)
    _check_same_rows(ours, theirs, other)
    pairs = list(zip(ours.rows, theirs.rows, strict=True))[:rows]
    across = all(len(row.target) <= ACROSS for row, _ in pairs)
    heights = [_height(row) for row, _ in pairs for _ in range(1 if across else 3)]
    figure, grid = plt.subplots(
        len(heights),
        3 if across else 1,
        figsize=(style.WIDTH, _BAR * (1 if across else 3) + sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    panels = grid.reshape(len(pairs), 3)
    for axes, (first, second) in zip(panels, pairs, strict=True):
        _row(list(axes), first, second, across)
    for axes in panels[:1] if across else panels:
        for panel, title in zip(axes, _titles(ours, theirs), strict=True):
            _head(panel, title, above=22 if pairs[0][0].lemma else 6)
    _scales(figure, grid, ours.label, theirs.label, across)
    return figure


def _read(path: Path) -> Alignments:
    content = read_record(Alignments, path)
    for row in content.rows:
        if [len(line) for line in row.alignment] != [len(row.source)] * len(row.target):
            raise UserError(
                f"the alignment of `{' '.join(row.target)}` does not fit its symbols",
                file=path,
                hint="delete the file and make it again",
            )
    return content


def _check_same_rows(base: Alignments, other: Alignments, path: Path) -> None:
    first, second = ([(row.source, row.target) for row in one.rows] for one in (base, other))
    for index in range(max(len(first), len(second))):
        if first[index : index + 1] != second[index : index + 1]:
            raise UserError(
                f"row {index + 1} is not the same as in the other model's file",
                file=path,
                hint="make both files from the same rows of the same data",
            )


def _upright(row: Row) -> bool:
    """Whether target symbols are words, which find room only when they are written upwards."""
    return any(len(_END.get(one, one)) > 2 for one in row.target)


def _height(row: Row) -> float:
    """Inches that a panel of this row needs, its target symbols included."""
    letters = max(len(_END.get(one, one)) for one in row.target) if _upright(row) else 0
    return 0.55 + _ROW * len(row.source) + _LETTER * letters


def _row(axes: list[Axes], base: Row, other: Row, across: bool) -> None:
    first, second = np.array(base.alignment).T, np.array(other.alignment).T
    for panel, matrix, palette, low in (
        (axes[0], first, "Blues", 0),
        (axes[1], second, "Reds", 0),
        (axes[2], second - first, "RdBu_r", -1),
    ):
        panel.imshow(matrix, cmap=palette, vmin=low, vmax=1, aspect="auto", interpolation="none")
        panel.set_xticks(
            range(len(base.target)), [_END.get(one, one) for one in base.target], rotation=90 if _upright(base) else 0
        )
        panel.set_yticks(range(len(base.source)), [_named(one) for one in base.source])
        named = panel is axes[0] or not across
        panel.tick_params(length=0, labelsize=_LABEL, labelleft=named)
        panel.set_xticks(np.arange(len(base.target) - 1) + 0.5, minor=True)
        panel.set_yticks(np.arange(len(base.source) - 1) + 0.5, minor=True)
        panel.tick_params(which="minor", length=0)
        panel.grid(visible=False)
        panel.grid(which="minor", color="#eeeeee", lw=0.5)
        panel.spines[:].set_visible(True)
    if base.lemma and base.form:
        axes[0].set_title(f"{base.lemma} → {base.form}", fontsize=9, weight="normal")


_END = {"</s>": "⏎"}


def _named(symbol: str) -> str:
    """A symbol on the axis with room, which explains the short sign on the other one."""
    return f"{symbol} {_END[symbol]}" if symbol in _END else symbol


def _titles(base: Alignments, other: Alignments) -> tuple[str, str, str]:
    return base.label, other.label, f"{other.label} − {base.label}"


def _head(panel: Axes, title: str, above: float) -> None:
    """A panel's title, so many points above it."""
    panel.annotate(
        title,
        (0.5, 1),
        xytext=(0, above),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        weight="bold",
    )


def _scales(figure: Figure, grid: np.ndarray, base: str, other: str, across: bool) -> None:
    """The three scales below everything, placed as the panels are."""
    between = "\n" if across else "; "
    difference = f"red: {other} has more{between}blue: {base} has more"
    scales = [("Blues", 0, "attention"), ("Reds", 0, "attention"), ("RdBu_r", -1, difference)]
    # Each scale below a column is put between the panels and the scale before it.
    for column, (palette, low, words) in reversed(list(enumerate(scales))):
        bar = figure.colorbar(
            ScalarMappable(Normalize(low, 1), palette),
            ax=grid[:, column if across else 0],
            location="bottom",
            aspect=30,
            pad=0.01,
        )
        bar.set_label(words, fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=_LABEL)
