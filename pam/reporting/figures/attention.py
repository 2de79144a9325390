"""What models attend to: heat maps of alignments, the entropy of attention and its coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray
from pydantic import Field

from pam.evaluation.attention import COVERED, Analysis
from pam.evaluation.inputs import load
from pam.io import Strict, UserError, parse
from pam.reporting import style
from pam.reporting.runs import label_of, labels, load_analyses, load_experiment

# Heat maps of two models' alignments and their difference (Shankar & Sarawagi, Figures 2, 5).

ACROSS = 18  # target symbols up to which three panels fit side by side and words stay legible
Floats = NDArray[np.float64]
_LABEL, _SIGNS = 7.5, {"</s>": "⏎"}
# inches of a source symbol's row, a letter written upwards, and a scale
_ROW, _LETTER, _BAR = (0.165, 0.066, 0.9)


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


def attention(base: Path, other: Path, rows: int) -> style.Drawing:
    """Three panels per row of the test split: base, other, other minus base.

    Source symbols run down and target symbols to the right. The panels are side by side
    where every target is short enough for that, else below each other.

    Raises:
        UserError: a file that holds no alignments, or files about different rows.
    """
    ours, theirs = _read(base), _read(other)
    for number, (first, second) in enumerate(zip_longest(ours.rows, theirs.rows), start=1):
        if (
            not first
            or not second
            or (first.source, first.target) != (second.source, second.target)
        ):
            words = f"row {number} is not the same as in the other model's file"
            raise UserError(
                words, file=other, hint="make both files from the same rows of the same data"
            )
    pairs = list(zip(ours.rows, theirs.rows, strict=True))[:rows]
    across = all(len(row.target) <= ACROSS for row, _ in pairs)
    rows_of, columns = (1, 3) if across else (3, 1)
    heights = [
        0.55 + _ROW * len(row.source) + _LETTER * _upright(row)
        for row, _ in pairs
        for _ in range(rows_of)
    ]
    figure, axes = style.panels(
        len(heights), columns, _BAR * rows_of + sum(heights), height_ratios=heights
    )
    grid = np.array(axes).reshape(-1, columns)
    titles = ours.label, theirs.label, f"{theirs.label} − {ours.label}"
    for number, (own, (first, second)) in enumerate(
        zip(grid.reshape(len(pairs), 3), pairs, strict=True)
    ):
        _draw_row(list(own), first, second, across)
        if number == 0 or not across:
            above = (0, 22 if pairs[0][0].lemma else 6)
            for panel, title in zip(own, titles, strict=True):
                panel.annotate(
                    title,
                    (0.5, 1),
                    above,
                    "axes fraction",
                    "offset points",
                    ha="center",
                    weight="bold",
                )
    between = "\n" if across else "; "
    difference = f"red: {theirs.label} has more{between}blue: {ours.label} has more"
    scales = [("Blues", 0, "attention"), ("Reds", 0, "attention"), ("RdBu_r", -1, difference)]
    # Each scale below a column is put between the panels and the scale before it.
    for column, (palette, low, words) in reversed(list(enumerate(scales))):
        above_it = grid[:, column if across else 0]
        mapped = ScalarMappable(Normalize(low, 1), palette)
        bar = figure.colorbar(mapped, ax=above_it, location="bottom", aspect=30, pad=0.01)
        bar.set_label(words, fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=_LABEL)
    return style.Drawing(figure, _weights(pairs, (ours, theirs)))


def _weights(rows: Sequence[tuple[Row, ...]], models: Sequence[Alignments]) -> pd.DataFrame:
    """A row for each source symbol of each target symbol of each row and model."""
    found: list[tuple[Any, ...]] = []
    for number, of_models in enumerate(rows, start=1):
        for model, row in zip(models, of_models, strict=True):
            for target, weights in enumerate(row.alignment):
                for source, weight in enumerate(weights):
                    symbols = target, row.target[target], source, row.source[source]
                    found.append(
                        (number, model.model, model.label, *symbols, round(float(weight), 4))
                    )
    columns = [
        "row",
        "model",
        "label",
        "target_place",
        "target",
        "source_place",
        "source",
        "weight",
    ]
    return pd.DataFrame(found, columns=columns, dtype=object)


def _read(path: Path) -> Alignments:
    content = load(Alignments, path)
    for row in content.rows:
        if [len(line) for line in row.alignment] != [len(row.source)] * len(row.target):
            words = f"the alignment of `{' '.join(row.target)}` does not fit its symbols"
            raise UserError(words, file=path, hint="delete the file and make it again")
    return content


def _upright(row: Row) -> int:
    """Letters of the longest target symbol where some are words, which find room only when they are
    written upwards.
    """
    longest = max(len(_SIGNS.get(one, one)) for one in row.target)
    return longest if longest > 2 else 0


def _draw_row(panels: Sequence[Axes], base: Row, other: Row, across: bool) -> None:
    first, second = np.array(base.alignment).T, np.array(other.alignment).T
    looks = (first, "Blues", 0), (second, "Reds", 0), (second - first, "RdBu_r", -1)
    for panel, (matrix, palette, low) in zip(panels, looks, strict=True):
        _draw_map(panel, base, matrix, palette, low)
        panel.tick_params(labelleft=panel is panels[0] or not across)
    if base.lemma and base.form:
        panels[0].set_title(f"{base.lemma} → {base.form}", fontsize=9, weight="normal")


def _draw_map(panel: Axes, row: Row, matrix: Floats, palette: str, low: float) -> None:
    """One heat map (source x target) with the symbols of its row."""
    panel.imshow(matrix, cmap=palette, vmin=low, vmax=1, aspect="auto", interpolation="none")
    symbols = [_SIGNS.get(one, one) for one in row.target]
    panel.set_xticks(range(len(symbols)), symbols, rotation=90 if _upright(row) else 0)
    # This axis has room to explain the short sign on the other one.
    named = [f"{one} {_SIGNS[one]}" if one in _SIGNS else one for one in row.source]
    panel.set_yticks(range(len(row.source)), named)
    panel.tick_params(length=0, labelsize=_LABEL)
    panel.set_xticks(np.arange(len(row.target) - 1) + 0.5, minor=True)
    panel.set_yticks(np.arange(len(row.source) - 1) + 0.5, minor=True)
    panel.tick_params(which="minor", length=0)
    panel.grid(visible=False)
    panel.grid(which="minor", color="#eeeeee", lw=0.5)
    panel.spines[:].set_visible(True)


def of_outputs(content: dict[str, Any]) -> style.Drawing:
    """Alignments of one model's own outputs, a panel each; `content` is like that of
    `attention.json`.
    """
    shown = parse(Alignments, content, "alignments")
    heights = [0.45 + _ROW * len(row.source) + _LETTER * _upright(row) for row in shown.rows]
    figure, panels = style.panels(len(heights), 1, 0.4 + sum(heights), height_ratios=heights)
    for panel, row in zip(panels, shown.rows, strict=True):
        _draw_map(panel, row, np.array(row.alignment).T, "Blues", 0)
    panels[0].set_title(f"{shown.label}: attention, source down, output to the right", fontsize=9)
    return style.Drawing(figure, _weights([(row,) for row in shown.rows], [shown]))


# How uncertain attention is, and how much of a sentence it covers, under teacher forcing.

FEWEST_SYMBOLS = 50  # below that a bin's accuracy is noise and is left out


def entropy_accuracy(experiment: Path, analyses: Sequence[Path]) -> style.Drawing:
    """Accuracy as attention grows uncertain, and how often it is (Shankar & Sarawagi, Figure 3).

    Two panels per task: accuracy above, the histogram of entropies below; seeds together.
    """

    def bins(own: list[Analysis]) -> pd.DataFrame:
        counts = {
            name: np.sum([getattr(one.entropy, name) for one in own], axis=0)
            for name in ("count", "correct")
        }
        return _bins(own[0].entropy.edges, symbols=counts["count"], right=counts["correct"])

    return _analyzed(
        experiment, analyses, _entropy_panels, bins, ("right symbols (%)", "share of symbols (%)")
    )


def coverage(experiment: Path, analyses: Sequence[Path]) -> style.Drawing:
    """How much of a source sentence attention covers (Shankar & Sarawagi, Figure 4).

    Two panels per task: distribution over sentences above, over source words below.
    """

    def bins(own: list[Analysis]) -> pd.DataFrame:
        names = ("sentences", "words")
        counts = {
            name: np.sum([getattr(one.coverage, name) for one in own], axis=0) for name in names
        }
        return _bins(own[0].coverage.edges, **counts)

    return _analyzed(
        experiment,
        analyses,
        _coverage_panels,
        bins,
        ("sentences (%)", "source words (%)"),
        marker=None,
    )


def _bins(edges: Sequence[float], **counts: Any) -> pd.DataFrame:
    """A histogram's bins from `low` to `high` with what was counted in each."""
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:]} | counts)


