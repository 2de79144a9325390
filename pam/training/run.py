"""The commands `train`, `ensemble` and `reuse`: from a run's folder to its model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed import is_torchelastic_launched

from pam.data.dataset import Examples, Prepared, Split
from pam.decoding.hypotheses import LENGTHS, LengthPrior
from pam.experiments.fingerprint import fingerprint, model_modules
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder, command_line
from pam.library.model_files import CONFIG, belongings
from pam.models.build import build, parameters_of
from pam.models.checkpoint import SavedModel, load_model, save_model
from pam.models.model import Model, match
from pam.runtime import devices
from pam.runtime.errors import UserError
from pam.runtime.files import (
    atomic_write,
    read_json,
    sha256_of,
    whole_files,
    write_json,
    write_text,
)
from pam.training import distributed
from pam.training.checkpoint import REPLACED, Progress, Results, StateFolder, Weights, locked
from pam.training.distributed import ProcessGroup
from pam.training.guided import GivenLinks, check_guided, check_links
from pam.training.logging import Reporter, write_history
from pam.training.more_epochs import (
    differ_in_epochs,
    reason_not_to_go_on,
    reason_to_start_anew,
)
from pam.training.preemption import Deadline, Stop, Stopped
from pam.training.start import Start, load_starts, take_over
from pam.training.trainer import Trainer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """Whoever asks for a training.

    Attributes:
        command: the command that the record names; None: the one of this process.
        on_epoch: called after each epoch with its row of the history.
    """

    command: str | None = None
    on_epoch: Callable[[Mapping[str, Any]], None] | None = None


def train(
    run: RunFolder,
    data: Path,
    state: Path,
    device: str | torch.device = "auto",
    code: str | None = None,
    processes: int = 1,
    caller: Caller = Caller(),
) -> int:
    """Train a model on prepared `data`, or go on from its last `state`.

    Results are in the run's folder. Errors are UserErrors.

    Args:
        code: the fingerprint of the code, which a state has to share to be resumed; None: compute
            it.
        processes: how many share the training; each has a GPU of its own, where there are some.
        caller: whoever asks for it.

    Returns:
        0, or the exit code of a training that was stopped and can go on.
    """
    deadline = Deadline.of_job()
    is_launched = is_torchelastic_launched()  # by torchrun
    if processes > 1 and not is_launched:
        exit_code = distributed.launch(processes, sys.argv[1:])
    else:
        launcher = os.getppid() if is_launched else None
        stop = Stop(near=lambda: deadline.near, launcher=launcher)
        try:
            with distributed.joined(device) as group:
                _train_in_group(run, data, state, code, group, stop, caller)
            exit_code = 0
        except Stopped as stopped:
            exit_code = stopped.code

    # Several processes do not speak to the scheduler: their launcher does, when all have ended.
    if exit_code and deadline.near and not is_launched:
        deadline.requeue()
    return exit_code


def _train_in_group(
    folder: RunFolder,
    data_folder: Path,
    state: Path,
    code: str | None,
    group: ProcessGroup,
    stop: Stop,
    caller: Caller,
) -> None:
    """Train and publish the results, unless this very training is finished already."""
    devices.keep_heap()
    devices.limit_threads()

    inputs = _read_inputs(folder, data_folder)
    key = _training_key(inputs, code)
    with locked(state) if group.is_main else nullcontext():
        results = Results(state / "finished", key)
        states = StateFolder(
            folder=state,
            key=key,
            open_key=_open_key(inputs, code),
            epochs=inputs.run.training.epochs,
        )

        if group.is_main:
            results.take_back()

        # The other processes wait here for the first, which has waited for the lock.
        (is_finished,) = group.gather(group.is_main and results.whole())
        if any(is_finished):
            log.info(
                "finished already: to train it once more, delete %s and call snakemake -f",
                results.folder,
            )
        else:
            run = inputs.run
            if group.is_main:
                _tell_of_epochs(run, results.folder, state)
            model = _make_model(inputs, group.device)
            reporter = Reporter(
                name=f"{run.task}/{run.model}/seed{run.seed}",
                events=folder.path / "events" if group.is_main else None,
                on_epoch=caller.on_epoch,
            )

            with stop.handle_signals():
                trainer = Trainer(
                    config=run,
                    model=model,
                    train=inputs.train,
                    dev=inputs.dev,
                    states=states,
                    reporter=reporter,
                    group=group,
                    stop=stop,
                    given_links=inputs.given_links,
                )
                weights, progress = trainer.run()

            if group.is_main:
                results.clear()
                _save_model(results.folder / "model", inputs, weights)
                write_history(results.folder / "history.csv", progress.history)
                record = _record(run, progress, model, group, inputs.starts)
                record["command"] = caller.command or command_line()
                write_json(results.folder / "training.json", record)
                results.complete()
                states.clear()

        if group.is_main:
            results.publish(folder.path)


@dataclass(frozen=True)
class _Inputs:
    """Configuration and data of a training, and the models that it starts from."""

    run: RunConfig
    data: Prepared
    train: Examples
    dev: Examples
    starts: Sequence[Start]
    given_links: GivenLinks | None
    task: str  # the kind of the task
    units: int  # of the vectors that sources consist of; 0: they are symbols


def _read_inputs(folder: RunFolder, data_folder: Path) -> _Inputs:
    """Read the inputs of a training; a UserError says what is wrong with them.

    What the model will be saved with is read too: an error must not show after the training.
    """
    run = folder.load()
    data = Prepared(data_folder)
    if run.components.members:
        raise UserError(
            f"`{run.model}` is an ensemble, which is not trained",
            file=folder.config_file,
            hint="put it among the experiment's `models`, or use `pam ensemble`",
        )

    check_guided(run)
    given_links = None
    if run.training.guided is not None:
        given_links = GivenLinks.read(run.training.guided, data)

    return _Inputs(
        run=run,
        data=data,
        train=_examples(data, "train", run),
        dev=_examples(data, "dev", run),
        starts=load_starts(folder, run, data),
        given_links=given_links,
        task=data.summary["task"],
        units=data.codec.units,
    )


def _training_key(inputs: _Inputs, code: str | None) -> str:
    """Return a hash of all that decides a training: configuration, code, data, first weights."""
    return _hash_of(inputs, code, inputs.run.training_config())


def _open_key(inputs: _Inputs, code: str | None) -> str:
    """Return the same hash whatever the number of epochs; empty if steps depend on that."""
    if reason_to_start_anew(inputs.run) is not None:
        return ""

    config = inputs.run.training_config()
    del config["training"]["epochs"]
    return _hash_of(inputs, code, config)


def _tell_of_epochs(run: RunConfig, results: Path, state: Path) -> None:
    """Say why a training that is over is not gone on from, if more or fewer epochs are asked for.

    `results` are those of the training before.
    """
    try:
        before = load_run(results / "model" / CONFIG)
    except UserError:
        return

    if not differ_in_epochs(run, before):
        return
    reason = reason_not_to_go_on(run, before, state)
    if reason is not None:
        log.info(
            "%d epochs are done and %d are requested: training from the first epoch, as %s; the"
            " results of before are kept in %s",
            before.training.epochs,
            run.training.epochs,
            reason,
            state / REPLACED,
        )


def _hash_of(inputs: _Inputs, code: str | None, config: dict[str, Any]) -> str:
    """Hash a configuration with code, data and first weights."""
    run = inputs.run
    digests = inputs.data.summary["outputs_sha256"]
    # A model is published with what defines its symbols, and how they become text.
    symbols = belongings(inputs.data.summary["task"], inputs.data.folder)
    files = ("train.safetensors", "dev.safetensors", *symbols)
    parts = [
        json.dumps(config, sort_keys=True),
        code or fingerprint(f"{__name__}:train", *model_modules(run)),
        *(digests[name] for name in files),
        *(start.digest for start in inputs.starts),
    ]
    if run.training.guided is not None:
        check_guided(run)
        check_links(run.training.guided.links)
        parts.append(sha256_of(Path(run.training.guided.links)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _make_model(inputs: _Inputs, device: torch.device) -> Model:
    """Build the model that a training begins with, on its device."""
    run = inputs.run
    data = inputs.data
    torch.manual_seed(run.seed)  # decides the first weights
    source_size, target_size = _sizes(data, run)
    with devices.enough_for("making the network", "lower the sizes in `network`"):
        model = build(run.components, run.network, source_size, target_size, inputs.units)
        match(model, data.source, data.target)
        model = model.to(device)

    if inputs.starts:
        take_over(model, inputs.starts)
    return model


def _save_model(folder: Path, inputs: _Inputs, weights: Weights) -> None:
    """Save a trained model, and the lengths that a search may weigh outputs by."""
    split = _directed(inputs.data.split("train"), inputs.run)
    LengthPrior.of(split).save(folder / LENGTHS)
    save_model(folder, inputs.run, inputs.task, inputs.data.folder, weights, split.source_eos)


def _directed(split: Split, run: RunConfig) -> Split:
    """Turn a split into the direction in which a model learns."""
    if run.components.reversed:
        return split.turned()
    return split


def _sizes(data: Prepared, run: RunConfig) -> tuple[int, int]:
    """Return the numbers of symbols that a model reads and writes."""
    if run.components.reversed:
        return len(data.target), len(data.source)
    return len(data.source), len(data.target)


def _examples(data: Prepared, name: str, run: RunConfig) -> Examples:
    """Read the rows of a split.

    A UserError names the file if there are none, or not what the model learns from.
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
    """Return how many steps were replayed as CUDA graphs, and the share of padding in them."""
    record: dict[str, Any] = {"replayed_steps": progress.replayed_steps}
    if progress.replayed_steps:
        padding = 1 - progress.replayed_tokens / progress.replayed_places
        record["replayed_shapes"] = progress.replayed_shapes
        record["replayed_padding"] = round(padding, 4)
    return record


