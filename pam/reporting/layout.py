"""Find what a reader could not read in a figure: texts over texts, and marks that are cut."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox, BboxBase

from pam.reporting.fonts import find_fonts

SMALLEST = 7.0  # points of the smallest text
_SLACK = 0.5  # points by which boxes may touch: letters do not fill their boxes


def problems(figure: Figure) -> list[str]:
    """Return what cannot be read in a figure, in words; empty if all can.

    Texts that overlap, that leave the canvas or are smaller than `SMALLEST`; marks of which an edge
    of the panel or the canvas cuts a part off.
    """
    find_fonts(figure)
    figure.canvas.draw()
    slack = _SLACK * figure.dpi / 72
    texts = [(text, text.get_window_extent()) for text in _texts(figure)]

    found = []
    for text, box in texts:
        points = float(text.get_fontsize())
        if points < SMALLEST:
            found.append(f"{_quoted(text)} has {points:g} points")
        if not _is_within(box, figure.bbox, slack):
            found.append(f"{_quoted(text)} leaves the canvas")

    for (first, first_box), (second, second_box) in combinations(texts, 2):
        if _overlap(first_box, second_box, slack):
            found.append(f"{_quoted(first)} and {_quoted(second)} overlap")

    for axes in figure.axes:
        if axes.get_visible():
            found += [f"a mark of {axes.get_title('left')!r} is cut" for _ in _cut(axes, slack)]
    return found


def _quoted(text: Text) -> str:
    """Return a text on one line, as in Python."""
    return repr(" ".join(text.get_text().split()))


def _is_within(box: BboxBase, outer: BboxBase, slack: float) -> bool:
    """Check that a box does not leave another one."""
    return bool(
        box.x0 >= outer.x0 - slack
        and box.x1 <= outer.x1 + slack
        and box.y0 >= outer.y0 - slack
        and box.y1 <= outer.y1 + slack
    )


def _overlap(first: BboxBase, second: BboxBase, slack: float) -> bool:
    """Check that two boxes share more than their edges."""
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return bool(width > slack and height > slack)


def _texts(figure: Figure) -> list[Text]:
    """Return the texts of a figure that are drawn."""
    hidden: set[Any] = set()
    for axes in figure.axes:
        if not axes.get_visible():
            hidden.update(axes.findobj(Text))
        for axis in (axes.xaxis, axes.yaxis):
            hidden.update(_hidden_ticks(axis))

    return [
        text
        for text in figure.findobj(Text)
        if text not in hidden and text.get_visible() and text.get_text().strip()
    ]


def _hidden_ticks(axis: Axis) -> set[Any]:
    """Return the labels of an axis that Matplotlib keeps and does not draw."""
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    kept = {label for tick in ticks for label in (tick.label1, tick.label2)}

    drawn: set[Any] = set()
    if axis.get_visible():
        # The ticks in the view, as Matplotlib finds them when it draws.
        for tick in axis._update_ticks():  # type: ignore[attr-defined]
            drawn.update((tick.label1, tick.label2))
    return kept - drawn


def _cut(axes: Axes, slack: float) -> list[Line2D]:
    """Return the lines of which a mark lies partly beyond the panel, or beyond the canvas."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    cut = []
    for line in axes.lines:
        if line.get_marker() in ("", " ", "None", None, "|") or not line.get_visible():
            continue

        points = line.get_transform().transform(line.get_xydata())
        points = points[np.isfinite(points).all(axis=1)]
        outer = axes.bbox if line.get_clip_on() else figure.bbox
        radius = line.get_markersize() / 2 * figure.dpi / 72
        boxes = [Bbox([point - radius, point + radius]) for point in points]
        # Marks of which nothing is to be seen are beyond the part that the panel shows.
        visible = [box for box in boxes if _overlap(box, outer, slack)]
        if not all(_is_within(box, outer, slack + 0.25 * radius) for box in visible):
            cut.append(line)

    return cut
