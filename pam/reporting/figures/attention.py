"""Draw attention: heat maps of alignments, the entropy of attention and its coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from pydantic import Field

from pam.evaluation.attention import COVERED, Analysis, Coverage, Entropy
from pam.evaluation.records import load
from pam.experiments.experiment import Experiment
from pam.experiments.parsing import Strict, parse
from pam.reporting import layout, map_drawing, style
from pam.reporting.map_drawing import UPRIGHT, signed
from pam.reporting.runs import ByTask, by_task, check_task, label_of, labels, load_experiment
from pam.runtime.errors import UserError

# Heat maps of two models' alignments and their difference (Shankar & Sarawagi, Figures 2, 5).

ACROSS = 18  # target symbols up to which three panels fit side by side and words stay legible
Floats = NDArray[np.float64]
_LABEL_SIZE = 7.5  # points
_HEADING = 22  # letters of a line of a heading, where three panels are side by side
_SCALE = 30  # letters of a line below a scale, where three scales are side by side
# heights in inches
_ROW = 0.165  # of a source symbol's row
_LINE = 0.16  # of a further line of a heading
_LETTER = 0.066  # of a letter that is written upwards
_BAR = 0.9  # of a scale
_EDGE = 0.12  # of the free strip at the lower edge


class Row(Strict, extra="ignore"):
    """One test row under teacher forcing; the alignment is target x source."""

    lemma: str | None = None
    form: str | None = None
    source: list[str]
    target: list[str]
    prior: list[list[float | int]] = Field([], description="before the symbol is known")
    alignment: list[list[float | int]] = Field(description="what is fed to the next state")


class Alignments(Strict, extra="ignore"):
    """The content of `attention.json`."""

    model: str
    label: str
    rows: list[Row] = Field(min_length=1)


def attention(
    base: Path, other: Path, rows: int, more: Sequence[Path] | None = None
) -> style.Drawing:
    """Draw three panels per row of the test split: base, other, other minus base.

    Source symbols run down and target symbols to the right. The panels are side by side
    where every target is short enough for that, else below each other. The data have the weights
    of `more` models too, for the page, which shows as many side by side as its reader chooses.

    Raises:
        UserError: a file that holds no alignments, or files about different rows.
    """
    base_content = _read(base)
    other_content = _read(other)
    pairs = _same_rows(base_content, other_content, other)[:rows]

    contents = [base_content, other_content]
    for path in more or ():
        content = _read(path)
        _same_rows(base_content, content, path)
        contents.append(content)
    labels = (base_content.label, other_content.label)
    across = all(len(row.target) <= ACROSS for row, _ in pairs)
    figure = _draw_maps(pairs, labels, across)
    if across and layout.problems(figure):
        plt.close(figure)
        figure = _draw_maps(pairs, labels, across=False)

    rows_of_models = list(zip(*(content.rows[:rows] for content in contents), strict=True))
    return style.Drawing(figure, _weights(rows_of_models, contents))


def _draw_maps(pairs: Sequence[tuple[Row, Row]], labels: tuple[str, str], across: bool) -> Figure:
    """Draw the maps of all rows.

    Args:
        labels: names of base and other.
        across: whether the three maps of a row are side by side.
    """
    columns = 3 if across else 1
    grid_rows = 3 // columns  # of each row of the test split
    titles = [*labels, f"{labels[1]} − {labels[0]}"]
    if across:
        titles = [fill(title, _HEADING, break_on_hyphens=False) for title in titles]
    heights = [
        0.55 + _ROW * len(row.source) + _LETTER * _upright(row)
        for row, _ in pairs
        for _ in range(grid_rows)
    ]
    of_headings = _LINE * max(title.count("\n") for title in titles)
    figure, axes = style.panels(
        len(heights),
        columns,
        of_headings + _BAR * grid_rows + sum(heights),
        height_ratios=heights,
    )
    grid = np.array(axes).reshape(-1, columns)

    panels_of_rows = grid.reshape(len(pairs), 3)
    for index, (panels, (base_row, other_row)) in enumerate(
        zip(panels_of_rows, pairs, strict=True)
    ):
        _draw_row(list(panels), base_row, other_row, across)
        # Columns of panels are headed once.
        if index == 0 or not across:
            offset = 22 if pairs[0][0].lemma else 6
            for panel, title in zip(panels, titles, strict=True):
                _head(panel, title, offset)

    # Below a single column the three scales lie below each other.
    columns_of_scales = [grid[:, index if across else 0] for index in range(3)]
    words = f"red: {labels[1]} has more, blue: less"
    if across:
        words = fill(words, _SCALE, break_on_hyphens=False)
    _draw_scales(figure, columns_of_scales, words)
    # Constrained layout puts the words below the lowest scale partly beyond the edge.
    margin = _EDGE / figure.get_figheight()
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, margin, 1, 1 - margin))
    return figure


def _same_rows(base: Alignments, other: Alignments, path: Path) -> list[tuple[Row, Row]]:
    """Return the pairs of rows of two models; a `UserError` if they are not the same rows."""
    for number, (first, second) in enumerate(zip_longest(base.rows, other.rows), start=1):
        is_same = (
            first and second and (first.source, first.target) == (second.source, second.target)
        )
        if not is_same:
            raise UserError(
                f"row {number} is not the same as in the other model's file",
                file=path,
                hint="make both files from the same rows of the same data",
            )

    return list(zip(base.rows, other.rows, strict=True))


def _head(panel: Axes, title: str, offset: int) -> None:
    """Write a panel's heading, `offset` points above it."""
    panel.annotate(
        title,
        xy=(0.5, 1),
        xytext=(0, offset),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        weight="bold",
    )