def _record(
    run: RunConfig, progress: Progress, model: Model, group: ProcessGroup, starts: Sequence[Start]
) -> dict[str, Any]:
    """Return cost, origin and outcome of a training.

    Peaks of memory are the first process's.
    """
    best: dict[str, Any] = progress.best or {}
    last = progress.history[-1]
    # The cost of the trainings that it starts from counts with them.
    origin = {}
    if starts:
        origin["init_from"] = [start.origin for start in starts]

    return {
        "wall_s": progress.wall_s,
        "cpu_s": progress.cpu_s,
        "gpu_s": progress.gpu_s,
        "device": str(group.device),
        "processes": group.size,
        "precision": ", then ".join(progress.precisions),
        "hardware": devices.hardware(group.device),
        "versions": devices.versions(),
        "seed": run.seed,
        "epochs": len(progress.history),
        "best_epoch": best.get("epoch"),
        "dev_accuracy": best.get("dev_accuracy"),
        "dev_loss": best.get("dev_loss"),
        "parameters": parameters_of(model),
        "examples_per_second": last["examples"] / progress.wall_s,
        "tokens_per_second": last["tokens"] / progress.wall_s,
        "peak_memory_mb": devices.peak_memory_mb(),
        **devices.gpu_memory(group.device),
        **_replays(progress),
        "resumed": progress.resumed,
        **origin,
    }


