"""`train`: one model on one prepared data set."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pam.config import RunConfig
    from pam.data.dataset import Examples, Prepared
    from pam.models.model import Model
    from pam.training.checkpoint import Progress, Weights
    from pam.training.distributed import ProcessGroup
    from pam.training.preemption import Deadline, Stop

HELP = "train one model; goes on from its last state if it was stopped"
log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, help="resolved configuration (run.yaml)")
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
    parser.add_argument(
        "--processes", type=int, default=1, help="that share the training, on GPUs one each"
    )


def run(args: argparse.Namespace) -> int:
    from pam.training import distributed
    from pam.training.preemption import Deadline

    deadline, launched = Deadline.of_job(), distributed.launched()
    if args.processes > 1 and not launched:
        code = distributed.launch(args.processes, sys.argv[1:])
    else:
        code = _work(args, deadline)
    # Of several processes, what launched them speaks to the scheduler, when all have ended.
    if code and deadline.near and not launched:
        deadline.requeue()
    return code


def _work(args: argparse.Namespace, deadline: Deadline) -> int:
    """What one process does, be it the only one or one of several."""
    from pam.training import distributed
    from pam.training.preemption import Stop, Stopped

    launcher = os.getppid() if distributed.launched() else None
    stop = Stop(lambda: deadline.near, launcher)
    try:
        with distributed.joined(args.device) as group:
            _make(args, group, stop)
    except Stopped as stopped:
        return stopped.code
    return 0


def _make(args: argparse.Namespace, group: ProcessGroup, stop: Stop) -> None:
    """Makes the results: trains, unless this very training is finished already."""
    from pam.config import load_run
    from pam.data.dataset import Prepared
    from pam.fingerprint import fingerprint, model_modules
    from pam.io import UserError
    from pam.models.build import parameters_of
    from pam.training.checkpoint import Results, StateFolder, locked
    from pam.training.devices import keep_heap, limit_threads
    from pam.training.logging import Reporter, Silence
    from pam.training.trainer import Trainer

    keep_heap()
    limit_threads()
    run, data = load_run(args.run), Prepared(args.data)
    if run.components.members:
        raise UserError(
            f"`{run.model}` is joined from other models and has no training",
            file=args.run,
            hint="put it among the experiment's `models`, or use `pam join`",
        )
    train, dev = (_examples(data, name, run) for name in ("train", "dev"))
    # What the model will be saved with is read now: a fault must not show after the training.
    _ = data.summary, data.codec
    code = args.code or fingerprint("pam.commands.train", *model_modules(run))
    key, state = _key(run, data, code), args.state or args.out / "state"
    with locked(state) if group.is_main else nullcontext():
        results, states = Results(state / "finished", key), StateFolder(state, key)
        # The other processes wait here for the first, which has waited for the lock.
        (whole,) = group.gather(group.is_main and results.whole())
        if any(whole):
            log.info("finished already: to train it once more, delete %s", results.folder)
        else:
            model = _fresh(run, data, group)
            name = f"{run.task}/{run.model}/seed{run.seed}"
            reporter = Reporter(name, args.out / "events") if group.is_main else Silence()
            with stop.handle_signals():
                trainer = Trainer(run, model, train, dev, states, reporter, group, stop)
                weights, progress = trainer.run()
            if group.is_main:
                results.clear()
                _write(results.folder, run, data, weights, progress)
                _write_record(results.folder, run, progress, parameters_of(model), group)
                results.complete()
                states.clear()
        if group.is_main:
            results.publish(args.out)


def _fresh(run: RunConfig, data: Prepared, group: ProcessGroup) -> Model:
    """The model with its first weights, which the seed decides."""
    import torch

    from pam.models.build import build
    from pam.training.devices import enough_for

    torch.manual_seed(run.seed)
    with enough_for("making the network", "lower the sizes in `network`"):
        model = build(run.components, run.network, len(data.source), len(data.target))
        return model.to(group.device)


def _examples(data: Prepared, name: str, run: RunConfig) -> Examples:
    """The rows of a split.

    Raises:
        UserError: there are none, or not what the model learns from; names the file.
    """
    from pam.data.dataset import Examples
    from pam.io import UserError

    split, path = data.split(name), data.folder / f"{name}.safetensors"
    if len(split) == 0:
        raise UserError("no rows", file=path, hint="prepare data that has some")
    try:
        return Examples(split, run.components.targets)
    except UserError as error:
        raise UserError(error.message, file=path, hint=error.hint) from error


def _key(run: RunConfig, data: Prepared, code: str) -> str:
    """What decides a training's result; a state with another key is not gone on from."""
    files = ("train.safetensors", "dev.safetensors", "source.vocab", "target.vocab")
    # The files have been read, and held to what the summary says of them.
    parts = [json.dumps(run.training_config(), sort_keys=True), code]
    parts += [data.summary["outputs_sha256"][name] for name in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _write(
    folder: Path, run: RunConfig, data: Prepared, weights: Weights, progress: Progress
) -> None:
    """Writes the model and its history."""
    from pam.decoding import length_prior
    from pam.models.checkpoint import save_model
    from pam.training.logging import write_history

    lengths = length_prior.LengthPrior.of(data.split("train"))
    lengths.save(folder / "model" / length_prior.FILE)
    save_model(folder / "model", run, data.summary["task"], data.folder, weights)
    write_history(folder / "history.csv", progress.history)


def _write_record(
    folder: Path, run: RunConfig, progress: Progress, parameters: int, group: ProcessGroup
) -> None:
    """Writes cost, origin and outcome; peaks of memory are the first process's."""
    from pam.io import write_json
    from pam.training.logging import hardware, peak_gpu_memory_mb, peak_memory_mb, versions

    best: dict[str, Any] = progress.best or {}
    last = progress.history[-1]
    record = {
        "wall_s": progress.wall_s,
        "cpu_s": progress.cpu_s,
        "gpu_s": progress.gpu_s,
        "device": str(group.device),
        "processes": group.size,
        "hardware": hardware(group.device),
        "versions": versions(),
        "seed": run.seed,
        "epochs": len(progress.history),
        "best_epoch": best.get("epoch"),
        "dev_accuracy": best.get("dev_accuracy"),
        "dev_loss": best.get("dev_loss"),
        "parameters": parameters,
        "examples_per_second": last["examples"] / progress.wall_s,
        "tokens_per_second": last["tokens"] / progress.wall_s,
        "peak_memory_mb": peak_memory_mb(),
        "peak_gpu_memory_mb": peak_gpu_memory_mb(group.device),
        "resumed": progress.resumed,
        "command": shlex.join(["python", "-m", "pam", *sys.argv[1:]]),
    }
    write_json(folder / "training.json", record)
