"""`train` and `ensemble`: from a run's configuration to its model."""

from __future__ import annotations

import argparse
from pathlib import Path

from pam.commands import Command
from pam.run_folder import RunFolder


def add_run(parser: argparse.ArgumentParser, files: str, required: bool = True) -> None:
    """Declares the option that names a run."""
    parser.add_argument(
        "--run",
        type=lambda path: RunFolder(Path(path)),
        required=required,
        metavar="DIR",
        help=f"folder of a run, results/EXPERIMENT/TASK/MODEL/seedK, with {files}",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def add_train(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "run.yaml; results are written there")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="prepared data (default: those of the run's task)"
    )
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="the training's state (default: RUN/state)"
    )
    add_device(parser)
    parser.add_argument(
        "--code",
        help="what the code is; a state of other code is not gone on from; None: its fingerprint",
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="that share the training, on GPUs one each"
    )


def run_train(args: argparse.Namespace) -> int:
    from pam.training.run import train

    data, state = args.data or args.run.data(), args.state or args.run.path / "state"
    return train(args.run, data, state, args.device, args.code, args.processes)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "run.yaml of an ensemble, beside the runs of its members")


def run_ensemble(args: argparse.Namespace) -> int:
    from pam.training.ensemble import join

    join(args.run)
    return 0


TRAIN = Command(
    "train one model; goes on from its last state if it was stopped", add_train, run_train
)
ENSEMBLE = Command("join trained models to an ensemble", add_ensemble, run_ensemble)
