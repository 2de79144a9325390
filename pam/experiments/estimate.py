"""What an experiment will take, before it runs: time, memory and disk.

The first rows of data that are at hand are read as the workflow reads them. A few steps of every
training are timed, on data that are prepared already or on a sample of the user's own. So the times
are estimates: of training without what else the machine does, and of evaluation by its share of a
step.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pam.data.dataset import SPLITS, Prepared
from pam.data.download import fetch, size_of
from pam.data.identity import fetched_folder, identified
from pam.data.prepare import (
    Symbols,
    TaskFormat,
    added_symbols_text,
    prepare,
    symbol_warnings,
)
from pam.data.registry import Dataset, check_local
from pam.data.sampling import Sample
from pam.decoding import protections
from pam.experiments.plan import Plan
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import CONFIG, Description, files_of, opened
from pam.models.options import Bound, Output
from pam.reporting.catalogue import FIGURES, TABLES
from pam.runtime import devices, processor
from pam.runtime.errors import UserError
from pam.runtime.files import read_json, whole_files, write_json
from pam.runtime.gpus import visible
from pam.runtime.messages import counted, shortened
from pam.training.more_epochs import differ_in_epochs, reason_not_to_go_on
from pam.workflow import WorkflowFiles

if TYPE_CHECKING:
    import torch

# bytes of a data set from which a sample is prepared; a larger one takes more than seconds
LARGEST = 50 * 2**20
SAMPLE = Sample(train=2000, dev=200, test=200)
# rows of which all are prepared where a sample has warnings
WHOLE = 20_000
WARM_UP = 3  # batches before any is timed
TIMED = 6  # batches
ALL_ROWS = 10**12  # more than any split has
JOB_S = 1.5  # CPU seconds of a job that computes nothing: Python and torch begin
JOBS_THAT_DECODE = 2  # of a run, at least: one decodes the test split, one analyzes it
FIRST = 3  # rows that are read of each file
MOST_CUT = 0.5  # share of sources that a sum may be too short for without a warning
Say = Callable[[str], object]


@dataclass(frozen=True)
class Rate:
    """What a model takes on one machine, in seconds of its clock for an example."""

    training: float
    forward: float
    memory_mb: float
    parameters: int


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take."""

    task: str
    model: str
    seed: int
    training_s: float  # with its evaluations of the development split
    decoding_s: float  # and of the analysis
    memory_mb: float
    disk: float  # bytes that stay; while it trains, its state takes four times as much
    steps: int  # of the training
    may_end_sooner: bool  # by its patience


@dataclass(frozen=True)
class Rows:
    """Prepared data of a task, or of a sample of its rows."""

    data: Prepared
    counts: dict[str, int]  # rows that each split has in all
    warnings: list[str] = field(default_factory=list)  # of symbols, where all is to be prepared

    @property
    def is_sample(self) -> bool:
        """Whether some rows are not among the prepared ones."""
        return any(len(self.data.split(split)) != self.counts[split] for split in SPLITS)

    def bytes_of_all(self) -> float:
        """Return the bytes that the prepared data of all rows take."""
        prepared = sum(len(self.data.split(split)) for split in SPLITS)
        files = whole_files(self.data.folder, below=True)
        size = sum(file.stat().st_size for file in files)
        return size * sum(self.counts.values()) / prepared


