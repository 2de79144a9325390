"""Alignments of a trained model for a few rows, to be drawn as heat maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pam.data.vocabulary import EOS
from pam.decoding.generator import prepared_for
from pam.io import UserError
from pam.models.checkpoint import SavedModel

LEGIBLE = range(6, 19)
"""Symbols, end symbol included, of a heat map worth a look in which they can be read."""


def heat_maps(
    model: SavedModel, data: Path, split: str, count: int, rows: Sequence[int] | None = None
) -> dict[str, Any]:
    """Prior and posterior attention of rows of a split, under teacher forcing.

    Args:
        data: folder of prepared data.
        count: how many telling rows to choose, where `rows` does not name them.
        rows: numbers of rows, from 0.

    Raises:
        UserError: there is no such row, or the data are not the model's.
    """
    codec, table = model.codec, prepared_for(model, data).rows(split)

    def symbols(number: int) -> tuple[list[str], list[str]]:
        row = table[number]
        return codec.source_symbols(row[:-1]), codec.target_symbols(row[-1])

    def legible(number: int) -> bool:
        return all(len(side) + 1 in LEGIBLE for side in symbols(number))

    for number in rows or ():
        if not 0 <= number < len(table):
            raise UserError(f"there is no row {number}", hint=f"use 0 to {len(table) - 1}")
    chosen = telling_rows(table, count, legible) if rows is None else rows
    maps = [
        {**dict(zip(codec.columns, table[number], strict=True)), "row": number, **_aligned(model, *symbols(number))}
        for number in chosen
    ]
    return {"model": model.run.model, "label": model.run.label, "rows": maps}


def _aligned(model: SavedModel, source: list[str], target: list[str]) -> dict[str, Any]:
    """A row's symbols and its attention, one list of source positions for each target symbol."""
    source_ids = torch.tensor([[*model.source.encode(source), EOS]])
    target_ids = torch.tensor([[*model.target.encode(target), EOS]])
    with torch.no_grad():
        aligned = model.network.teacher_force(source_ids, torch.tensor([source_ids.shape[1]]), target_ids)
    return {
        "source": [*source, "</s>"],
        "target": [*target, "</s>"],
        "prior": _rounded(aligned.prior[0].tolist()),
        "alignment": _rounded(aligned.alignment[0].tolist()),
    }


def telling_rows(
    rows: Sequence[tuple[str, ...]], count: int, legible: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Numbers of rows to look at: spread evenly, and each worth a look.

    From places spread evenly over the split, each time the first row from there on whose target is not simply its first
    column, that is neither too short nor too long, and whose middle columns (such as features) have not been shown; if
    there is none, a row that meets the first wishes, or the last, or any.
    """
    total = len(rows)
    chosen: list[int] = []
    for place in range(min(count, total)):
        start = (2 * place + 1) * total // (2 * min(count, total))
        walk = [number % total for number in range(start, start + total)]
        shown = {rows[number][1:-1] for number in chosen}
        chosen.append(
            min(
                (number for number in walk if number not in chosen),
                key=lambda n: (rows[n][-1] == rows[n][0], not legible(n), rows[n][1:-1] in shown),
            )
        )
    return sorted(chosen)


def _rounded(matrix: list[list[float]]) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in matrix]
