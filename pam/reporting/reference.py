"""What is kept of a run, to be looked at, compared with and gone on from without training again.

A kept experiment lies as its results do, `<task>/<model>/seed<k>/`, but holds of a run no more
than its tables and figures are made of, as the catalogue names it; large files are packed (`.gz`).
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pam.config import Experiment, RunConfig
from pam.experiment import Plan
from pam.io import UserError, atomic_write, parse, read_json, read_yaml
from pam.reporting.catalogue import FIGURES, TABLES

LARGE = 200_000
"""Bytes of a file above which it is packed: such are those of thousands of sentences."""

TEXTS = ("predictions.tsv", "attention.json")
"""Files that hold text of the data, which not every licence allows to hand on."""

Name = tuple[str, str, int]
"""A run: task, model, seed."""


def folder_of(root: Path, name: Name) -> Path:
    task, model, seed = name
    return root / task / model / f"seed{seed}"


def scored_runs(results: Path, experiment: Experiment) -> Iterator[Name]:
    """The runs that have scores: tasks and models in the experiment's order, seeds ascending."""
    for task in experiment.tasks:
        for model in experiment.models_of(task):
            seeds = (
                path.parent.name for path in (results / task / model).glob("seed*/scores.json")
            )
            for seed in sorted(int(folder.removeprefix("seed")) for folder in seeds):
                yield task, model, seed


def files_to_keep(experiment: Experiment, task: str, results: Path) -> list[str]:
    """What to keep of a task's runs, as paths inside a run: what tables and figures are made of.

    Raises:
        UserError: the task's data has not been prepared.
    """
    summary = read_json(results / task / "data/summary.json")
    beam = experiment.tasks[task].decoding.get("beam", experiment.decoding.beam)
    kinds = dict.fromkeys(experiment.tasks, summary["task"])  # that of this task decides
    patterns = [
        pattern
        for item in (*TABLES.values(), *FIGURES.values())
        if task in item.shows(experiment, kinds)
        for pattern in (*item.files.values(), *item.also_reads)
        if pattern.startswith("{run}/")
    ]
    found = [pattern.removeprefix("{run}/").format(beam=beam) for pattern in patterns]
    closed = forbids_derivatives(summary)
    wanted = dict.fromkeys([*found, "attention.json"])
    return [file for file in wanted if not (closed and Path(file).name in TEXTS)]


def forbids_derivatives(summary: dict[str, str]) -> bool:
    """Whether the licence of prepared data does not allow to hand on what was made of its text."""
    return "-ND" in summary.get("licence", "")


def pack(source: Path, target: Path) -> None:
    """Copies a file, packed if it is large; the same bytes each time."""
    content = source.read_bytes()
    if len(content) > LARGE:
        content, target = gzip.compress(content, mtime=0), target.with_name(f"{target.name}.gz")
    with atomic_write(target) as temporary:
        temporary.write_bytes(content)


def unpack(source: Path, target: Path, time_ns: int) -> None:
    """Copies a kept file back, with the given time of change."""
    content = source.read_bytes()
    if source.suffix == ".gz":
        content, target = gzip.decompress(content), target.with_suffix("")
    with atomic_write(target) as temporary:
        temporary.write_bytes(content)
        os.utime(temporary, ns=(time_ns, time_ns))


@dataclass
class Taken:
    """What became of the runs of a plan when kept ones were taken: they are one of these."""

    taken: list[Name] = field(default_factory=list)
    there: list[Name] = field(default_factory=list)
    other: list[Name] = field(default_factory=list)
    missing: list[Name] = field(default_factory=list)


def take(kept: Path, results: Path, plan: Plan) -> Taken:
    """Puts kept runs among a run's results, where the plan has the same recipe for them.

    All files of a run get the same time, which is later than the data's: the workflow takes them
    for up to date, and trains only what is missing.

    Returns:
        The runs taken, there already, configured otherwise, not kept.

    Raises:
        UserError: what is kept is of another experiment, or a task has no prepared data yet.
    """
    experiment = plan.experiment
    if read_yaml(kept / "experiment.yaml").get("experiment") != experiment.experiment:
        raise UserError(
            f"this is not of the experiment `{experiment.experiment}`",
            file=kept / "experiment.yaml",
            hint="name the folder of the same experiment under results/reference/",
        )
    for task in experiment.tasks:
        if not (results / task / "data/summary.json").is_file():
            raise UserError(
                f"the data of task `{task}` is not prepared: made later, it would be newer than "
                "what is taken, and all would be trained again",
                file=results / task / "data",
                hint="run `snakemake --cores all data --configfile ...` before",
            )
    found = Taken()
    for name in experiment.runs():
        _of(found, name, kept, results, plan).append(name)
    for name in found.taken:
        time_ns, source = time.time_ns(), folder_of(kept, name)
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            unpack(path, folder_of(results, name) / path.relative_to(source), time_ns)
    return found


def _of(found: Taken, name: Name, kept: Path, results: Path, plan: Plan) -> list[Name]:
    """Where a run belongs."""
    source, target = folder_of(kept, name), folder_of(results, name)
    if (target / "scores.json").exists():
        return found.there
    if not any(source.glob("scores.json*")):
        return found.missing
    path = source / "run.yaml"
    same = path.is_file() and _decisive(parse(RunConfig, read_yaml(path), path)) == _decisive(
        plan.run(*name)
    )
    return found.taken if same else found.other


def _decisive(run: RunConfig) -> tuple[object, ...]:
    """What of a run decides what its files hold."""
    return run.recipe(), run.decoding.model_dump(exclude={"batch_size"})