def estimate(
    plan: Plan,
    datasets: Mapping[str, Dataset],
    files: WorkflowFiles,
    say: Say,
    expected: Path | None = None,
    cores: int | None = None,
    elsewhere: bool = False,
) -> list[str]:
    """Tell what an experiment will take, and return warnings.

    It runs on `cores` of this machine, None for all, or on other ones, whose devices are not known
    here. Writes what it expects of each job to the file `expected`, for
    `pam.experiments.progress.Expected`.
    """
    warnings: list[str] = []
    costs: list[Cost] = []
    unknown: list[str] = []
    disk = 0.0
    device = devices.choose_device("auto" if elsewhere else plan.experiment.device)
    devices.keep_heap()

    with tempfile.TemporaryDirectory(prefix="pam-check-") as scratch:
        for task, config in plan.experiment.tasks.items():
            for name in filter(None, (config.dataset, config.word_alignments)):
                say(f"data of {task}: {data_at_hand(name, datasets[name])}")

            runs = runs_to_train(plan, files, task, say)
            if not runs:
                continue
            entry = datasets[config.dataset].with_format(config.format)
            with _start_of(plan, task) as model:
                rows = _some_rows(
                    name=config.dataset,
                    entry=entry,
                    task=Path(files.results, task),
                    scratch=Path(scratch, task),
                    model=model,
                )
            if rows is None:
                unknown.append(task)
                continue

            added = added_symbols_text(rows.data.summary)
            if added:
                sample = ", in a sample of its rows" if rows.is_sample else ""
                say(f"data of {task}: {added}{sample}")
            warnings += [f"data of {task}: {text}" for text in rows.warnings]
            disk += rows.bytes_of_all()
            warnings += unsuited(runs, rows, files.beams[task])
            costs += _costs(plan, runs, rows, files.beams[task], device)

    if expected is not None:
        write_expected(expected, costs)

    _tell_precision(plan, device, say)
    for task in unknown:
        say(
            f"task {task}: its time can be estimated once its data are fetched: `pam run data`,"
            " check again"
        )

    if not costs:
        say("" if unknown else "no training is left to do")
        return warnings

    _tell_each_training(costs, device, say)
    cores = cores or processor.usable_cores()
    return warnings + _tell_total(plan, costs, disk, files, device, cores, bool(unknown), say)


# Data.


def data_at_hand(name: str, dataset: Dataset) -> str:
    """Check the files of a data set that are here, and return where it comes from.

    The first rows are read if all its files are here.
    """
    check_local(name, dataset)
    fetched = fetched_folder(name, identified(dataset))
    here = {key: Path(file.path or fetched / key) for key, file in dataset.files.items()}
    if all(path.exists() for path in here.values()):
        text = f"`{name}`, {counted(len(here), 'file')} here"
        row = _first_row(dataset, here)
        if row:
            text += f"; first row: {row}"
        return text

    if dataset.package is not None:
        return f"`{name}` will be drawn from the package {dataset.package.name}"

    missing = [file for key, file in dataset.files.items() if not here[key].exists()]
    size_mb = sum(file.bytes or 0 for file in missing) / 1e6
    text = f"`{name}` will be fetched: {counted(len(missing), 'file')}"
    if size_mb:
        text += f", {size_mb:.0f} MB"
    return text


def _first_row(dataset: Dataset, here: Mapping[str, Path]) -> str:
    """Read the first rows of each file, and return the first one in words."""
    files = dataset.files_by_split(lambda name: here[name])
    rows_by_split = dataset.kind.first_rows(files, dataset.layout, FIRST)
    for rows in rows_by_split.values():
        if rows:
            return " | ".join(map(shortened, rows[0]))

    return ""


@contextmanager
def _start_of(plan: Plan, task: str) -> Iterator[Symbols | None]:
    """Give the symbols of the model of other data that a task's models start from, if it is here.

    One that is a run of this experiment may be still to be trained.
    """
    paths = list(plan.trained_starts(task).values())
    if not paths or not all(file.is_file() for file in files_of(paths[0])):
        yield None
        return

    # If there are several, they have the same symbols.
    with opened(paths[0]) as folder:
        yield Description.of(folder).symbols(paths[0])


