"""Values far from all others are found, and drawn at the sides of a panel."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes

from pam.reporting import style
from pam.reporting.figures.models import ENOUGH, Outlier, draw_all_but_outliers, far_out, pin

CROWD = [84.0, 84.5, 85.0, 85.5, 86.0, 86.5, 87.0, 87.5]


@pytest.fixture
def axes() -> Iterator[Axes]:
    """A panel with a line from 84 to 88 on both axes."""
    figure, panel = plt.subplots()
    panel.plot([84, 88], [84, 88])
    yield panel
    plt.close(figure)


def test_what_is_three_ranges_beyond_the_quartiles_is_far_out() -> None:
    assert far_out([*CROWD, 15.0, 80.0, 100.0]) == [8, 10]
    assert far_out(CROWD) == []


def test_of_a_few_models_none_is_far_out() -> None:
    assert far_out([*CROWD[: ENOUGH - 2], 15.0]) == []


def test_a_value_within_what_the_others_reach_is_drawn_among_them(axes: Axes) -> None:
    values = [70.0, 70.1] * 5 + [72.0, 80.0, 200.0]
    assert far_out(values) == [10, 11, 12]
    axes.clear()
    drawn = []

    def draw(index: int) -> None:
        drawn.append(index)
        # The interval of 72 reaches 80.
        axes.plot([values[index] - 2.5, values[index] + 2.5 + 6 * (index == 10)], [0, 0])

    assert draw_all_but_outliers(axes.xaxis, values, draw) == [12]
    assert drawn == list(range(12))


def test_outliers_are_named_beyond_the_edges_and_leave_the_others_their_axis(axes: Axes) -> None:
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    pin(axes, [Outlier("acvi", -15.04, 85.0), Outlier("soft", 99.0, 86.0)], across=True)
    pin(axes, [Outlier("acvi", 15.0, 85.0), Outlier("none", 49.75, 86.0)], across=False)
    marks = [line.get_xydata()[0] for line in axes.lines if line.get_marker() not in ("None", "")]
    (left, _), (right, _), (_, first), (_, second) = marks

    assert axes.get_xlim()[0] < left < low and high < right < axes.get_xlim()[1]
    assert axes.get_ylim()[0] < second < first < bottom and axes.get_ylim()[1] == top
    assert low <= min(axes.get_xticks()) and max(axes.get_xticks()) <= high

    texts = [text.get_text() for text in axes.texts]
    assert texts == ["← \N{MINUS SIGN}15.0", "→ 99.0", "↓ 15.0", "↓ 49.8"]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_an_outliers_value_stays_on_its_side_of_the_line(columns: int) -> None:
    with style.styled():
        figure, panels = style.panels(1, columns, height=3.0)
        for panel in panels:
            panel.plot([84, 88], [84, 88])
            pin(panel, [Outlier("acvi", -72.4, 85.0)], across=True)
        figure.canvas.draw()
        ends = [panel.texts[0].get_window_extent().x1 for panel in panels]
        edges = [panel.lines[-1].get_window_extent().x0 for panel in panels]
        plt.close(figure)

    assert all(end < edge for end, edge in zip(ends, edges, strict=True))


def test_without_outliers_a_panel_is_as_it_was(axes: Axes) -> None:
    before = axes.get_xlim(), axes.get_ylim(), len(axes.lines)
    pin(axes, [], across=True)
    pin(axes, [], across=False)
    assert (axes.get_xlim(), axes.get_ylim(), len(axes.lines)) == before
