"""`train`: one model on one prepared data set."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from pam.config import Cell
    from pam.data.batches import Examples
    from pam.data.prepared import Prepared
    from pam.training.state import Progress

HELP = "train one model; goes on from its last state if it was stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cell", type=Path, required=True, help="resolved configuration (cell.yaml)"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="prepared data, made by `pam prepare`"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--state", type=Path, help="folder of the training's state (default: OUT/state)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument(
        "--code",
        help="what the code is; a state of other code is not gone on from; None: its fingerprint",
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from pam.config import load_cell
    from pam.data.prepared import Prepared
    from pam.decoding import length_prior
    from pam.fingerprint import fingerprint, model_modules
    from pam.models.build import build, parameters_of
    from pam.models.saved import save_model
    from pam.training.devices import choose_device, limit_threads
    from pam.training.loop import Trainer
    from pam.training.memory import keep_heap
    from pam.training.progress import Reporter
    from pam.training.record import write_history
    from pam.training.state import StateFolder, locked

    keep_heap()
    limit_threads()
    cell, data = load_cell(args.cell), Prepared(args.data)
    train, dev = (_examples(data, name, cell) for name in ("train", "dev"))
    # What the model will be saved with is read now: a fault must not show after the training.
    for part in ("summary", "codec"):
        getattr(data, part)
    device = choose_device(args.device)
    state = args.state or args.out / "state"
    with locked(state):
        torch.manual_seed(cell.seed)
        model = build(cell.choices, cell.network, len(data.source), len(data.target)).to(device)
        name = f"{cell.task}/{cell.model}/seed{cell.seed}"
        code = args.code or fingerprint("pam.verbs.train", *model_modules(cell.choices))
        states = StateFolder(state, _key(cell, data, code))
        reporter = Reporter(name, args.out / "events")
        weights, progress = Trainer(cell, model, train, dev, states, reporter, device).run()
        length_prior.LengthPrior.of(data.split("train")).save(
            args.out / "model" / length_prior.FILE
        )
        save_model(args.out / "model", cell, data, weights)
        write_history(args.out / "history.csv", progress.history)
        _write_record(args.out, cell, progress, parameters_of(model), device)
        states.clear()
    return 0


def _examples(data: Prepared, name: str, cell: Cell) -> Examples:
    """The rows of a split.

    Raises:
        UserError: there are none, or not what the model learns from; names the file.
    """
    from pam.data.batches import Examples
    from pam.errors import UserError

    split, path = data.split(name), data.folder / f"{name}.safetensors"
    if len(split) == 0:
        raise UserError("no rows", file=path, remedy="prepare data that has some")
    try:
        return Examples(split, cell.choices.targets)
    except UserError as error:
        raise UserError(error.message, file=path, remedy=error.remedy) from error


def _key(cell: Cell, data: Prepared, code: str) -> str:
    """What decides a training's result; a state with another key is not gone on from."""
    from pam.config import dump_yaml

    parts = [dump_yaml(cell), code]
    parts += [data.split(name).content for name in ("train", "dev")]
    parts += [data.source.digest, data.target.digest]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _write_record(
    out: Path, cell: Cell, progress: Progress, parameters: int, device: torch.device
) -> None:
    from pam.files import write_json
    from pam.training.record import hardware, peak_gpu_memory_mb, peak_memory_mb, versions

    best: dict[str, Any] = progress.best or {}
    last = progress.history[-1]
    write_json(
        out / "training.json",
        {
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
            "gpu_s": progress.gpu_s,
            "device": str(device),
            "hardware": hardware(device),
            "versions": versions(),
            "seed": cell.seed,
            "epochs": len(progress.history),
            "best_epoch": best.get("epoch"),
            "dev_accuracy": best.get("dev_accuracy"),
            "dev_loss": best.get("dev_loss"),
            "parameters": parameters,
            "examples_per_second": last["examples"] / progress.wall_s,
            "tokens_per_second": last["tokens"] / progress.wall_s,
            "peak_memory_mb": peak_memory_mb(),
            "peak_gpu_memory_mb": peak_gpu_memory_mb(device),
            "resumed": progress.resumed,
            "command": shlex.join(["python", "-m", "pam", *sys.argv[1:]]),
        },
    )