def _some_rows(
    name: str, entry: Dataset, task: Path, scratch: Path, model: Symbols | None
) -> Rows | None:
    """Return prepared data of a task, or of a sample of its rows; None: there is nothing here.

    Args:
        name: the data set's name.
        entry: its entry, read as the task wants it.
        task: the folder of the task's results.
        scratch: a temporary folder.
        model: the model of other data in whose symbols the task is prepared, if it is here.
    """
    identity = entry
    if all(path.exists() for path in entry.local_paths()):
        identity = identified(entry)
    summary_file = task / "data/summary.json"
    if summary_file.is_file() and _is_of(read_json(summary_file), name, identity):
        data = Prepared(task / "data")
        return Rows(data, {split: len(data.split(split)) for split in SPLITS})

    raw = fetched_folder(name, identity)
    paths = [Path(file.path or raw / key) for key, file in entry.files.items()]
    is_here = all(path.exists() for path in paths)
    if not (is_here or entry.package):
        return None
    if is_here and sum(map(size_of, paths)) > LARGEST:
        return None
    if entry.local_paths() or not is_here:
        raw = scratch / "raw"
        fetch(name, entry, raw)

    if model is None:
        # One that is still to be trained: nothing can be added to its symbols yet.
        entry = entry.with_format({"add_symbols": False})

    rows = _sampled(name, entry, raw, scratch / "data", model)
    if not rows.warnings or not rows.is_sample:
        return rows
    if sum(rows.counts.values()) > WHOLE:
        warnings = [f"in a sample of its rows, {text}" for text in rows.warnings]
        return replace(rows, warnings=warnings)

    # What a sample lacks, other rows may have.
    summary = prepare(name, entry, raw, scratch / "whole", model=model)
    return replace(rows, warnings=symbol_warnings(summary))


def _is_of(summary: Mapping[str, Any], name: str, entry: Dataset) -> bool:
    """Return whether a summary is of data that a data set's entry says today."""
    made_of = summary["inputs_sha256"]
    return (
        summary["dataset"] == name
        and summary["format"] == json.loads(entry.layout.model_dump_json())
        and all(file.sha256 in (None, made_of.get(key)) for key, file in entry.files.items())
    )


def _sampled(name: str, entry: Dataset, raw: Path, out: Path, model: Symbols | None) -> Rows:
    """Prepare a sample of a data set's rows, and count how many each split has in all."""
    layout = entry.layout
    assert isinstance(layout, TaskFormat)  # as of all that models learn
    limits = {split: getattr(layout.sample, split) or ALL_ROWS for split in SPLITS}
    sample = {split: min(getattr(SAMPLE, split), limits[split]) for split in SPLITS}
    smaller = entry.with_format({"sample": {**sample, "seed": layout.sample.seed}})
    summary = prepare(name, smaller, raw, out, model=model)

    # Rows that the sample has left out, over all stages.
    dropped: dict[str, int] = {}
    for stage in summary["stages"]:
        split = stage["split"]
        dropped[split] = stage["dropped"].get("not in the sample", 0) + dropped.get(split, 0)

    data = Prepared(out)
    counts = {}
    for split in SPLITS:
        beyond = dropped.get(split, summary["splits"][split].get("not_in_sample", 0))
        pairs = (split == "train" and getattr(layout, "train_pairs", None)) or ALL_ROWS
        counts[split] = min(len(data.split(split)) + beyond, limits[split], pairs)

    return Rows(data, counts, symbol_warnings(summary))


# Trainings that are left to do.


def runs_to_train(plan: Plan, files: WorkflowFiles, task: str, say: Say) -> list[RunConfig]:
    """List the trainings of a task that are still to be done, and say what is special of them.

    Models that others start from or are joined from are among them.
    """
    trained_on = plan.task(task).trained_on
    if trained_on:
        say(f"task {task}: tests the models of {trained_on}, trains none")
        return []

    experiment = plan.experiment
    waiting = [
        (model, seed)
        for model in experiment.models_of(task)
        for seed in experiment.seeds_of(task, model)
    ]
    # A dictionary in place of a set, as it keeps the order.
    needed: dict[tuple[str, int], None] = {}
    while waiting:
        source = waiting.pop(0)
        if source not in needed:
            needed[source] = None
            waiting += plan.sources(*source)

    runs = []
    for model, seed in needed:
        run = plan.run(task, model, seed)
        if not run.members and not _is_trained(files.run_of(task, model, seed), run):
            runs.append(run)

    _tell_replaced(files, runs, say)
    return runs


def _is_trained(folder: RunFolder, run: RunConfig) -> bool:
    """Return whether a run was trained to its end as `run` asks for."""
    try:
        before = _trained_by(folder).as_written_for(run)
    except UserError:  # of an earlier form
        return False
    return folder.training.is_file() and before.training_config() == run.training_config()


