"""`attend`: alignments of a trained model under teacher forcing, for heat maps."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write the alignments of a model for rows of a prepared split, under teacher forcing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model folder of a training")
    parser.add_argument("--data", type=Path, required=True, help="prepared data")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--out", type=Path, required=True, help="attention.json")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--rows", help="row numbers from 0, separated by commas")
    chosen.add_argument("--count", type=int, default=4, help="so many rows, spread evenly")


def run(args: argparse.Namespace) -> int:
    import torch

    from pam.data.prepared import Prepared
    from pam.data.tasks import load_task
    from pam.data.vocabulary import EOS
    from pam.errors import UserError
    from pam.files import write_json
    from pam.models.saved import load_model

    model = load_model(args.model)
    if model.cell.choices.targets == "actions":
        raise UserError(
            f"{model.cell.label} writes pointer actions, of which test rows have none",
            remedy="choose a model with `targets: symbols`",
        )
    task = load_task(model.task)
    rows = Prepared(args.data).rows(args.split)
    described = []
    for number in _chosen(args, len(rows)):
        row = rows[number]
        source, target = task.source_symbols(row[:-1]), task.target_symbols(row[-1])
        source_ids = torch.tensor([[*model.source.encode(source), EOS]])
        target_ids = torch.tensor([[*model.target.encode(target), EOS]])
        with torch.no_grad():
            aligned = model.network.teacher_forced(
                source_ids, torch.tensor([source_ids.shape[1]]), target_ids
            )
        described.append(
            {
                **dict(zip(task.COLUMNS, row, strict=True)),
                "row": number,
                "source": [*source, "</s>"],
                "target": [*target, "</s>"],
                "prior": _rounded(aligned.prior[0].tolist()),
                "alignment": _rounded(aligned.alignment[0].tolist()),
            }
        )
    cell = model.cell
    write_json(args.out, {"model": cell.model, "label": cell.label, "rows": described})
    return 0


def _chosen(args: argparse.Namespace, count: int) -> list[int]:
    from pam.errors import UserError

    if args.rows is None:
        wanted = min(args.count, count)
        return [(2 * place + 1) * count // (2 * wanted) for place in range(wanted)]
    try:
        rows = [int(part) for part in args.rows.split(",")]
    except ValueError as error:
        raise UserError(f"--rows {args.rows}", remedy="write numbers, such as 0,5,9") from error
    for row in rows:
        if not 0 <= row < count:
            raise UserError(f"there is no row {row}", remedy=f"use 0 to {count - 1}")
    return rows


def _rounded(matrix: list[list[float]]) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in matrix]