def _draw_scales(figure: Figure, columns: Sequence[Any], difference: str) -> None:
    """Draw the scales of base, other and difference, each below a column of panels."""
    scales = [("Blues", 0, "attention"), ("Reds", 0, "attention"), ("RdBu_r", -1, difference)]
    # Each scale below a column is put between the panels and the scale before it.
    for panels, (palette, low, words) in reversed(list(zip(columns, scales, strict=True))):
        mapped = ScalarMappable(Normalize(low, 1), palette)
        bar = figure.colorbar(mapped, ax=panels, location="bottom", aspect=30, pad=0.01)
        bar.set_label(words, fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=_LABEL_SIZE)


def _weights(rows: Sequence[tuple[Row, ...]], models: Sequence[Alignments]) -> pd.DataFrame:
    """Return a row for each source symbol of each target symbol of each row and model."""
    columns = ["row", "model", "label"]
    columns += ["target_place", "target", "source_place", "source", "weight", "prior"]
    records: list[tuple[Any, ...]] = []
    for number, of_models in enumerate(rows, start=1):
        for model, row in zip(models, of_models, strict=True):
            for target, weights in enumerate(row.alignment):
                # Older files have no prior.
                priors = row.prior[target] if row.prior else [None] * len(weights)
                for source, (weight, prior) in enumerate(zip(weights, priors, strict=True)):
                    record = (
                        number,
                        model.model,
                        model.label,
                        target,
                        row.target[target],
                        source,
                        row.source[source],
                        round(float(weight), 4),
                        None if prior is None else round(float(prior), 4),
                    )
                    records.append(record)

    return pd.DataFrame(records, columns=columns, dtype=object)


def _read(path: Path) -> Alignments:
    """Read `attention.json`; a `UserError` if an alignment does not fit its symbols."""
    content = load(Alignments, path)
    for row in content.rows:
        if [len(line) for line in row.alignment] != [len(row.source)] * len(row.target):
            words = f"the alignment of `{' '.join(row.target)}` does not fit its symbols"
            raise UserError(words, file=path, hint="delete the file and make it again")
    return content


def _upright(row: Row) -> int:
    """Return the letters of the longest target symbol, if it has to be written upwards.

    Symbols of one or two letters find room as they are; then it is 0.
    """
    longest = max(len(signed(symbol)) for symbol in row.target)
    return longest if longest > UPRIGHT else 0


