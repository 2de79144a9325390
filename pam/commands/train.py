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
        type=Path,
        required=required,
        metavar="DIR",
        help=f"folder of a run, results/EXPERIMENT/TASK/MODEL/seedK, with {files}",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declares the option that takes the place of run.yaml; see `run_folder`."""
    parser.add_argument("--config", metavar="YAML", help="the run's configuration (default: that in run.yaml)")


def run_folder(args: argparse.Namespace) -> RunFolder:
    """The folder that --run names, with the configuration that --config gives."""
    return RunFolder(args.run, args.config)


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def add_train(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "run.yaml; results are written there")
    add_config(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="prepared data (default: those of the run's task)")
    parser.add_argument("--state", type=Path, metavar="DIR", help="the training's state (default: RUN/state)")
    add_device(parser)
    parser.add_argument(
        "--code", help="what the code is; a state of other code is not gone on from; None: its fingerprint"
    )
    parser.add_argument("--processes", type=int, default=1, help="that share the training, on GPUs one each")


def run_train(args: argparse.Namespace) -> int:
    from pam.training.run import train

    run = run_folder(args)
    data, state = args.data or run.data(), args.state or run.path / "state"
    return train(run, data, state, args.device, args.code, args.processes)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "run.yaml of an ensemble, beside the runs of its members")
    add_config(parser)


def run_ensemble(args: argparse.Namespace) -> int:
    from pam.training.run import join

    join(run_folder(args))
    return 0


TRAIN = Command("train one model; goes on from its last state if it was stopped", add_train, run_train)
ENSEMBLE = Command("join trained models to an ensemble", add_ensemble, run_ensemble)
