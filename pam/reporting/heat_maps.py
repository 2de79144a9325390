"""Arrange the weights of attention maps for the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

SHOWN = 2  # models that are shown at first, with their difference
DIGITS = 3  # of a weight


def maps(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for each row its symbols and each model's label and weights (source x target).

    `shown` has the first two models, then their difference, second minus first; `models` has all.
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
            weights = cells["weight"].astype(float).round(DIGITS).to_numpy().reshape(shape).T
            models.append((label, weights.tolist()))

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
