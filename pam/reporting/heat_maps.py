"""Arrange the weights of attention maps for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd


def maps(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for each row its symbols and each model's label and weights (source x target).

    The difference of two models, second minus first, is added as a third one.
    """
    parts: list[dict[str, Any]] = []
    for number, row in data.groupby("row", sort=False):
        models = []
        symbols = {}

        for label, cells in row.groupby("label", sort=False):
            for side in ("source", "target"):
                is_repeated = cells[f"{side}_place"].astype(int).duplicated()
                symbols[side] = list(cells[side][~is_repeated])
            # The cells of a row are in the order of target symbols, then of source symbols.
            shape = (len(symbols["target"]), len(symbols["source"]))
            weights = cells["weight"].astype(float).to_numpy().reshape(shape).T
            models.append((label, weights.tolist()))

        if len(models) == 2:
            (first_label, first), (second_label, second) = models
            difference = [
                [b - a for a, b in zip(*lines, strict=True)]
                for lines in zip(first, second, strict=True)
            ]
            models.append((f"{second_label} − {first_label}", difference))
        part = {"number": number, "models": models, **symbols}
        parts.append(part | {"heading": heading(symbols["source"], symbols["target"])})

    return parts


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
