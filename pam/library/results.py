"""What a trained model answers: outputs, likelihoods and attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pam.runtime.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

# of a heat map
INCHES_PER_SYMBOL = 0.28
FEWEST_SYMBOLS = 6  # symbols for which a map has room, however few it has

Floats = NDArray[np.float64]


class InputWarning(UserWarning):
    """Tells what a model does not know, or does not read, of a source."""


@dataclass(frozen=True)
class Prediction:
    """One output for a source.

    Attributes:
        text: the output as people write it.
        score: the number that ranks outputs of a source; `log_prob` without a length penalty.
        log_prob: log p(text | source) in nats, end symbol included.
        complete: False if the length limit cut the output short.
        symbols: n symbols of the output, with the end symbol if it is complete.
        log_probs: (n,) log p(y_t | y_<t, x) in nats; None without `details`.
        attention: the attention of these symbols; None without `details`.
        copied: (n,) probability that each symbol was copied from the source, given the symbol; None
            without `details`, and in models that copy nothing.
    """

    text: str
    score: float
    log_prob: float
    complete: bool
    symbols: list[str] = field(compare=False, repr=False)
    log_probs: Floats | None = field(default=None, compare=False, repr=False)
    attention: AttentionMap | None = field(default=None, compare=False, repr=False)
    copied: Floats | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Score:
    """The likelihood of a target, symbol by symbol.

    Attributes:
        symbols: n target symbols, the end symbol included.
        log_probs: (n,) log p(y_t | y_<t, x) in nats.
        unseen: those of the symbols that the model cannot write. Their log p is that of the unknown
            symbol, which stands for all of them, and so too high.
    """

    symbols: list[str]
    log_probs: Floats
    unseen: list[str] = field(default_factory=list)

    @property
    def log_prob(self) -> float:
        """log p(target | source) in nats."""
        return float(self.log_probs.sum())

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood of a symbol."""
        return float(np.exp(-self.log_probs.mean()))


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of n target symbols over m source positions.

    The end symbol is one of the n. Each row sums to one.

    Attributes:
        label: the model's name in tables.
        source: m source symbols, as many as the model reads.
        target: n target symbols.
        prior: (n, m) attention before the target symbol is seen.
        alignment: (n, m) attention that is fed to the next decoder state: the posterior in
            Postr-Joint, the prior in Soft.
        posterior: (n, m) attention once the target symbol is seen; None in models like Soft.

    The posterior is equation 12 of Shankar and Sarawagi (2019). It needs a likelihood of each
    position, which models with `marginalization: output` have.
    """

    label: str
    source: list[str]
    target: list[str]
    prior: Floats
    alignment: Floats
    posterior: Floats | None

    def __post_init__(self) -> None:
        """Check that each symbol has its row or column."""
        shape = (len(self.target), len(self.source))
        for weights in (self.prior, self.alignment, self.posterior):
            if weights is not None and weights.shape != shape:
                raise ValueError(f"weights {weights.shape}, expected {shape}")

    def plot(self, axes: Axes | None = None, which: str | None = None) -> Axes:
        """Draw heat maps: source symbols downwards, target symbols to the right.

        Args:
            axes: where to draw one map; None: a new figure with a scale.
            which: `prior`, `alignment` or `posterior`; None: in a new figure prior and posterior
                side by side, or else the alignment alone.

        Returns:
            The axes of the last map; its figure is `axes.figure`.

        Raises:
            UserError: the model has no such attention.
        """
        import matplotlib.pyplot as plt

        from pam.reporting.fonts import find_fonts

        kinds = [which or "alignment"]
        if axes is None and which is None and self.posterior is not None:
            kinds = ["prior", "posterior"]
        maps = [self._weights_of(kind) for kind in kinds]

        if axes is not None:
            self._draw(axes, maps[0], f"{self.label}, {kinds[0]}")
            find_fonts(axes)
            return axes

        width = 1.9 + len(maps) * (0.6 + INCHES_PER_SYMBOL * max(FEWEST_SYMBOLS, len(self.target)))
        height = 1.5 + INCHES_PER_SYMBOL * len(self.source)
        figure, panels = plt.subplots(
            1,
            len(maps),
            figsize=(width, height),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for panel, weights, kind in zip(panels.flat, maps, kinds, strict=True):
            cells = self._draw(panel, weights, kind)
        figure.colorbar(cells, ax=panels, label="attention")
        figure.suptitle(self.label)
        find_fonts(figure)

        last: Axes = panels.flat[-1]
        return last

    def _weights_of(self, kind: str) -> Floats:
        """Return the weights of a kind, (target, source); a `UserError` if there are none."""
        weights: Floats | None = None
        if kind in ("prior", "alignment", "posterior"):
            weights = getattr(self, kind)
        if weights is None:
            hint = "use `prior` or `alignment`, or a model with `marginalization: output`"
            raise UserError(f"{self.label} has no attention of the kind `{kind}`", hint=hint)
        return weights

    def _draw(self, axes: Axes, weights: Floats, title: str) -> QuadMesh:
        """Draw one map with its title."""
        from pam.reporting.map_drawing import draw

        axes.set_title(title)
        return draw(axes, weights.T, self.source, self.target)