def join(run: RunFolder) -> None:
    """Make the model of an ensemble from the runs of its members on the same task.

    A UserError says that it has no members, that one of them is not trained, or that they read or
    write differently.
    """
    watch = devices.Stopwatch(torch.device("cpu"))
    config = run.load()
    runs = config.components.member_runs(config.seed)
    folders = [run.member(name, seed).model for name, seed in runs]
    if not folders:
        raise UserError(
            f"`{config.model}` is trained itself",
            file=run.config_file,
            hint="use `pam train`, or name `members` in the model's file",
        )

    members = [load_model(folder) for folder in folders]
    for folder, member in zip(folders[1:], members[1:], strict=True):
        _check_alike(folder, member, folders[0], members[0])

    write_text(run.model / LENGTHS, (folders[0] / LENGTHS).read_text(encoding="utf-8"))
    weights: Weights = {}
    for number, member in enumerate(members):
        for name, value in member.network.state_dict().items():
            weights[f"members.{number}.{name}"] = value

    save_model(run.model, config, members[0].task, folders[0], weights, members[0].source_eos)
    load_model(run.model)  # fails if the run does not describe its members as they are

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


def _check_alike(folder: Path, member: SavedModel, first_folder: Path, first: SavedModel) -> None:
    """Raise a UserError if two members of an ensemble read or write differently."""
    hint = "choose models that were trained on the same prepared data"
    for name in belongings(member.task, folder):
        file_of_first = first_folder / name
        if not file_of_first.is_file() or sha256_of(file_of_first) != sha256_of(folder / name):
            raise UserError(
                f"its symbols are not those of {file_of_first}", file=folder / name, hint=hint
            )

    if member.source_eos != first.source_eos:
        message = (
            f"only one of this model and that of {first_folder} reads sources that end in an end"
            " symbol"
        )
        raise UserError(message, file=folder, hint=hint)


def reuse(run: RunFolder, trained: RunFolder, data: Path) -> None:
    """Take over the model of another task's run, to test it on other data.

    `data` are prepared in the symbols of the model. Files are copied, `training.json` last: a link
    would not outlast another file system, and its times of change would be those of the training. A
    UserError says what is missing, or that the data have other symbols.
    """
    watch = devices.Stopwatch(torch.device("cpu"))
    for file in (trained.training, trained.history):
        if not file.is_file():
            raise UserError("no such file", file=file, hint="train the model first")

    for name in belongings(load_model(trained.model).task, trained.model):
        prepared_file = Prepared(data).file(name)
        trained_file = trained.model / name
        if sha256_of(prepared_file) != sha256_of(trained_file):
            raise UserError(
                f"its symbols are not those of {trained_file}",
                file=prepared_file,
                hint=(
                    "prepare the data once more, with the task's data of"
                    f" {trained.path} as `--base`"
                ),
            )

    names = [file.relative_to(trained.path) for file in whole_files(trained.model)]
    for part in (*names, trained.history.relative_to(trained.path)):
        (run.path / part).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(run.path / part) as temporary:
            shutil.copyfile(trained.path / part, temporary)

    # The cost of taking over: the training counts with the run that did it, once.
    cost = watch.restart() | {"trained_on": str(trained.path), "command": command_line()}
    write_json(run.training, read_json(trained.training) | cost)
