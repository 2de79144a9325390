"""`attend`: alignments of a trained model under teacher forcing, for heat maps."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

LEGIBLE = range(6, 19)
"""Symbols, end symbol included, of a heat map worth a look in which they can be read."""

HELP = "write the alignments of a model for rows of a prepared split, under teacher forcing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model folder of a training")
    parser.add_argument("--data", type=Path, required=True, help="prepared data")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--out", type=Path, required=True, help="attention.json")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--rows", help="row numbers from 0, separated by commas")
    chosen.add_argument("--count", type=int, default=4, help="so many telling rows, spread evenly")


def run(args: argparse.Namespace) -> int:
    import torch

    from pam.data.vocabulary import EOS
    from pam.decoding.generator import prepared_for
    from pam.io import UserError, write_json
    from pam.models.checkpoint import load_model

    model = load_model(args.model)
    if model.run.components.targets == "actions":
        raise UserError(
            f"{model.run.label} writes pointer actions, of which test rows have none",
            hint="choose a model with `targets: symbols`",
        )
    codec = model.codec
    rows = prepared_for(model, args.data).rows(args.split)

    def symbols(number: int) -> tuple[list[str], list[str]]:
        row = rows[number]
        return codec.source_symbols(row[:-1]), codec.target_symbols(row[-1])

    def legible(number: int) -> bool:
        return all(len(side) + 1 in LEGIBLE for side in symbols(number))

    described = []
    for number in _chosen(args, rows, legible):
        source, target = symbols(number)
        source_ids = torch.tensor([[*model.source.encode(source), EOS]])
        target_ids = torch.tensor([[*model.target.encode(target), EOS]])
        with torch.no_grad():
            aligned = model.network.teacher_forced(
                source_ids, torch.tensor([source_ids.shape[1]]), target_ids
            )
        described.append(
            {
                **dict(zip(codec.columns, rows[number], strict=True)),
                "row": number,
                "source": [*source, "</s>"],
                "target": [*target, "</s>"],
                "prior": _rounded(aligned.prior[0].tolist()),
                "alignment": _rounded(aligned.alignment[0].tolist()),
            }
        )
    run = model.run
    write_json(args.out, {"model": run.model, "label": run.label, "rows": described})
    return 0


def telling_rows(
    rows: Sequence[tuple[str, ...]], wanted: int, legible: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Numbers of rows to look at: spread evenly, and each worth a look.

    From places spread evenly over the split, each time the first row from there on whose target
    is not simply its first column, that is neither too short nor too long, and whose middle
    columns (such as features) have not been shown; if there is none, a row that meets the first
    wishes, or the last, or any.
    """
    count = len(rows)
    chosen: list[int] = []
    for place in range(min(wanted, count)):
        start = (2 * place + 1) * count // (2 * min(wanted, count))
        walk = [number % count for number in range(start, start + count)]
        shown = {rows[number][1:-1] for number in chosen}
        chosen.append(
            min(
                (number for number in walk if number not in chosen),
                key=lambda n: (rows[n][-1] == rows[n][0], not legible(n), rows[n][1:-1] in shown),
            )
        )
    return sorted(chosen)


def _chosen(
    args: argparse.Namespace,
    found: Sequence[tuple[str, ...]],
    legible: Callable[[int], bool],
) -> list[int]:
    from pam.io import UserError

    count = len(found)
    if args.rows is None:
        if args.count < 1:
            raise UserError(f"--count {args.count}", hint="use a whole number, at least 1")
        return telling_rows(found, args.count, legible)
    try:
        rows = [int(part) for part in args.rows.split(",")]
    except ValueError as error:
        raise UserError(f"--rows {args.rows}", hint="write numbers, such as 0,5,9") from error
    for row in rows:
        if not 0 <= row < count:
            raise UserError(f"there is no row {row}", hint=f"use 0 to {count - 1}")
    return rows


def _rounded(matrix: list[list[float]]) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in matrix]
