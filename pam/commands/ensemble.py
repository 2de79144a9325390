"""`join`: trained models to one that decodes by the mean of their distributions."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from pam.models.checkpoint import SavedModel

HELP = "join trained models to an ensemble"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, help="run.yaml of the ensemble")
    parser.add_argument(
        "--models", type=Path, nargs="+", required=True, help="model folders, in its order"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")


def run(args: argparse.Namespace) -> int:
    import torch

    from pam.config import load_run
    from pam.decoding import length_prior
    from pam.io import write_text
    from pam.models.checkpoint import load_model, save_model
    from pam.training.logging import Stopwatch

    watch = Stopwatch(torch.device("cpu"))
    run = load_run(args.run)
    members = [load_model(folder) for folder in args.models]
    _check(args.models, members)
    folder = args.out / "model"
    lengths = args.models[0] / length_prior.FILE
    write_text(folder / length_prior.FILE, lengths.read_text(encoding="utf-8"))
    save_model(folder, run, members[0].task, args.models[0], _weights(members))
    load_model(folder)  # whether the run says of the members what they are
    _write_record(args, run.seed, members, watch.restart())
    return 0


def _check(folders: list[Path], members: list[SavedModel]) -> None:
    """Checks that all read and write the same symbols.

    Raises:
        UserError: one does not; names it.
    """
    from pam.io import UserError, sha256_of
    from pam.models.checkpoint import belongings

    for folder, member in zip(folders[1:], members[1:], strict=True):
        for name in belongings(member.task):
            first = folders[0] / name
            if not first.is_file() or sha256_of(first) != sha256_of(folder / name):
                raise UserError(
                    f"its symbols are not those of {first}",
                    file=folder / name,
                    hint="join models that were trained on the same prepared data",
                )


def _weights(members: list[SavedModel]) -> dict[str, Tensor]:
    return {
        f"members.{place}.{name}": tensor
        for place, member in enumerate(members)
        for name, tensor in member.network.state_dict().items()
    }


def _write_record(
    args: argparse.Namespace,
    seed: int,
    members: list[SavedModel],
    spent: tuple[float, float, float],
) -> None:
    """Writes cost and origin. The cost is that of joining: trainings are counted with the members,
    once."""
    import torch

    from pam.io import write_json
    from pam.models.build import parameters_of
    from pam.training.logging import hardware, versions

    record = {
        **dict(zip(("wall_s", "cpu_s", "gpu_s"), spent, strict=True)),
        "device": "cpu",
        "hardware": hardware(torch.device("cpu")),
        "versions": versions(),
        "seed": seed,
        "parameters": sum(parameters_of(member.network) for member in members),
        "members": [str(folder) for folder in args.models],
        "command": shlex.join(["python", "-m", "pam", *sys.argv[1:]]),
    }
    write_json(args.out / "training.json", record)
