"""Give all figures one look: sizes, type, one color and mark per model, deterministic files."""

from __future__ import annotations

import logging
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, TypeVar

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from PIL import Image

from pam.evaluation.metrics import Floats
from pam.reporting import layout
from pam.reporting.fonts import find_fonts, scripts_of
from pam.runtime.files import atomic_write, write_text

log = logging.getLogger(__name__)

Drawn = TypeVar("Drawn")  # the data of a task's panels
WIDTH = 7.2  # of a figure, in inches: a text column, and the report shows it without scaling
NARROW = 3.6  # of a figure for a phone, whose panels stand in one column
ACROSS = 3  # the most panels of tasks side by side
LETTERS = {WIDTH: 63, NARROW: 24}  # letters of a heading, in the width of a figure
AXIS_LETTERS = {WIDTH: 84, NARROW: 42}  # letters of a text below an axis, in that width
LEGEND_LETTERS = {WIDTH: 96, NARROW: 38}  # letters of an entry of a legend, in that width
INK = "#222222"  # color of lines and texts
PAPER = INK  # color of marks for a paper's values
PNG_COLORS = 256
SHOWN_SIGNS = 12  # of those that no font has, in a message

_SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # a word or label with two dollar signs is no formula
    "figure.dpi": 110,
    "savefig.dpi": 180,
    "svg.fonttype": "path",
    "svg.hashsalt": "pam",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


class Drawing(NamedTuple):
    """A figure, and the numbers that it shows."""

    figure: Figure
    data: pd.DataFrame


class Look(NamedTuple):
    """The color, mark and dashes of a model in all figures."""

    color: str
    marker: str
    dashes: Any


_SOLID: Any = "-"
_DASHED = (0, (4, 1.5))
_DOTTED = (0, (1.2, 1.2))
_BROKEN = (0, (5, 1.2, 1.2, 1.2))
_LONG = (0, (9, 2))
_DASHES = (_SOLID, _DASHED, _DOTTED, _BROKEN, _LONG)


def _family(color: str, **marks: str) -> dict[str, Look]:
    """Return looks of models of one kind: a color for all, a mark and dashes for each."""
    looks = {}
    for (name, mark), dashes in zip(marks.items(), cycle(_DASHES), strict=False):
        looks[name.replace("_", "-")] = Look(color, mark, dashes)

    return looks