Models = dict[str, list[Analysis]]  # model to the analyses of its seeds


def _analyzed(
    experiment: Path,
    analyses: Sequence[Path],
    draw: Callable[..., None],
    bins: Callable[[list[Analysis]], pd.DataFrame],
    left: tuple[str, str],
    **legend: Any,
) -> style.Drawing:
    known = load_experiment(experiment)
    tasks = load_analyses(analyses, known)
    figure = style.draw_tasks(
        [(label_of(task, known), tasks[task]) for task in tasks], draw, 4.4, left
    )
    style.legend_models(figure, labels(tasks), **legend)
    named = {
        (task, model): bins(own) for task, models in tasks.items() for model, own in models.items()
    }
    return style.Drawing(
        figure, pd.concat(named, names=["task", "model"]).reset_index(["task", "model"])
    )


def _entropy_panels(models: Models, upper: Axes, lower: Axes) -> None:
    lower.sharex(upper)
    last = 0
    for model, own in models.items():
        edges = np.array(own[0].entropy.edges)
        count = np.sum([one.entropy.count for one in own], axis=0)
        correct = np.sum([one.entropy.correct for one in own], axis=0)
        shown = count >= FEWEST_SYMBOLS
        middles = (edges[:-1] + edges[1:]) / 2
        style.curve(upper, model, middles[shown], 100 * correct[shown] / count[shown])
        style.steps(lower, model, edges, 100 * count / count.sum())
        last = max(last, *np.flatnonzero(shown).tolist(), 0)
    upper.tick_params(labelbottom=False)
    lower.set_xlim(0, edges[last + 1])
    lower.set_xlabel("entropy of attention (nats)")


def _coverage_panels(models: Models, upper: Axes, lower: Axes) -> None:
    upper.set_xlabel(f"share of source words attended {COVERED} or more in all")
    lower.set_xlabel("attention that a source word got in all, at most 1")
    for panel, key in ((upper, "sentences"), (lower, "words")):
        for model, own in models.items():
            count = np.sum([getattr(one.coverage, key) for one in own], axis=0)
            style.steps(panel, model, own[0].coverage.edges, 100 * count / count.sum())
        panel.set_xlim(0, 1)
