"""Heat maps of two models' alignments and of their difference (Shankar & Sarawagi, Figure 2)."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from pydantic import Field

from pam.config import Strict
from pam.errors import UserError
from pam.reporting import style
from pam.scoring.record import read_made

HELP = "heat maps of two models' alignments and their difference on some test words"


class Word(Strict, extra="ignore"):
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
    rows: list[Word] = Field(min_length=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", type=Path, required=True, help="attention.json of Soft")
    parser.add_argument("--other", type=Path, required=True, help="attention.json of Postr-Joint")
    parser.add_argument("--words", type=int, default=4, help="words to draw (%(default)s)")


def draw(args: argparse.Namespace) -> Figure:
    """A row of three panels per word: base, other, other minus base.

    Source symbols run down and target symbols to the right, so that features can be read.

    Raises:
        UserError: a file that holds no alignments, or files about different words.
    """
    base, other = _read(args.base), _read(args.other)
    _check_same_words(base, other, args.other)
    pairs = list(zip(base.rows, other.rows, strict=True))[: args.words]
    heights = [0.55 + 0.165 * len(word.source) for word, _ in pairs]
    figure, grid = plt.subplots(
        len(pairs),
        3,
        figsize=(style.WIDTH, 0.9 + sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (ours, theirs) in zip(grid, pairs, strict=True):
        _word(list(axes), ours, theirs)
    for axes, title in zip(grid[0], _titles(base, other), strict=True):
        axes.annotate(
            title,
            (0.5, 1),
            xytext=(0, 22),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            weight="bold",
        )
    _scales(figure, grid, base.label, other.label)
    return figure


def _read(path: Path) -> Alignments:
    content = read_made(Alignments, path)
    for word in content.rows:
        if [len(row) for row in word.alignment] != [len(word.source)] * len(word.target):
            raise UserError(
                f"the alignment of `{''.join(word.target)}` does not fit its symbols",
                file=path,
                remedy="delete the file and make it again",
            )
    return content


def _check_same_words(base: Alignments, other: Alignments, path: Path) -> None:
    first, second = ([(row.source, row.target) for row in one.rows] for one in (base, other))
    for index in range(max(len(first), len(second))):
        if first[index : index + 1] != second[index : index + 1]:
            raise UserError(
                f"word {index + 1} is not the same as in the other model's file",
                file=path,
                remedy="make both files from the same rows of the same data",
            )


def _word(axes: list[Axes], base: Word, other: Word) -> None:
    first, second = np.array(base.alignment).T, np.array(other.alignment).T
    for panel, matrix, palette, low in (
        (axes[0], first, "Blues", 0),
        (axes[1], second, "Reds", 0),
        (axes[2], second - first, "RdBu_r", -1),
    ):
        panel.imshow(matrix, cmap=palette, vmin=low, vmax=1, aspect="auto", interpolation="none")
        panel.set_xticks(range(len(base.target)), [_END.get(one, one) for one in base.target])
        panel.set_yticks(range(len(base.source)), [_named(one) for one in base.source])
        panel.tick_params(length=0, labelsize=7.5, labelleft=panel is axes[0])
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
    """A symbol on the axis with room, which tells what the short sign of the other one means."""
    return f"{symbol} {_END[symbol]}" if symbol in _END else symbol


def _titles(base: Alignments, other: Alignments) -> tuple[str, str, str]:
    return base.label, other.label, f"{other.label} − {base.label}"


def _scales(figure: Figure, grid: np.ndarray, base: str, other: str) -> None:
    for column, (palette, low, words) in enumerate(
        (
            ("Blues", 0, "attention"),
            ("Reds", 0, "attention"),
            ("RdBu_r", -1, f"red: {other} has more\nblue: {base} has more"),
        )
    ):
        bar = figure.colorbar(
            ScalarMappable(Normalize(low, 1), palette),
            ax=grid[:, column],
            location="bottom",
            aspect=30,
            pad=0.01,
        )
        bar.set_label(words, fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7.5)
