"""What can be known of an experiment before it runs: whether it is right, and what it will take.

Configuration, models and registries are read as the workflow reads them, and the first rows of data
that are at hand. A few steps of every training are timed, on data that are prepared already or on a
sample of the user's own, so that the times are estimates: of training without what else the machine
does, and of evaluation by its
    share of a step.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pam.config import RunConfig, load_run
from pam.data.dataset import SPLITS, Prepared
from pam.data.download import fetch, size_of
from pam.data.prepare import TaskFormat, files_of, prepare
from pam.data.registry import Dataset
from pam.data.sampling import Sample
from pam.experiment import check_local
from pam.io import Given, UserError, counted, whole_files, write_json
from pam.reporting.catalogue import FIGURES, TABLES
from pam.run_folder import RunFolder
from pam.runtime import devices, processor
from pam.workflow import ReportFiles, Workflow, check_cache, check_place

if TYPE_CHECKING:
    import torch

# bytes of a data set from which a sample is prepared; a larger one takes more than seconds
LARGEST = 50 * 2**20
SAMPLE = Sample(train=2000, dev=200, test=200)
WARM_UP, TIMED = 3, 6  # batches
ALL_ROWS = 10**12  # more than any split has
JOB_S = 1.5  # CPU seconds of a job that computes nothing: Python and torch begin
JOBS_THAT_DECODE = 2  # of a run, at least: one decodes the test split, one analyzes it
FIRST = 3  # rows that are read of each file
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


def check(files: Sequence[str | Given], say: Say, expected: Path | None = None) -> list[str]:
    """Checks an experiment, tells what it finds, and returns warnings; the first error is a
    UserError.

    Writes what it expects of each job to the file `expected`, for `pam.progress.Expected`.
    """
    check_place()
    check_cache()
    flow = Workflow(None, files)
    experiment = flow.experiment
    runs = len(list(experiment.runs()))
    say(
        f"experiment {experiment.experiment}: {counted(len(experiment.tasks), 'task')},"
        f" {counted(runs, 'run')}; the configuration is right"
    )
    flow.check_restored()
    for text in ReportFiles(flow).left_out_texts():
        say(f"restored runs have no weights: {text}")
    warnings: list[str] = []
    costs: list[Cost] = []
    unknown: list[str] = []
    disk = 0.0
    device = devices.choose_device(experiment.device)
    devices.keep_heap()
    with tempfile.TemporaryDirectory(prefix="pam-check-") as place:
        for task, own in experiment.tasks.items():
            for name in filter(None, (own.dataset, own.word_alignments)):
                say(f"data of {task}: {_at_hand(name, flow.datasets[name])}")
            entry = flow.datasets[own.dataset].with_format(own.format)
            if own.trained_on:
                say(f"task {task}: tests the models of {own.trained_on}, trains none")
                continue
            left = _left(flow, task)
            if not left:
                continue
            _tell_replaced(flow, left, say)
            data, rows = _some_data(own.dataset, entry, Path(flow.results, task), Path(place, task))
            if data is None:
                unknown.append(task)
                continue
            prepared = sum(len(data.split(split)) for split in SPLITS)
            disk += (
                sum(file.stat().st_size for file in whole_files(data.folder, below=True))
                * sum(rows.values())
                / prepared
            )
            warnings += _unsuited(left, data, rows, flow.beams[task])
            costs += list(_costs(flow, left, data, rows, device))
    if expected is not None:
        write_expected(expected, costs)
    _tell_precision(flow, device, say)
    warnings += _tell_cost(flow, costs, disk, unknown, device, say)
    return warnings


def _at_hand(name: str, dataset: Dataset) -> str:
    """Where a data set comes from; its first rows are read if its files are here."""
    check_local(name, dataset)
    fetched = Path("data", name)
    here = {
        key: Path(file.path) if file.path else fetched / key for key, file in dataset.files.items()
    }
    if all(path.exists() for path in here.values()):
        paths = {str(fetched / key): path for key, path in here.items()}
        files: Any = {
            split: _replaced(value, paths) for split, value in files_of(dataset, fetched).items()
        }
        read = dataset.kind.first_rows(files, dataset.layout, FIRST)
        shown = next((" | ".join(rows[0]) for rows in read.values() if rows), "")
        text = f"`{name}`, {counted(len(here), 'file')} here"
        return f"{text}; first row: {shown}" if shown else text
    if dataset.package is not None:
        return f"`{name}` will be drawn from the package {dataset.package.name}"
    missing = [file for key, file in dataset.files.items() if not here[key].exists()]
    size = sum(file.bytes or 0 for file in missing) / 1e6
    return f"`{name}` will be fetched: {len(missing)} files" + (f", {size:.0f} MB" if size else "")


def _replaced(value: Any, paths: dict[str, Path]) -> Any:
    return (
        paths[str(value)]
        if isinstance(value, Path)
        else {what: paths[str(own)] for what, own in value.items()}
    )


def _some_data(
    name: str, entry: Dataset, task: Path, place: Path
) -> tuple[Prepared | None, dict[str, int]]:
    """Prepared data of a task, or of a sample of its rows, and how many rows each split has in all;
    None: not here.
    """
    if (task / "data/summary.json").is_file():
        data = Prepared(task / "data")
        return data, {split: len(data.split(split)) for split in SPLITS}
    raw, local = Path("data", name), bool(entry.local_paths())
    paths = [Path(file.path or raw / key) for key, file in entry.files.items()]
    here = all(path.exists() for path in paths)
    if not (here or entry.package) or (here and sum(map(size_of, paths)) > LARGEST):
        return None, {}
    if local or not here:
        raw = place / "raw"
        fetch(name, entry, raw)
    layout = entry.layout
    assert isinstance(layout, TaskFormat)  # as of all that models learn
    own = layout.sample
    smaller = {
        split: min(getattr(SAMPLE, split), getattr(own, split) or ALL_ROWS) for split in SPLITS
    }
    summary = prepare(
        name, entry.with_format({"sample": {**smaller, "seed": own.seed}}), raw, place / "data"
    )
    data = Prepared(place / "data")
    dropped: dict[str, int] = {}
    for one in summary["stages"]:
        dropped[one["split"]] = one["dropped"].get("not in the sample", 0) + dropped.get(
            one["split"], 0
        )
    rows = {}
    for split in SPLITS:
        taken = len(data.split(split))
        beyond = dropped.get(split, summary["splits"][split].get("not_in_sample", 0))
        limit = (split == "train" and getattr(layout, "train_pairs", None)) or ALL_ROWS
        rows[split] = min(taken + beyond, getattr(own, split) or ALL_ROWS, limit)
    return data, rows


def _left(flow: Workflow, task: str) -> list[RunConfig]:
    """Trainings of a task that are still to be done, with those of models that others start or are
    joined from.
    """
    plan, waiting = flow.plan, list(flow.experiment.models_of(task))
    models: dict[str, None] = {}
    while waiting:
        model = waiting.pop(0)
        waiting += [one for one in (*plan.members(model), *plan.starts(model)) if one not in models]
        models[model] = None
    runs = [
        plan.run(task, model, seed) for model in models for seed in flow.experiment.seeds_of(task)
    ]
    return [
        run
        for run in runs
        if not run.members and not _is_trained(flow.run_of(task, run.model, run.seed), run)
    ]


def _tell_replaced(flow: Workflow, left: Sequence[RunConfig], say: Say) -> None:
    """Say which runs have results of another configuration, which the new training takes the place
    of.
    """
    trained = [run for run in left if flow.run_of(run.task, run.model, run.seed).training.is_file()]
    if trained:
        runs = f"{len(trained)} run{'s' * (len(trained) > 1)} of {trained[0].task}"
        say(
            f"{runs} had another configuration and will be trained from the first epoch; until the"
            " next such change their results are kept in `state/replaced` of each run's folder"
        )


def _is_trained(folder: RunFolder, run: RunConfig) -> bool:
    """Whether a run was trained to its end as `run` asks for."""
    try:
        return (
            folder.training.is_file()
            and load_run(folder.config_file).training_config() == run.training_config()
        )
    except UserError:  # of an earlier form
        return False


def _costs(
    flow: Workflow,
    runs: Sequence[RunConfig],
    data: Prepared,
    rows: dict[str, int],
    device: torch.device,
) -> Iterator[Cost]:
    """Of trainings of one task, each model timed once."""
    rates: dict[str, Rate] = {}
    for run in runs:
        if run.model not in rates:
            rates[run.model] = _rate(
                run, data, device, flow.plan.resources(run.task, run.model).threads
            )
        yield _cost(run, rates[run.model], rows, flow.beams[run.task])


def _cost(run: RunConfig, rate: Rate, rows: dict[str, int], beams: Sequence[int]) -> Cost:
    training = run.training
    all_steps = training.epochs * ceil(rows["train"] / training.batch_size)
    steps = _steps(run, rows)
    share = steps / all_steps
    searched = 2 if training.select == "accuracy" else 1
    evaluations = training.epochs * share * rows["dev"] * searched
    seconds = training.epochs * share * rows["train"] * rate.training
    return Cost(
        task=run.task,
        model=run.model,
        seed=run.seed,
        training_s=seconds + rate.forward * evaluations,
        decoding_s=rate.forward * rows["test"] * (1 + sum(beams)),
        memory_mb=rate.memory_mb,
        disk=4.0 * rate.parameters,
        steps=steps,
    )


def _steps(run: RunConfig, rows: dict[str, int]) -> int:
    """Return the number of steps of a training that no patience ends."""
    training = run.training
    steps = training.epochs * ceil(rows["train"] / training.batch_size)
    return min(steps, training.max_steps or steps)


def _unsuited(
    runs: Sequence[RunConfig], data: Prepared, rows: dict[str, int], beams: Sequence[int]
) -> Iterator[str]:
    """Warn of settings that this little data cannot fill: warm-up, batch and beam."""
    models: dict[str, list[str]] = {}
    for run in {run.model: run for run in runs}.values():
        training, steps = run.training, _steps(run, rows)
        if training.warmup_steps >= steps:
            warning = (
                f"the warm-up of {training.warmup_steps:,} steps is as long as the training of"
                f" {steps:,} or longer: its rate stays below {training.learning_rate:g}; lower"
                " `training.warmup_steps` or train longer"
            )
            models.setdefault(warning, []).append(run.model)
        if rows["train"] < training.batch_size:
            warning = (
                f"a batch of {training.batch_size:,} is more than all {rows['train']:,} training"
                " rows: each epoch is one step; lower `training.batch_size`"
            )
            models.setdefault(warning, []).append(run.model)
        if max(beams) > len(data.target):
            warning = (
                f"a beam of {max(beams)} is more than the {len(data.target)} symbols of the"
                " vocabulary; lower it"
            )
            models.setdefault(warning, []).append(run.model)
    for warning, names in models.items():
        yield f"{', '.join(names)} on {runs[0].task}: {warning}"


def _rate(run: RunConfig, data: Prepared, device: torch.device, threads: int) -> Rate:
    """Times a few steps of a training with fresh weights, the longest batch first."""
    import torch

    from pam.benchmark import Plan, Runner, batches_of, clock, fresh, training
    from pam.models.build import parameters_of

    torch.set_num_threads(threads)
    own = run.training
    precision = processor.usable_precision(own.precision, device)
    devices.use_precision(precision, device=device)
    plan = Plan(run.network, own.batch_size, 1, TIMED, WARM_UP, [], precision, threads)
    try:
        model = fresh(run.components, data, plan, device)
        batches = batches_of(data, run.components, plan, device)
        work = training(model, plan)
        work(max(batches, key=lambda batch: batch.source.numel() + batch.target.numel()))
        runner = Runner(run.model, batches, work)
        runner.turn(0, WARM_UP)
        began = clock(device)
        examples, _ = runner.turn(WARM_UP, TIMED)
        trained = (clock(device) - began) / examples

        @torch.no_grad()
        def forward(batch: Any) -> None:
            model.log_likelihood(batch.source, batch.lengths, batch.target)

        model.eval()
        began = clock(device)
        examples, _ = Runner(run.model, batches, forward).turn(WARM_UP, TIMED)
        seen = (clock(device) - began) / examples
    except UserError as error:
        raise UserError(
            f"model `{run.model}` of task `{run.task}`: {error.message}", hint=error.hint
        ) from error
    memory = devices.peak_gpu_memory_mb(device) or devices.peak_memory_mb()
    return Rate(trained, seen, memory, parameters_of(model))


def write_expected(file: Path, costs: Sequence[Cost]) -> None:
    """Write the seconds that jobs are expected to take, by task and model."""
    training = {f"{cost.task}/{cost.model}": cost.training_s for cost in costs}
    decoding = {f"{cost.task}/{cost.model}": cost.decoding_s / JOBS_THAT_DECODE for cost in costs}
    write_json(file, {"training": training, "decoding": decoding, "other": JOB_S})


def _tell_precision(flow: Workflow, device: torch.device, say: Say) -> None:
    """Say whether trainings and searches that ask for bfloat16 have it on this machine."""
    runs = [flow.plan.run(*run) for run in flow.experiment.runs()]
    asking = [run for run in runs if "bf16" in (run.training.precision, run.decoding.precision)]
    if not asking or device.type == "cuda":
        return
    trial = processor.try_bfloat16()
    used = "bf16" if trial.pays else "float32 in place of bf16"
    say(f"precision: {used} ({trial.reason})")


def _tell_cost(
    flow: Workflow,
    costs: list[Cost],
    disk: float,
    unknown: list[str],
    device: torch.device,
    say: Say,
) -> list[str]:
    """Says what all takes; the warnings are of what this machine does not have."""
    cores = processor.usable_cores()
    machine = devices.hardware(device)
    for task in unknown:
        say(
            f"task {task}: how long it takes is known once its data are here: `snakemake --cores"
            " all data`, check again"
        )
    if not costs:
        say("no training is left to do" if not unknown else "")
        return []
    table = pd.DataFrame(costs).groupby(["task", "model"], sort=False)
    shown = table.agg(
        runs=("seed", "size"),
        minutes=("training_s", "mean"),
        memory=("memory_mb", "max"),
        steps=("steps", "max"),
    )
    shown = shown.reset_index()
    shown["minutes"] = shown["minutes"].map(lambda seconds: f"{seconds / 60:.1f}")
    shown["memory"] = shown["memory"].map(lambda memory: f"{memory:.0f} MB")
    say(f"each training on {machine['gpu'] or machine['cpu']}, from {TIMED} steps of it:")
    say("\n".join(f"    {line}" for line in shown.to_string(index=False).splitlines()))
    asked = [flow.plan.resources(cost.task, cost.model) for cost in costs]
    at_once = (
        max(1, cores // max(one.threads * one.processes for one in asked))
        if machine["gpu"] is None
        else 1
    )
    jobs = len(costs) * (6 + max(map(len, flow.beams.values()))) + len(TABLES) + len(FIGURES)
    seconds = (
        sum(cost.training_s + cost.decoding_s for cost in costs) / at_once + jobs * JOB_S / cores
    )
    kept = disk + sum(cost.disk for cost in costs)
    needed, free = (
        kept + 4 * at_once * max(cost.disk for cost in costs),
        shutil.disk_usage(".").free,
    )
    memory, available = at_once * max(cost.memory_mb for cost in costs), _available_mb()
    more = " and what is not known yet" if unknown else ""
    say(
        f"in all about {_time(seconds)}{more}, {at_once} trainings at once on {cores} cores; "
        f"{needed / 1e9:.2f} GB of disk ({free / 1e9:.0f} GB are free); {memory:.0f} MB of memory"
    )
    warnings = [f"the disk has {free / 1e9:.2f} GB left"] if needed > free else []
    if available is not None and machine["gpu"] is None and memory > available:
        warnings.append(
            f"{available:.0f} MB of memory are free: lower `training.batch_size`, or use fewer"
            " --cores"
        )
    for cost, own in zip(costs, asked, strict=True):
        if cost.memory_mb > own.mem_mb and machine["gpu"] is None:
            said = (
                f"{cost.model} on {cost.task} takes {cost.memory_mb:.0f} MB; `resources.mem_mb`"
                " asks a cluster for "
            )
            warnings.append(f"{said}{own.mem_mb}")
    return list(dict.fromkeys(warnings))


def _time(seconds: float) -> str:
    if seconds < 5400:
        return f"{ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _available_mb() -> float | None:
    """Memory that a new process could have, as Linux says it."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return (
            float(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
            / 1024
        )
    return None
