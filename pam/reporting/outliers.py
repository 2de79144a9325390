"""Axes on which most models can be told from each other, though a few are far away.

A model that fails would squeeze all others into a corner of its panel. What is far out stands
beyond a dotted line at the edge instead, with its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from pam.reporting import style

ENOUGH, FAR = 8, 3.0
"""Models of which some may be called far out; in interquartile ranges beyond the quartiles, the
outer fences of Tukey's 'Exploratory Data Analysis' (1977)."""

ASIDE = 60.0
"""Points beside a panel that a mark with its value takes."""


class Outlier(NamedTuple):
    """A model's value, which is far out, and where it stands on the other axis."""

    model: str
    value: float
    place: float


def far_out(values: Sequence[float]) -> list[int]:
    """The indices of those that are far out."""
    if len(values) < ENOUGH:
        return []
    first, third = np.quantile(values, [0.25, 0.75])
    margin = FAR * (third - first)
    return [
        index for index, value in enumerate(values) if not first - margin <= value <= third + margin
    ]


def pin_across(axes: Axes, far: Sequence[Outlier]) -> None:
    """Puts outliers left and right of a panel in which all else has been drawn."""
    if not far:
        return
    low, high, below, above = _sides(axes.xaxis, far)
    width = 72 * axes.get_window_extent().width / axes.figure.dpi
    room = (high - low) * ASIDE / (width - ASIDE)
    for one in below:
        _draw(axes, one, low - 0.85 * room, one.place, "←")
    for one in above:
        _draw(axes, one, high + 0.15 * room, one.place, "→")
    for edge in [low] * bool(below) + [high] * bool(above):
        axes.axvline(edge, color=style.INK, lw=0.8, ls=":")
    axes.set_xlim(low - room * bool(below), high + room * bool(above))


def pin_along(axes: Axes, far: Sequence[Outlier]) -> None:
    """Puts outliers below and above a panel in which all else has been drawn, one a line."""
    if not far:
        return
    low, high, below, above = _sides(axes.yaxis, far)
    line = 0.07 * (high - low)
    for number, one in enumerate(below):
        _draw(axes, one, one.place, low - line * (number + 0.6), "↓")
    for number, one in enumerate(above):
        _draw(axes, one, one.place, high + line * (number + 0.6), "↑")
    for edge in [low] * bool(below) + [high] * bool(above):
        axes.axhline(edge, color=style.INK, lw=0.8, ls=":")
    axes.set_ylim(low - line * _lines(below), high + line * _lines(above))


def _sides(axis: Axis, far: Sequence[Outlier]) -> tuple[float, float, list[Outlier], list[Outlier]]:
    """The ends of an axis, beyond which it gets no ticks, and what lies below and above them."""
    low, high = axis.get_view_interval()
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    below = [one for one in far if one.value < low]
    return low, high, below, [one for one in far if one.value > high]


def _lines(beyond: Sequence[Outlier]) -> float:
    return len(beyond) + 0.2 if beyond else 0.0


def _draw(axes: Axes, one: Outlier, x: float, y: float, arrow: str) -> None:
    style.draw_ours(axes, one.model, x, y)
    text = f"{arrow} {one.value:.1f}".replace("-", "\N{MINUS SIGN}")
    axes.annotate(
        text,
        (x, y),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
    )
