"""From a run's folder to its model: what the commands `train`, `ensemble` and `reuse` do."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.distributed import is_torchelastic_launched

from pam.config import RunConfig
from pam.data.dataset import Examples, Prepared, Split
from pam.decoding.hypotheses import LENGTHS, LengthPrior
from pam.fingerprint import fingerprint, model_modules
from pam.io import (
    UserError,
    atomic_write,
    read_json,
    sha256_of,
    whole_files,
    write_json,
    write_text,
)
from pam.models.build import build, parameters_of
from pam.models.checkpoint import belongings, load_model, save_model
from pam.models.copying import match
from pam.models.model import Model
from pam.run_folder import RunFolder, command_line
from pam.runtime import devices
from pam.training import distributed
from pam.training.checkpoint import Progress, Results, StateFolder, locked
from pam.training.distributed import ProcessGroup
from pam.training.logging import Reporter, write_history
from pam.training.preemption import Deadline, Stop, Stopped
from pam.training.start import Start, load_starts, take_over
from pam.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(
    run: RunFolder,
    data: Path,
    state: Path,
    device: str = "auto",
    code: str | None = None,
    processes: int = 1,
) -> int:
    """Trains a model on prepared `data`, or goes on from its last `state` of the same `code` (None:
    its fingerprint).

    Results are in the run's folder. Of `processes` that share the training, each has a GPU of its
    own, where there are some. Returns 0, or the exit code of a training that was stopped and can go
    on; errors are UserErrors.
    """
    deadline, launched = Deadline.of_job(), is_torchelastic_launched()  # by torchrun
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
    folder: RunFolder,
    data_folder: Path,
    state: Path,
    code: str | None,
    group: ProcessGroup,
    stop: Stop,
) -> None:
    """Makes the results: trains, unless this very training is finished already."""
    devices.keep_heap()
    devices.limit_threads()
    run, data = folder.load(), Prepared(data_folder)
    if run.components.members:
        hint = "put it among the experiment's `models`, or use `pam ensemble`"
        message = f"`{run.model}` is joined from other models and has no training"
        raise UserError(message, file=folder.config_file, hint=hint)
    train, dev = (_examples(data, name, run) for name in ("train", "dev"))
    starts = load_starts(folder, run, data)
    # What the model will be saved with is read now: an error must not show after the training.
    kind, sums, _ = data.summary["task"], data.summary["outputs_sha256"], data.codec
    code = code or fingerprint(f"{__name__}:train", *model_modules(run))
    files = [
        sums[name]
        for name in ("train.safetensors", "dev.safetensors", "source.vocab", "target.vocab")
    ]
    parts = [
        json.dumps(run.training_config(), sort_keys=True),
        code,
        *files,
        *(start.digest for start in starts),
    ]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    with locked(state) if group.is_main else nullcontext():
        results, states = Results(state / "finished", key), StateFolder(state, key)
        if group.is_main:
            results.take_back()
        # The other processes wait here for the first, which has waited for the lock.
        if any(group.gather(group.is_main and results.whole())[0]):
            log.info(
                "finished already: to train it once more, delete %s and call snakemake -f",
                results.folder,
            )
        else:
            torch.manual_seed(run.seed)  # decides the first weights
            with devices.enough_for("making the network", "lower the sizes in `network`"):
                model = build(run.components, run.network, *_sizes(data, run), data.codec.units)
                match(model, data.source, data.target)
                model = model.to(group.device)
            if starts:
                take_over(model, starts)
            name = f"{run.task}/{run.model}/seed{run.seed}"
            reporter = Reporter(name, folder.path / "events" if group.is_main else None)
            with stop.handle_signals():
                weights, progress = Trainer(
                    run, model, train, dev, states, reporter, group, stop
                ).run()
            if group.is_main:
                results.clear()
                split = _directed(data.split("train"), run)
                LengthPrior.of(split).save(results.folder / "model" / LENGTHS)
                save_model(
                    results.folder / "model", run, kind, data.folder, weights, split.source_eos
                )
                write_history(results.folder / "history.csv", progress.history)
                write_json(
                    results.folder / "training.json", _record(run, progress, model, group, starts)
                )
                results.complete()
                states.clear()
        if group.is_main:
            results.publish(folder.path)


def _directed(split: Split, run: RunConfig) -> Split:
    """A split in the direction in which a model learns."""
    return split.turned() if run.components.reversed else split


def _sizes(data: Prepared, run: RunConfig) -> tuple[int, int]:
    """Numbers of symbols that a model reads and writes."""
    source, target = len(data.source), len(data.target)
    return (target, source) if run.components.reversed else (source, target)


def _examples(data: Prepared, name: str, run: RunConfig) -> Examples:
    """The rows of a split; a UserError names the file if there are none, or not what the model
    learns from.
    """
    split = _directed(data.split(name, run.components.copying.copies), run)
    path = data.folder / f"{name}.safetensors"
    if len(split) == 0:
        raise UserError("no rows", file=path, hint="prepare data that has some")
    try:
        return Examples(split, run.components.targets, _sizes(data, run)[1])
    except UserError as error:
        raise UserError(error.message, file=path, hint=error.hint) from error


def _replays(progress: Progress) -> dict[str, Any]:
    """How many steps were replayed as CUDA graphs, and what share of their target tokens was
    padding.
    """
    record: dict[str, Any] = {"replayed_steps": progress.replayed_steps}
    if progress.replayed_steps:
        record["replayed_shapes"] = progress.replayed_shapes
        record["replayed_padding"] = round(
            1 - progress.replayed_tokens / progress.replayed_places, 4
        )
    return record


def _record(
    run: RunConfig, progress: Progress, model: Model, group: ProcessGroup, starts: Sequence[Start]
) -> dict[str, Any]:
    """Cost, origin and outcome of a training; peaks of memory are the first process's."""
    best: dict[str, Any] = progress.best or {}
    last = progress.history[-1]
    return {
        **{name: getattr(progress, name) for name in ("wall_s", "cpu_s", "gpu_s")},
        "device": str(group.device),
        "processes": group.size,
        "precision": ", then ".join(progress.precisions),
        "hardware": devices.hardware(group.device),
        "versions": devices.versions(),
        "seed": run.seed,
        "epochs": len(progress.history),
        "best_epoch": best.get("epoch"),
        **{name: best.get(name) for name in ("dev_accuracy", "dev_loss")},
        "parameters": parameters_of(model),
        **{f"{name}_per_second": last[name] / progress.wall_s for name in ("examples", "tokens")},
        "peak_memory_mb": devices.peak_memory_mb(),
        "peak_gpu_memory_mb": devices.peak_gpu_memory_mb(group.device),
        **_replays(progress),
        "resumed": progress.resumed,
        # The cost of their trainings counts with them.
        **({"init_from": [str(start.file.parent) for start in starts]} if starts else {}),
        "command": command_line(),
    }


