"""One training, from its run folder to its results: what the command `train` does."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from pam.config import RunConfig
from pam.data.dataset import Examples, Prepared
from pam.decoding.length_prior import FILE as LENGTHS
from pam.decoding.length_prior import LengthPrior
from pam.fingerprint import fingerprint, model_modules
from pam.io import UserError, write_json
from pam.models.build import build, parameters_of
from pam.models.checkpoint import save_model
from pam.models.model import Model
from pam.run_folder import RunFolder, command_line
from pam.training import distributed
from pam.training.checkpoint import Progress, Results, StateFolder, Weights, locked
from pam.training.devices import enough_for, keep_heap, limit_threads
from pam.training.distributed import ProcessGroup
from pam.training.logging import (
    Reporter,
    Silence,
    hardware,
    peak_gpu_memory_mb,
    peak_memory_mb,
    versions,
    write_history,
)
from pam.training.preemption import Deadline, Stop, Stopped
from pam.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(
    run: RunFolder, data: Path, state: Path, device: str = "auto", code: str | None = None, processes: int = 1
) -> int:
    """Trains a model, or goes on from its last state; results are in the run's folder.

    Args:
        data: folder of the prepared data; state: that of the training's state.
        device: auto, cpu or cuda.
        code: what the code is, since a state of other code is not gone on from; None: its fingerprint.
        processes: how many share the training, on GPUs one each.

    Returns:
        0, or the exit code of a training that was stopped and can go on.

    Raises:
        UserError: an error in configuration, data or storage.
    """
    deadline, launched = Deadline.of_job(), distributed.launched()
    if processes > 1 and not launched:
        exit_code = distributed.launch(processes, sys.argv[1:])
    else:
        stop = Stop(lambda: deadline.near, os.getppid() if launched else None)
        try:
            with distributed.joined(device) as group:
                _train_in_group(run, data, state, code, group, stop)
            exit_code = 0
        except Stopped as stopped:
            exit_code = stopped.code
    # Of several processes, what launched them speaks to the scheduler, when all have ended.
    if exit_code and deadline.near and not launched:
        deadline.requeue()
    return exit_code


def _train_in_group(
    folder: RunFolder, data_folder: Path, state: Path, code: str | None, group: ProcessGroup, stop: Stop
) -> None:
    """Makes the results: trains, unless this very training is finished already."""
    keep_heap()
    limit_threads()
    run, data = folder.load(), Prepared(data_folder)
    if run.components.members:
        raise UserError(
            f"`{run.model}` is joined from other models and has no training",
            file=folder.config_file,
            hint="put it among the experiment's `models`, or use `pam ensemble`",
        )
    train, dev = (_examples(data, name, run) for name in ("train", "dev"))
    # What the model will be saved with is read now: an error must not show after the training.
    _ = data.summary, data.codec
    key = _key(run, data, code or fingerprint(__name__, *model_modules(run)))
    with locked(state) if group.is_main else nullcontext():
        results, states = Results(state / "finished", key), StateFolder(state, key)
        # The other processes wait here for the first, which has waited for the lock.
        (whole,) = group.gather(group.is_main and results.whole())
        if any(whole):
            log.info("finished already: to train it once more, delete %s", results.folder)
        else:
            model = _fresh(run, data, group)
            name = f"{run.task}/{run.model}/seed{run.seed}"
            reporter = Reporter(name, folder.path / "events") if group.is_main else Silence()
            with stop.handle_signals():
                trainer = Trainer(run, model, train, dev, states, reporter, group, stop)
                weights, progress = trainer.run()
            if group.is_main:
                results.clear()
                _write_model(results.folder, run, data, weights, progress)
                record = _record(run, progress, parameters_of(model), group)
                write_json(results.folder / "training.json", record)
                results.complete()
                states.clear()
        if group.is_main:
            results.publish(folder.path)


def _fresh(run: RunConfig, data: Prepared, group: ProcessGroup) -> Model:
    """The model with its first weights, which the seed decides."""
    torch.manual_seed(run.seed)
    with enough_for("making the network", "lower the sizes in `network`"):
        model = build(run.components, run.network, len(data.source), len(data.target))
        return model.to(group.device)


def _examples(data: Prepared, name: str, run: RunConfig) -> Examples:
    """The rows of a split.

    Raises:
        UserError: there are none, or not what the model learns from; names the file.
    """
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
    # The files have been read, and checked against what the summary says of them.
    parts = [json.dumps(run.training_config(), sort_keys=True), code]
    parts += [data.summary["outputs_sha256"][name] for name in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _write_model(folder: Path, run: RunConfig, data: Prepared, weights: Weights, progress: Progress) -> None:
    """Writes the model and its history."""
    lengths = LengthPrior.of(data.split("train"))
    lengths.save(folder / "model" / LENGTHS)
    save_model(folder / "model", run, data.summary["task"], data.folder, weights)
    write_history(folder / "history.csv", progress.history)


def _record(run: RunConfig, progress: Progress, parameters: int, group: ProcessGroup) -> dict[str, Any]:
    """Cost, origin and outcome of a training; peaks of memory are the first process's."""
    best: dict[str, Any] = progress.best or {}
    last = progress.history[-1]
    return {
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
        "command": command_line(),
    }