_LOOKS = {
    "hard-mono": Look("#6B6B6B", "s", _DOTTED),
    **_family("#6B6B6B", hard_mono_smoothed="o", hard_mono_five="D"),
    "prior-joint": Look("#E69F00", "^", _DASHED),
    "postr-joint": Look("#D55E00", "D", _SOLID),
    "postr-joint-dot": Look("#D55E00", "d", _DASHED),
    "prox-postr-joint": Look("#CC79A7", "v", _BROKEN),
    "mono-postr-joint": Look("#009E73", "P", _SOLID),
    "postr-joint-mass0.999": Look("#B35900", "o", _BROKEN),
    "postr-joint-mass0.99": Look("#B35900", "s", _DASHED),
    "postr-joint-mass0.9": Look("#B35900", "^", _DOTTED),
    **_family("#8A6D00", **{"postr-joint-top6": "h", "postr-joint-mass0.99-top6": "d"}),
    **_family(
        "#0072B2", soft="o", soft_dot="s", soft_concat="p", soft_location="h", soft_unscaled="8"
    ),
    **_family("#00798C", local_m="<", local_p=">"),
    **_family("#A6761D", structural="*", fertility="8", fertility_bounded="p", fertility_init="P"),
    **_family("#4B6E00", structured="p", agreement="h", agreement_init="v", soft_reversed="s"),
    **_family("#56B4E9", sparsemax=">", sparse="<", soft_mlp="X"),
    **_family("#B0457B", acvi="o", acvi_literal="p", acvi_sampled="8", ved="X", ved_sampled="d"),
    **_family("#8C1C3F", hard="X", hard_moving="*"),
    **_family(
        "#7A5195",
        variational_sample="^",
        variational_gumbel="v",
        variational=">",
        **{"variational-kl0.1": "<"},
    ),
    **_family(
        "#3C5A14",
        acvi_linear="^",
        fertility_delayed="v",
        variational_annealed="D",
        hard_steadied="P",
    ),
    **_family(
        "#C2A000",
        **{
            "acvi-literal-kl0.01": "h",
            "acvi-literal-kl0.001": "s",
            "acvi-linear-kl0.01": "p",
            "acvi-linear-kl0": "<",
        },
    ),
    **_family("#6F8F00", **{"acvi-linear-start0": "d", "acvi-linear-annealed": ">"}),
    **_family(
        "#1B7F5C", structured_mlp="p", acvi_mlp="o", ved_mlp="X", acvi_pointer_coverage_last0="D"
    ),
    **_family(
        "#2F4B7C",
        transformer="p",
        ensemble="*",
        soft_no_input_feeding="X",
        none="d",
        ensemble_of_three="h",
    ),
    **_family(
        "#00549A", soft_pointer="D", soft_pointer_coverage="*", structured_pointer_coverage="d"
    ),
    **_family(
        "#7D0552",
        acvi_pointer_coverage="D",
        ved_pointer_coverage="P",
        variational_sample_pointer_coverage="v",
    ),
    **_family(
        "#A23B00", postr_joint_pointer="X", postr_joint_pointer_coverage="*", transformer_256="h"
    ),
    **_family(
        "#6D5BD0",
        transformer_soft="o",
        transformer_prior_joint="^",
        transformer_postr_joint="D",
        transformer_prox_postr_joint="v",
        transformer_mono_postr_joint="P",
    ),
    **_family(
        "#3D3D8F",
        mixture="h",
        transformer_mixture="*",
        transformer_converged="o",
        plain_256="v",
        transformer_prox_postr_joint_converged="s",
    ),
    **_family(
        "#8F7BE8", transformer_inflection="s", transformer_pointer="X", transformer_aligner="d"
    ),
    **_family(
        "#2E7D8C",
        aligner_prior_joint="^",
        aligner_prox_postr_joint="v",
        aligner_mono_postr_joint="P",
        aligner_guided="D",
    ),
    **_family(
        "#5B8C5A",
        head_soft="o",
        head_prior_joint="^",
        head_prox_postr_joint="v",
        head_mono_postr_joint="P",
    ),
    **_family("#5A4A42", luong_base="o", luong_reverse="s", luong_dropout="^", luong_location="D"),
    **_family(
        "#C44E52", luong_feeding="P", luong_local_p=">", luong_unknown="*", luong_sampled="d"
    ),
}
_COLORS = ("#56B4E9", "#7A5195", "#A6761D", "#4B6E00", "#8C1C3F", "#2F4B7C", "#00798C", "#B0457B")
_MARKERS = ("<", ">", "X", "p", "h", "*", "d", "8")