def _trained_by(folder: RunFolder) -> RunConfig:
    """Read the configuration of a finished training.

    That of the run is written anew before it trains again. Of a restored run there is no other.
    """
    with_model = folder.model / CONFIG
    return load_run(with_model if with_model.is_file() else folder.config_file)


def _goes_on(folder: RunFolder, run: RunConfig) -> bool:
    """Return whether a finished training goes on with more epochs, and is not replaced."""
    try:
        before = _trained_by(folder)
    except UserError:  # of an earlier form
        return False

    state = folder.path / "state"
    return differ_in_epochs(run, before) and reason_not_to_go_on(run, before, state) is None


def _tell_replaced(files: WorkflowFiles, runs: Sequence[RunConfig], say: Say) -> None:
    """Say which runs have results of another configuration, which a new training replaces."""
    trained = []
    for run in runs:
        folder = files.run_of(run.task, run.model, run.seed)
        if folder.training.is_file() and not _goes_on(folder, run):
            trained.append(run)

    if trained:
        count = f"{len(trained)} run{'s' * (len(trained) > 1)} of {trained[0].task}"
        say(
            f"{count} had another configuration and will be trained from the first epoch; until the"
            " next such change their results are kept in `state/replaced` of each run's folder"
        )


def unsuited(runs: Sequence[RunConfig], rows: Rows, beams: Sequence[int]) -> Iterator[str]:
    """Warn of settings that do not suit the data: warm-up, batch, beam, positions in the sum."""
    models: dict[str, list[str]] = {}
    for run in {run.model: run for run in runs}.values():
        for warning in _unsuited_settings(run, rows, max(beams)):
            models.setdefault(warning, []).append(run.model)

    for warning, names in models.items():
        yield f"{', '.join(names)} on {runs[0].task}: {warning}"


def _unsuited_settings(run: RunConfig, rows: Rows, beam: int) -> Iterator[str]:
    """Warn of the settings of one run."""
    training = run.training
    steps = _steps(run, rows.counts)
    if training.warmup_steps >= steps:
        yield (
            f"the warm-up of {training.warmup_steps:,} steps is as long as the training of"
            f" {steps:,} or longer: its rate stays below {training.learning_rate:g}; lower"
            " `training.warmup_steps` or train longer"
        )

    if rows.counts["train"] < training.batch_size:
        yield (
            f"a batch of {training.batch_size:,} is more than all {rows.counts['train']:,} training"
            " rows: each epoch is one step; lower `training.batch_size`"
        )

    if beam > len(rows.data.target):
        yield (
            f"a beam of {beam} is more than the {len(rows.data.target)} symbols of the vocabulary;"
            " lower it"
        )

    yield from _cut_sum(run, rows)
    yield from protections.of_data(run, rows.data, rows.is_sample)


def _cut_sum(run: RunConfig, rows: Rows) -> Iterator[str]:
    """Warn of a sum over fewer positions than most sources have (docs/models.md)."""
    marginalization = run.components.marginalization
    if not isinstance(marginalization, Output | Bound):
        return
    # With a nucleus too, the rest of the sum is renormalized in training.
    if marginalization.top_k is None or marginalization.mass is not None:
        return

    lengths = rows.data.split("train").sources.lengths
    longer = float((lengths > marginalization.top_k).mean())
    if longer > MOST_CUT:
        yield (
            f"`top_k: {marginalization.top_k}` sums over {marginalization.top_k} positions, but"
            f" {longer:.0%} of the sources are longer, {lengths.mean():.0f} symbols on average: the"
            " model may learn no alignment; write `mass: 0.99` in place of `top_k`, or neither"
        )


# What they cost.


def _costs(
    plan: Plan, runs: Sequence[RunConfig], rows: Rows, beams: Sequence[int], device: torch.device
) -> Iterator[Cost]:
    """Yield the costs of trainings of one task, each model timed once."""
    rates: dict[str, Rate] = {}
    for run in runs:
        # Seeds do not differ in speed.
        if run.model not in rates:
            threads = plan.resources(run.task, run.model).threads
            rates[run.model] = _rate(run, rows.data, device, threads)
        yield _cost(run, rates[run.model], rows.counts, beams)


