"""Draw the weights of attention as a heat map, the same way in figures and in the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pam.data.vocabulary import END

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

END_SIGN = "⏎"  # how it is shown
UPRIGHT = 2  # letters of the longest target symbols that are not turned
_LABEL_SIZE = 7.5  # points


def draw(
    axes: Axes,
    weights: NDArray[np.float64],
    source: Sequence[str],
    target: Sequence[str],
    palette: str = "Blues",
    low: float = 0.0,
) -> QuadMesh:
    """Draw a heat map as rectangles, source symbols downwards, target symbols to the right.

    Letters stand upright; longer target symbols are turned, as words find no room otherwise.

    Args:
        weights: (source, target).
        low: the weight at the lower end of the palette; 1 is at the upper end.
    """
    cells = axes.pcolormesh(
        np.arange(len(target) + 1) - 0.5,
        np.arange(len(source) + 1) - 0.5,
        weights,
        cmap=palette,
        vmin=low,
        vmax=1,
        edgecolors="#eeeeee",
        linewidth=0.5,
    )
    axes.set_ylim(len(source) - 0.5, -0.5)

    axes.set_yticks(range(len(source)), [signed(symbol) for symbol in source])
    axes.set_xticks(range(len(target)), [signed(symbol) for symbol in target])
    for label in axes.get_xticklabels():
        if len(label.get_text()) > UPRIGHT:
            label.set_rotation(90)
    axes.tick_params(length=0, labelsize=_LABEL_SIZE)
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    return cells


def signed(symbol: str) -> str:
    """Return a symbol as it is shown: the end has a sign of its own."""
    return END_SIGN if symbol == END else symbol