def look(model: str) -> Look:
    """Return the model's look, in Okabe and Ito's colors, distinct also without color vision."""
    if model in _LOOKS:
        return _LOOKS[model]

    # A model that is not listed gets its look from its name, so that it is the same everywhere.
    number = zlib.crc32(model.encode())
    return Look(
        color=_COLORS[number % len(_COLORS)],
        marker=_MARKERS[number // 8 % len(_MARKERS)],
        dashes=_DASHES[number // 64 % len(_DASHES)],
    )


MOST_LINES = 8  # lines of a panel that can be told apart
_QUIET = Look("#c4c4c4", "", _SOLID)


def looks_of_lines(models: Sequence[str], baseline: str) -> dict[str, Look]:
    """Return the look of each model's line in a panel.

    Of too many to be told apart two are shown in their colors, the baseline and the first model of
    posterior attention; the others are gray. No two lines have the same mark, so that they are told
    apart without colors too.
    """
    if len(models) > MOST_LINES:
        highlighted = [baseline, *[model for model in models if "postr-joint" in model][:1]]
        return {model: look(model) if model in highlighted else _QUIET for model in models}

    looks: dict[str, Look] = {}
    used: set[str] = set()
    for model in models:
        own = look(model)
        marker = next(mark for mark in (own.marker, *_MARKERS, *"os^Dv") if mark not in used)
        used.add(marker)
        looks[model] = own._replace(marker=marker)

    return looks


def depth(line: Look) -> float:
    """Return how far in front a line is drawn: gray ones lie behind all others."""
    return 1.5 if line == _QUIET else 3.0


def draw_ours(axes: Axes, model: str, x: float, y: float) -> None:
    """Draw a model's mark, on top of its interval."""
    color, marker, _ = look(model)
    axes.plot(x, y, marker, color=color, mec="white", mew=0.7, ms=8.5, zorder=5)


def curve(axes: Axes, line: Look, x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> None:
    """Draw a model's line with a mark at each of its points."""
    color, marker, dashes = line
    axes.plot(x, y, color=color, ls=dashes, marker=marker, ms=4.5, mew=0, zorder=depth(line))


def steps(axes: Axes, line: Look, edges: Sequence[float] | Floats, values: Floats) -> None:
    """Draw a model's histogram as an outline with marks, so that several can lie over each other.

    Each model has its marks elsewhere in the bins, so that they do not hide each other.
    """
    color, marker, dashes = line
    axes.stairs(values, edges, color=color, ls=dashes, lw=1.6, baseline=None, zorder=depth(line))
    if not marker:
        return

    share = 0.2 + 0.6 * (len(axes.lines) % MOST_LINES) / (MOST_LINES - 1)
    places = np.asarray(edges)[:-1] + share * np.diff(edges)
    axes.plot(places, values, color=color, ls="none", marker=marker, ms=4, mew=0, zorder=4)


@contextmanager
def styled(width: float = WIDTH) -> Iterator[None]:
    """Draw in the common style; the settings of the caller are restored afterwards.

    Args:
        width: of figures, `WIDTH` or `NARROW`.
    """
    with mpl.rc_context(), warnings.catch_warnings():
        # A figure that is saved tells itself which signs no font has.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        mpl.rcParams["figure.figsize"] = (width, width)
        yield


def is_narrow() -> bool:
    """Check whether figures are drawn for a phone."""
    return bool(mpl.rcParams["figure.figsize"][0] == NARROW)


def width_of_figures() -> float:
    """Return the width of figures in inches, as `styled` has set it."""
    return NARROW if is_narrow() else WIDTH


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Make a figure of `height` inches with a grid of axes, row by row."""
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width_of_figures(), height),
        squeeze=False,
        layout="constrained",
        **options,
    )
    return figure, list(axes.flat)


def in_words(text: str) -> Drawing:
    """Make a figure of a sentence, where there is nothing to draw, and data without a row."""
    lines = fill(text, AXIS_LETTERS[width_of_figures()])
    figure = plt.figure(figsize=(width_of_figures(), 0.5 + 0.2 * lines.count("\n")))

    figure.text(0.02, 0.5, lines, va="center")
    return Drawing(figure, pd.DataFrame(columns=["task", "model", "metric"]))


def draw_tasks(
    tasks: Sequence[tuple[str, Drawn]],
    draw: Callable[..., None],
    height: float,
    left: Sequence[str] = ("",),
    most: int = ACROSS,
) -> Figure:
    """Draw panels for each task below its heading, with room for a legend below all.

    Args:
        tasks: heading and data of each task.
        draw: takes the data of a task, then its panels.
        height: of a line of tasks, in inches.
        left: words at the axes of a task's panels, from top to bottom, where they are at the left
            edge.
        most: panels of tasks side by side; fewer where their labels are too wide for that.
    """
    most_columns = 1 if is_narrow() else min(most, len(tasks))
    for columns in range(most_columns, 0, -1):
        figure = _draw_columns(tasks, draw, height, left, columns)
        # Labels that are too wide for so many panels side by side get wider panels.
        if columns == 1 or not layout.problems(figure):
            break
        plt.close(figure)

    return figure


def _draw_columns(
    tasks: Sequence[tuple[str, Drawn]],
    draw: Callable[..., None],
    height: float,
    left: Sequence[str],
    columns: int,
) -> Figure:
    """Draw panels as `draw_tasks` does, those of so many tasks side by side."""
    lines = -(-len(tasks) // columns)
    panels_of_task = len(left)
    figure = plt.figure(figsize=(width_of_figures(), 0.35 + lines * height), layout="constrained")
    # The figure's legend stands below the part that has the panels and the label that they share.
    part = figure.add_subfigure(figure.add_gridspec(1, 1)[0])
    grid = part.subplots(lines * panels_of_task, columns, squeeze=False)
    grid = grid.reshape(lines, panels_of_task, columns)

    for index, (label, data) in enumerate(tasks):
        task_panels = grid[index // columns, :, index % columns]
        draw(data, *task_panels)
        head(task_panels[0], label)
        for panel, words in zip(task_panels, left, strict=True):
            if words and index % columns == 0:
                panel.set_ylabel(words)

    # The last line of tasks may have room for more of them.
    unused = grid[-1, :, (len(tasks) - 1) % columns + 1 :]
    for panel in unused.flat:
        panel.remove()
    _write_below(part)
    return figure


def _write_below(part: SubFigure) -> None:
    """Write what the axes below the panels show: once if all show the same, else in their width."""
    panels_of_part = list(part.axes)
    texts = {panel.get_xlabel() for panel in panels_of_part}
    if len(panels_of_part) > 1 and len(texts) == 1:
        words = _filled(texts.pop(), AXIS_LETTERS[width_of_figures()])
        part.supxlabel(words, fontsize=_SETTINGS["axes.labelsize"])
        for panel in panels_of_part:
            panel.set_xlabel("")
        return

    for panel in panels_of_part:
        panel.set_xlabel(_filled(panel.get_xlabel(), _letters_below(panel)))


def _filled(text: str, letters: int) -> str:
    """Break the lines of a text that are too long; names keep their hyphens."""
    lines = text.split("\n")
    return "\n".join(fill(line, letters, break_on_hyphens=False) for line in lines)


def below(axes: Axes, text: str) -> str:
    """Break a text that stands below a panel, with the width of one panel left to what is beside.

    Texts at the left of panels take room too.
    """
    return _filled(text, AXIS_LETTERS[width_of_figures()] // (columns_of(axes) + 1))


def columns_of(axes: Axes) -> int:
    """Return how many panels stand side by side where this one stands."""
    spec = axes.get_subplotspec()
    return 1 if spec is None else spec.get_gridspec().ncols


def is_first(axes: Axes) -> bool:
    """Check that a panel is the first of its line."""
    spec = axes.get_subplotspec()
    return spec is None or spec.is_first_col()


FEWEST_LETTERS = 14  # letters of a line below an axis, however narrow its panel is


def _letters_below(axes: Axes) -> int:
    """Return the letters of a line below a panel, which names at its left make narrower."""
    names = [
        line
        for label in axes.get_yticklabels()
        for line in label.get_text().split("\n")
        if label.get_visible()
    ]
    letters = AXIS_LETTERS[width_of_figures()] // columns_of(axes)
    letters -= max(map(len, names), default=0) // 2
    return max(FEWEST_LETTERS, letters)


def head(axes: Axes, text: str, across: int = 1) -> None:
    """Write a panel's heading, in as many lines as it needs.

    Args:
        across: panels of its row that the heading may stand above.
    """
    letters = LETTERS[width_of_figures()] * across // columns_of(axes)
    axes.set_title(fill(text, letters, break_on_hyphens=False))


def legend_models(
    figure: Figure,
    labels: Mapping[str, str],
    title: str | None = None,
    looks: Mapping[str, Look] | None = None,
    **options: Any,
) -> None:
    """Write a legend of models by their names below all panels.

    Args:
        looks: those of the models' lines, by default of `look`; gray ones have one entry together.
        options: of the legend's lines, in place of those of their looks.
    """
    if looks is None:
        looks = {model: look(model) for model in labels}

    texts = {model: label for model, label in labels.items() if looks[model] != _QUIET}
    entries = [(looks[model], label) for model, label in texts.items()]
    if len(texts) < len(labels):
        entries.append((_QUIET, f"the {len(labels) - len(texts)} other models"))

    handles = []
    for (color, marker, dashes), label in entries:
        line = {"color": color, "ls": dashes, "marker": marker} | options
        handles.append(Line2D([], [], label=label, **line))
    legend_of(figure, handles, title)


def legend_of(
    figure: Figure, handles: Sequence[Line2D], title: str | None = None, most: int = 4
) -> None:
    """Write a legend below all panels, in as many columns as there is room for.

    Args:
        most: columns.
    """
    for handle in handles:
        handle.set_label(_filled(str(handle.get_label()), LEGEND_LETTERS[width_of_figures()]))

    lines = max(str(handle.get_label()).count("\n") + 1 for handle in handles)
    height = figure.get_figheight()
    for most_columns in range(most, 0, -1):
        # Rows of about equal length.
        rows = -(-len(handles) // most_columns)
        columns = -(-len(handles) // rows)

        # A figure has room for two lines; more would be taken from its panels.
        figure.set_figheight(height + 0.1875 * max(0, rows * lines - 2))
        legend = figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns,
            title=title,
            title_fontsize="medium",
        )
        if most_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return

        # Too wide: the next try has fewer columns.
        legend.remove()


def save(
    drawing: Drawing, path: Path | str, formats: Sequence[str] = ("svg", "png", "csv")
) -> None:
    """Write a figure as .svg and .png and its data as .csv, and close the figure.

    The same figure gives the same SVG, byte for byte: ids are salted, no date is written. Texts of
    an SVG are outlines, unless this machine has no font for some of their signs: then they are
    texts, for the fonts of whoever looks at it. Their PNG says below the panels that it has boxes.

    Args:
        path: with one of the endings.
        formats: those that are written.
    """
    figure, data = drawing
    settings: Any = {key: _SETTINGS[key] for key in ("svg.hashsalt", "svg.fonttype")}
    missing = find_fonts(figure)
    if missing:
        settings["svg.fonttype"] = "none"
        log.warning(
            f"{Path(path).stem}.png: no font here has {missing[:SHOWN_SIGNS]}; the .svg and the"
            " page show them. Noto fonts have all scripts, such as fonts-noto-cjk on Debian"
        )

    with mpl.rc_context(settings), warnings.catch_warnings():
        # What is missing was said above.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        # A date, or the version of Matplotlib, would make the same figure another file.
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            if ending not in formats:
                continue
            if missing and ending == "png":
                # Below the canvas, so that no panel gives room to it.
                figure.text(0, 0, _note_of_boxes(missing), va="top")
                mpl.rcParams["savefig.bbox"] = "tight"
            drawn = BytesIO()
            figure.savefig(drawn, format=ending, metadata=metadata, dpi=_SETTINGS["savefig.dpi"])
            with atomic_write(Path(path).with_suffix(f".{ending}")) as temporary:
                temporary.write_bytes(SMALLER[ending](drawn.getvalue()))

    if "csv" in formats:
        text = data.map(_rounded).to_csv(index=False, lineterminator="\n")
        write_text(Path(path).with_suffix(".csv"), text)
    plt.close(figure)


def _note_of_boxes(signs: str) -> str:
    """Say in a picture what its boxes are."""
    scripts = ", ".join(scripts_of(signs))
    return f"Boxes: signs that no font here had ({scripts}). The .svg file has them as text."


def _smaller_png(png: bytes) -> bytes:
    """Give a PNG a palette, which makes it two thirds smaller and changes nothing that is seen."""
    image = Image.open(BytesIO(png)).convert("RGB")
    smaller = BytesIO()
    indexed = image.quantize(PNG_COLORS, dither=Image.Dither.NONE)
    indexed.save(smaller, "png", optimize=True)
    return smaller.getvalue()


def _smaller_svg(svg: bytes) -> bytes:
    """Leave out an SVG's metadata, comments and indentation, and round its places.

    A place is in points; the outlines of letters, which are scaled, are whole numbers already.
    """
    text = svg.decode()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(
        r'\b(?:d|x|y)="[^"]*"|translate\([^)]*\)',
        lambda attribute: _LONG_NUMBER.sub(_two_decimals, attribute[0]),
        text,
    )
    return re.sub(r"\s*\n\s*", "\n", text).encode()


SMALLER = {"png": _smaller_png, "svg": _smaller_svg}
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def _two_decimals(number: re.Match[str]) -> str:
    """Return a number of an SVG with at most two decimals."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _rounded(value: Any) -> Any:
    """Return a number with six digits as text; other values, and NaN, as they are."""
    if isinstance(value, float) and value == value:
        return f"{value:.6g}"
    return value