def _cost(run: RunConfig, rate: Rate, rows: Mapping[str, int], beams: Sequence[int]) -> Cost:
    """Return what a run takes, by the rate of its model and the rows of each split."""
    training = run.training
    steps = _steps(run, rows)
    share = steps / _steps_of_all_epochs(run, rows)  # of the epochs that `max_steps` leaves
    searches = 2 if training.select == "accuracy" else 1
    evaluated = training.epochs * share * rows["dev"] * searches
    seconds = training.epochs * share * rows["train"] * rate.training

    return Cost(
        task=run.task,
        model=run.model,
        seed=run.seed,
        training_s=seconds + rate.forward * evaluated,
        decoding_s=rate.forward * rows["test"] * (1 + sum(beams)),
        memory_mb=rate.memory_mb,
        disk=4.0 * rate.parameters,
        steps=steps,
        may_end_sooner=run.training.patience is not None,
    )


def _steps(run: RunConfig, rows: Mapping[str, int]) -> int:
    """Return the number of steps of a training that no patience ends."""
    steps = _steps_of_all_epochs(run, rows)
    return min(steps, run.training.max_steps or steps)


def _steps_of_all_epochs(run: RunConfig, rows: Mapping[str, int]) -> int:
    return run.training.epochs * ceil(rows["train"] / run.training.batch_size)


def _rate(run: RunConfig, data: Prepared, device: torch.device, threads: int) -> Rate:
    """Time a few steps of a training with fresh weights, the longest batch first."""
    import torch

    from pam.measuring.benchmark import Plan as Timing
    from pam.measuring.benchmark import Runner, batches_of, clock, fresh, training
    from pam.models.build import parameters_of

    torch.set_num_threads(threads)
    precision = processor.usable_precision(run.training.precision, device)
    devices.use_precision(precision, device=device)
    timing = Timing(run.network, run.training.batch_size, 1, TIMED, WARM_UP, [], precision, threads)

    try:
        model = fresh(run.components, data, timing, device)
        batches = batches_of(data, run.components, timing, device)
        work = training(model, timing)
        # The longest batch first, so that memory is as large as it will be.
        work(max(batches, key=lambda batch: batch.source.numel() + batch.target.numel()))

        runner = Runner(run.model, batches, work)
        runner.turn(0, WARM_UP)
        began = clock(device)
        examples, _ = runner.turn(WARM_UP, TIMED)
        training_s = (clock(device) - began) / examples

        @torch.no_grad()
        def forward(batch: Any) -> None:
            model.log_likelihood(batch.source, batch.lengths, batch.target)

        model.eval()
        began = clock(device)
        examples, _ = Runner(run.model, batches, forward).turn(WARM_UP, TIMED)
        forward_s = (clock(device) - began) / examples
    except UserError as error:
        raise UserError(
            f"model `{run.model}` of task `{run.task}`: {error.message}", hint=error.hint
        ) from error

    memory_mb = devices.peak_gpu_memory_mb(device) or devices.peak_memory_mb()
    return Rate(training_s, forward_s, memory_mb, parameters_of(model))


def write_expected(file: Path, costs: Sequence[Cost]) -> None:
    """Write the seconds that jobs are expected to take, by task and model."""
    training = {f"{cost.task}/{cost.model}": cost.training_s for cost in costs}
    decoding = {f"{cost.task}/{cost.model}": cost.decoding_s / JOBS_THAT_DECODE for cost in costs}
    write_json(file, {"training": training, "decoding": decoding, "other": JOB_S})


# What the user is told.


def _tell_precision(plan: Plan, device: torch.device, say: Say) -> None:
    """Say whether trainings and searches that ask for bfloat16 have it on this machine."""
    runs = [plan.run(*run) for run in plan.experiment.runs()]
    has_bf16 = any("bf16" in (run.training.precision, run.decoding.precision) for run in runs)
    if not has_bf16 or device.type == "cuda":
        return

    # Outside of CUDA a trial shows whether it pays.
    trial = processor.try_bfloat16()
    used = "bf16" if trial.pays else "float32 in place of bf16"
    say(f"precision: {used} ({trial.reason})")