def _draw_row(panels: Sequence[Axes], base: Row, other: Row, across: bool) -> None:
    """Draw the three maps of a row of the test split."""
    first = np.array(base.alignment).T
    second = np.array(other.alignment).T
    looks = [(first, "Blues", 0), (second, "Reds", 0), (second - first, "RdBu_r", -1)]

    for panel, (matrix, palette, low) in zip(panels, looks, strict=True):
        map_drawing.draw(panel, matrix, base.source, base.target, palette, low)
        panel.tick_params(labelleft=panel is panels[0] or not across)

    if base.lemma and base.form:
        panels[0].set_title(f"{base.lemma} → {base.form}", fontsize=9, weight="normal")


def of_outputs(content: dict[str, Any]) -> style.Drawing:
    """Draw alignments of one model's own outputs, a panel each.

    Args:
        content: like that of `attention.json`.
    """
    alignments = parse(Alignments, content, "alignments")
    rows = alignments.rows
    heights = [0.45 + _ROW * len(row.source) + _LETTER * _upright(row) for row in rows]
    figure, panels = style.panels(len(heights), 1, 0.4 + sum(heights), height_ratios=heights)

    for panel, row in zip(panels, rows, strict=True):
        map_drawing.draw(panel, np.array(row.alignment).T, row.source, row.target)

    title = f"{alignments.label}: attention, source down, output to the right"
    panels[0].set_title(title, fontsize=9)
    return style.Drawing(figure, _weights([(row,) for row in rows], [alignments]))


# Uncertainty of attention, and its coverage of a sentence, under teacher forcing.

Models = dict[str, list[Analysis]]  # model -> the analyses of its seeds
Looks = Mapping[str, style.Look]  # model -> the look of its line

FEWEST_SYMBOLS = 50  # a bin with fewer is left out, as its accuracy is noise


def entropy_accuracy(experiment: Path, analyses: Sequence[Path]) -> style.Drawing:
    """Draw accuracy by the uncertainty of attention (Shankar & Sarawagi, Figure 3).

    Two panels per task: accuracy above, the histogram of entropies below; seeds together. They are
    by the prior; two more are by the posterior if it was measured of all runs.
    """

    def bins(seeds: list[Entropy]) -> pd.DataFrame:
        return _bins(
            seeds[0].edges,
            symbols=np.sum([entropy.count for entropy in seeds], axis=0),
            right=np.sum([entropy.correct for entropy in seeds], axis=0),
        )

    return _analyzed(
        experiment=experiment,
        analyses=analyses,
        read=_entropies,
        draw=_entropy_panels,
        bins=bins,
        left=("right symbols (%)", "share of symbols (%)"),
    )


def _entropies(models: Models) -> dict[str, dict[str, list[Entropy]]]:
    """Return the entropies of each model's seeds: of `prior`, and of `posterior` if all have it."""
    by_prior: dict[str, list[Entropy]] = {}
    by_posterior: dict[str, list[Entropy]] = {}
    measured = True
    for model, seeds in models.items():
        posteriors = [seed.posterior_entropy for seed in seeds if seed.posterior_entropy]
        by_prior[model] = [seed.entropy for seed in seeds]
        by_posterior[model] = posteriors
        measured &= len(posteriors) == len(seeds)

    if not measured:
        return {"prior": by_prior}
    return {"prior": by_prior, "posterior": by_posterior}


def coverage(experiment: Path, analyses: Sequence[Path]) -> style.Drawing:
    """Draw the share of a source sentence that attention covers (Shankar & Sarawagi, Figure 4).

    Two panels per task: distribution over sentences above, over source words below.
    """

    def read(models: Models) -> dict[str, dict[str, list[Coverage]]]:
        coverages = {
            model: [analysis.coverage for analysis in seeds] for model, seeds in models.items()
        }
        return {"alignment": coverages}

    def bins(seeds: list[Coverage]) -> pd.DataFrame:
        return _bins(
            seeds[0].edges,
            sentences=np.sum([coverage.sentences for coverage in seeds], axis=0),
            words=np.sum([coverage.words for coverage in seeds], axis=0),
        )

    return _analyzed(
        experiment=experiment,
        analyses=analyses,
        read=read,
        draw=_coverage_panels,
        bins=bins,
        left=("sentences (%)", "source words (%)"),
    )


