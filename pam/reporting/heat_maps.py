"""Arrange the weights of attention maps for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

SHOWN = 2  # models that are shown at first, with their difference
DIGITS = 3  # of a weight
SLIGHT = 0.05  # a change of a weight that is hardly seen
CLEAR = 0.3  # weight that a square gains where a picture shows the method


def maps(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for each row its symbols and each model's label and weights (source x target).

    `shown` has the first two models, then their difference, second minus first; `models` has all.
    """
    parts: list[dict[str, Any]] = []
    for number, row in data.groupby("row", sort=False):
        models = []
        symbols: dict[str, list[str]] = {}
        for label, cells in row.groupby("label", sort=False):
            symbols = _symbols(cells)
            models.append((label, _weights(cells, symbols, "weight")))

        first_maps = models[:SHOWN]
        if len(first_maps) == SHOWN:
            (first_label, first), (second_label, second) = first_maps
            difference = [
                [b - a for a, b in zip(*lines, strict=True)]
                for lines in zip(first, second, strict=True)
            ]
            first_maps.append((f"{second_label} − {first_label}", difference))
        part = {"number": number, "models": models, "shown": first_maps, **symbols}
        parts.append(part | {"heading": heading(symbols["source"], symbols["target"])})

    return parts


class Moved(NamedTuple):
    """Attention of one model on one row before and after each symbol is written."""

    label: str  # of the model
    heading: str
    source: list[str]
    target: list[str]
    maps: list[tuple[str, list[list[float]]]]  # heading, weights (source x target)
    place: tuple[int, int]  # source and target of the square that gains most

    @property
    def weights(self) -> tuple[float, float]:
        """The weights of that square, before and after."""
        source, target = self.place
        before, after = (weights[source][target] for _, weights in self.maps)
        return before, after

    @property
    def is_slight(self) -> bool:
        """Whether even that square hardly changes."""
        return self.shift < SLIGHT

    @property
    def shift(self) -> float:
        """How much weight that square gains."""
        before, after = self.weights
        return after - before


def moved(data: pd.DataFrame, most_cells: int) -> Moved | None:
    """Choose the row and the model whose attention a written symbol moves most.

    Args:
        most_cells: of a map that is shown.

    Returns:
        None where no model has a posterior, or where the data have no prior.
    """
    if "prior" not in data:
        return None
    candidates = [row for row in _moved(data) if len(row.source) * len(row.target) <= most_cells]
    if not candidates:
        return None
    return max(candidates, key=lambda row: row.shift)


def first_clear(found: Sequence[Moved]) -> Moved | None:
    """Choose the first row on which attention moves clearly, else that on which it moves most."""
    for row in found:
        if row.shift >= CLEAR:
            return row
    return max(found, key=lambda row: row.shift, default=None)


def _moved(data: pd.DataFrame) -> Iterator[Moved]:
    """Yield each row of each model whose posterior is another than its prior."""
    for (_, label), cells in data.groupby(["row", "label"], sort=False):
        if (cells["prior"] == "").any() or (cells["prior"] == cells["weight"]).all():
            continue

        symbols = _symbols(cells)
        before = _weights(cells, symbols, "prior")
        after = _weights(cells, symbols, "weight")
        gains = {
            (source, target): after[source][target] - before[source][target]
            for source in range(len(symbols["source"]))
            for target in range(len(symbols["target"]))
        }
        yield Moved(
            label=str(label),
            heading=heading(symbols["source"], symbols["target"]),
            maps=[("Prior", before), ("Posterior", after)],
            place=max(gains, key=gains.__getitem__),
            **symbols,
        )


def _symbols(cells: pd.DataFrame) -> dict[str, list[str]]:
    """Return the symbols of source and target of a row of one model."""
    return {
        side: list(cells[side][~cells[f"{side}_place"].astype(int).duplicated()])
        for side in ("source", "target")
    }


def _weights(cells: pd.DataFrame, symbols: dict[str, list[str]], column: str) -> list[list[float]]:
    """Return a column of weights (source x target) of a row of one model."""
    # The cells of a row are in the order of target symbols, then of source symbols.
    shape = (len(symbols["target"]), len(symbols["source"]))
    weights = cells[column].astype(float).round(DIGITS).to_numpy().reshape(shape).T
    return [list(map(float, line)) for line in weights]


def weights_of(parts: Sequence[dict[str, Any]]) -> str:
    """Return the weights of all models as JSON, from which the page draws those that are chosen.

    It can stand in a script element: it has no character that could end one.

    Returns:
        `labels` of the models, and for each row of each model its weights (source x target).
    """
    labels = [label for label, _ in parts[0]["models"]]
    by_model = [[part["models"][index][1] for part in parts] for index in range(len(labels))]
    content = {"labels": labels, "weights": by_model}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


END = "</s>"  # the symbol that ends a source or an output


def heading(source: Sequence[str], target: Sequence[str]) -> str:
    """Return a row in words, such as `Krakeelerin → Krakeelerinnen`.

    Outputs of letters belong to a word with features, which are no letters and are left out.
    """
    source = [symbol for symbol in source if symbol != END]
    target = [symbol for symbol in target if symbol != END]
    if all(len(symbol) == 1 for symbol in target):
        letters = [symbol for symbol in source if len(symbol) == 1]
        return f"{''.join(letters)} → {''.join(target)}"
    return f"{' '.join(source)} → {' '.join(target)}"