def join(run: RunFolder) -> None:
    """Makes the model of an ensemble from the runs of its members, with the same task and seed.

    A UserError says that it has no members, that one of them is not trained, or that they read or
    write differently.
    """
    watch = devices.Stopwatch(torch.device("cpu"))
    config = run.load()
    folders = [run.member(name).model for name in config.components.members]
    if not folders:
        hint = "use `pam train`, or name `members` in the model's file"
        raise UserError(
            f"`{config.model}` has a training of its own", file=run.config_file, hint=hint
        )
    members = [load_model(folder) for folder in folders]
    for folder, member in zip(folders[1:], members[1:], strict=True):
        for name in belongings(member.task, folder):
            first = folders[0] / name
            if not first.is_file() or sha256_of(first) != sha256_of(folder / name):
                hint = "join models that were trained on the same prepared data"
                raise UserError(
                    f"its symbols are not those of {first}", file=folder / name, hint=hint
                )
        if member.source_eos != members[0].source_eos:
            message = (
                f"only one of this model and that of {folders[0]} reads sources that end in an end"
                " symbol"
            )
            raise UserError(
                message, file=folder, hint="join models that were trained on the same prepared data"
            )
    write_text(run.model / LENGTHS, (folders[0] / LENGTHS).read_text(encoding="utf-8"))
    weights: dict[str, torch.Tensor] = {}
    for place, member in enumerate(members):
        weights |= {
            f"members.{place}.{name}": own for name, own in member.network.state_dict().items()
        }
    save_model(run.model, config, members[0].task, folders[0], weights, members[0].source_eos)
    load_model(run.model)  # whether the run says of the members what they are
    record = {
        **watch.restart(),  # the cost of joining: trainings count with the members, once
        "device": "cpu",
        "hardware": devices.hardware(watch.device),
        "versions": devices.versions(),
        "seed": config.seed,
        "parameters": sum(parameters_of(member.network) for member in members),
        "members": [str(folder) for folder in folders],
        "command": command_line(),
    }
    write_json(run.training, record)


def reuse(run: RunFolder, trained: RunFolder, data: Path) -> None:
    """Takes over the model of another task's run, to test it on `data` that are prepared in its
    symbols.

    Files are copied, `training.json` last: a link would not outlast another file system, and its
    times of change would be those of the training. A UserError says what is missing, or that the
    data have other symbols.
    """
    watch = devices.Stopwatch(torch.device("cpu"))
    for file in (trained.training, trained.history):
        if not file.is_file():
            raise UserError("no such file", file=file, hint="train the model first")
    for name in belongings(load_model(trained.model).task, trained.model):
        own, other = Prepared(data).file(name), trained.model / name
        if sha256_of(own) != sha256_of(other):
            hint = f"prepare the data once more, with the task's data of {trained.path} as `--base`"
            raise UserError(f"its symbols are not those of {other}", file=own, hint=hint)
    names = [file.relative_to(trained.path) for file in whole_files(trained.model)]
    for part in (*names, trained.history.relative_to(trained.path)):
        (run.path / part).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(run.path / part) as temporary:
            shutil.copyfile(trained.path / part, temporary)
    # The cost of taking over: the training counts with the run that did it, once.
    own_cost = watch.restart() | {"trained_on": str(trained.path), "command": command_line()}
    write_json(run.training, read_json(trained.training) | own_cost)