def _bins(edges: Sequence[float], **counts: Any) -> pd.DataFrame:
    """Return a histogram's bins from `low` to `high` with the counts in each."""
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:]} | counts)


def _analyzed(
    experiment: Path,
    analyses: Sequence[Path],
    read: Callable[[Models], dict[str, dict[str, list[Any]]]],
    draw: Callable[..., None],
    bins: Callable[[list[Any]], pd.DataFrame],
    left: tuple[str, str],
) -> style.Drawing:
    """Draw two panels of histograms per task, for each distribution that they are of.

    Args:
        read: returns the histograms of each model's seeds, by distribution.
        draw: takes the looks of all models, the histograms of each and the two panels.
        bins: returns the data of a model's histograms.
        left: texts at the left of the two panels.
    """
    config = load_experiment(experiment)
    tasks = _load_analyses(analyses, config)
    labeled = []
    data = {}
    for task, models in tasks.items():
        distributions = read(models)
        for name, histograms in distributions.items():
            label = label_of(task, config)
            labeled.append((label if len(distributions) == 1 else f"{label}, {name}", histograms))
            for model, seeds in histograms.items():
                data[task, model, name] = bins(seeds)

    texts = labels(tasks)
    looks = style.looks_of_lines(list(texts), config.baseline)
    figure = style.draw_tasks(labeled, partial(draw, looks), 4.4, left)
    style.legend_models(figure, texts, looks=looks)

    names = ["task", "model", "of"]
    rows = pd.concat(data, names=names).reset_index(names)
    return style.Drawing(figure, rows)


def _entropy_panels(
    looks: Looks, models: Mapping[str, list[Entropy]], upper: Axes, lower: Axes
) -> None:
    """Draw accuracy by entropy above, the histogram of entropies below."""
    lower.sharex(upper)
    last_bin = 0
    for model, seeds in models.items():
        edges = np.array(seeds[0].edges)
        count = np.sum([entropy.count for entropy in seeds], axis=0)
        correct = np.sum([entropy.correct for entropy in seeds], axis=0)
        middles = (edges[:-1] + edges[1:]) / 2

        # The histogram shows all bins, the accuracy those with enough symbols.
        enough = count >= FEWEST_SYMBOLS
        style.curve(upper, looks[model], middles[enough], 100 * correct[enough] / count[enough])
        style.steps(lower, looks[model], edges, 100 * count / count.sum())
        last_bin = max(last_bin, *np.flatnonzero(enough).tolist(), 0)

    upper.tick_params(labelbottom=False)
    lower.set_xlim(0, edges[last_bin + 1])
    lower.set_xlabel("entropy of attention (nats)")


def _coverage_panels(
    looks: Looks, models: Mapping[str, list[Coverage]], upper: Axes, lower: Axes
) -> None:
    """Draw histograms of coverage, over sentences above, over source words below."""
    upper.set_xlabel(f"share of source words attended {COVERED} or more in all")
    lower.set_xlabel("attention that a source word got in all, at most 1")

    for panel, key in ((upper, "sentences"), (lower, "words")):
        for model, seeds in models.items():
            count = np.sum([getattr(coverage, key) for coverage in seeds], axis=0)
            style.steps(panel, looks[model], seeds[0].edges, 100 * count / count.sum())
        panel.set_xlim(0, 1)


def _load_analyses(paths: Sequence[Path], experiment: Experiment) -> ByTask[Analysis]:
    """Read and group analyses; a `UserError` if one is of an unknown task."""
    analyses = [load(Analysis, path) for path in paths]
    for path, analysis in zip(paths, analyses, strict=True):
        check_task(analysis.task, path, experiment)
    return by_task(analyses, experiment)