def _tell_each_training(costs: Sequence[Cost], device: torch.device, say: Say) -> None:
    """Say what a training of each model on each task takes."""
    by_model = pd.DataFrame(costs).groupby(["task", "model"], sort=False)
    table = by_model.agg(
        runs=("seed", "size"),
        minutes=("training_s", "mean"),
        memory=("memory_mb", "max"),
        steps=("steps", "max"),
    )
    # Numbers become texts with their units.
    table = table.reset_index()
    table["minutes"] = table["minutes"].map(lambda seconds: f"{seconds / 60:.1f}")
    table["memory"] = table["memory"].map(lambda memory: f"{memory:.0f} MB")

    machine = devices.hardware(device)
    say(f"each training on {machine['gpu'] or machine['cpu']}, estimated from {TIMED} steps:")
    say("\n".join(f"    {line}" for line in table.to_string(index=False).splitlines()))


def _tell_total(
    plan: Plan,
    costs: Sequence[Cost],
    disk: float,
    files: WorkflowFiles,
    device: torch.device,
    cores: int,
    has_unknown: bool,
    say: Say,
) -> list[str]:
    """Say what all takes together; the warnings are of what this machine does not have."""
    has_gpu = devices.hardware(device)["gpu"] is not None
    resources = [plan.resources(cost.task, cost.model) for cost in costs]
    at_once = cores // max(asked.threads * asked.processes for asked in resources)
    if has_gpu:
        seats = max(1, len(visible())) * plan.experiment.jobs_per_gpu
        at_once = min(at_once, seats // max(asked.processes for asked in resources))
    at_once = max(1, at_once)

    jobs = len(costs) * (6 + max(map(len, files.beams.values()))) + len(TABLES) + len(FIGURES)
    seconds = sum(cost.training_s + cost.decoding_s for cost in costs) / at_once
    seconds += jobs * JOB_S / cores

    # While it trains, a model's state takes four times as much as the model.
    kept = disk + sum(cost.disk for cost in costs)
    needed = kept + 4 * at_once * max(cost.disk for cost in costs)
    free = shutil.disk_usage(".").free
    memory_mb = at_once * max(cost.memory_mb for cost in costs)

    about = "at most about" if any(cost.may_end_sooner for cost in costs) else "about"
    more = " and what is not known yet" if has_unknown else ""
    say(
        f"in all {about} {_time(seconds)}{more}, {at_once} trainings at once on {cores} cores;"
        f" {needed / 1e9:.2f} GB of disk ({free / 1e9:.0f} GB are free);"
        f" {memory_mb:.0f} MB of memory"
    )

    warnings = []
    if needed > free:
        warnings.append(f"the disk has {free / 1e9:.2f} GB left")
    if not has_gpu:
        warnings += _memory_warnings(plan, costs, memory_mb)
    return warnings


def _memory_warnings(plan: Plan, costs: Sequence[Cost], memory_mb: float) -> list[str]:
    """Warn where trainings take more memory than is free, or than a cluster is asked for."""
    warnings = []
    available_mb = _available_mb()
    if available_mb is not None and memory_mb > available_mb:
        warnings.append(
            f"{available_mb:.0f} MB of memory are free: lower `training.batch_size`, or use fewer"
            " --cores"
        )

    for cost in costs:
        asked_mb = plan.resources(cost.task, cost.model).mem_mb
        if cost.memory_mb > asked_mb:
            warnings.append(
                f"{cost.model} on {cost.task} takes {cost.memory_mb:.0f} MB; `resources.mem_mb`"
                f" asks a cluster for {asked_mb}"
            )

    return list(dict.fromkeys(warnings))


def _time(seconds: float) -> str:
    """Return a duration in minutes, hours or days."""
    if seconds < 5400:
        return f"{ceil(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _available_mb() -> float | None:
    """Return the memory that a new process could have, as Linux says it."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        return float(line.split()[1]) / 1024
    return None
