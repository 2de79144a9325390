"""Results that are stored under results/reference/, and runs that are restored from there.

`store` writes a folder of this form, small enough to be tracked:

    experiment.yaml  the configuration, resolved
    record.json      how many runs, what they cost, where and by which commands they were made
    scores.csv       one line a run: the value of each metric, and the cost
    tables/ figures/ as the report shows them
    runs.tar.xz      <task>/<model>/seed<k>/: what each run measured, without its weights

`restore` puts such runs among an experiment's results, which goes on without training them again.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import shutil
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from pam.config import RunConfig, load_run
from pam.data.archives import extract_all
from pam.experiment import Plan
from pam.io import (
    UserError,
    atomic_write,
    dump_yaml,
    read_json,
    read_yaml,
    scratch_folder,
    whole_files,
    write_json,
    write_text,
)
from pam.reporting.runs import load_experiment
from pam.restored import Name, data_of, decoding_of, identity_of
from pam.run_folder import RunFolder

ARCHIVE, RECORD, SCORES, EXPERIMENT = "runs.tar.xz", "record.json", "scores.json", "experiment.yaml"

# of a run
MEASURED = (
    "run.yaml",
    "training.json",
    "history.csv",
    "decoding.json",
    "*scores.json",
    "*analysis.json",
)
# those that hold text of the data, which not every license lets pass on
TEXTS = ("predictions.tsv", "attention.json")
SHOWN = {"tables": (".csv", ".md"), "figures": (".svg", ".png")}
UNPACKED = 2**30  # bytes of all runs of an experiment, as they are unpacked


def run_path(name: Name) -> str:
    """A run's folder within its experiment's results."""
    return "{}/{}/seed{}".format(*name)


def store(results: Path, out: Path, command: str, commit: str) -> None:
    """Stores what an experiment measured in the folder `out`; what it held before is replaced.

    Runs whose scores are already stored there stay attributed to the command that made them; the
    others are said to be made by `command` with the code of `commit`. A UserError: no run has
    scores, or what is stored in `out` is damaged.
    """
    experiment = load_experiment(results / EXPERIMENT)
    tasks = {
        run_path(name): name[0]
        for name in experiment.runs()
        if (results / run_path(name) / SCORES).is_file()
    }
    if not tasks:
        raise UserError("no run has scores", file=results, hint="let the experiment run first")
    # Data prepared by earlier code do not say that their text may be passed on.
    summaries = {
        task: read_json(results / task / "data/summary.json") for task in set(tasks.values())
    }
    closed = {task for task, summary in summaries.items() if not summary.get("redistributable")}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    made_by = record(
        results, list(tasks), {"date": today, "command": command, "commit": commit}, out
    )
    made = out.with_name(f".{out.name}.part")
    shutil.rmtree(made, ignore_errors=True)
    # Tables and figures, but those with text of the closed tasks.
    hidden = tuple(f"attention_{task}_" for task in closed)
    for folder, endings in SHOWN.items():
        (made / folder).mkdir(parents=True)
        for path in whole_files(results / folder):
            if path.suffix in endings and not (
                path.name.startswith(hidden) or (closed and "examples" in path.name)
            ):
                shutil.copyfile(path, made / folder / path.name)
    shutil.copyfile(results / EXPERIMENT, made / EXPERIMENT)
    _write_archive(made / ARCHIVE, results, tasks, closed)
    rows = []
    for run in tasks:
        scores = read_json(results / run / SCORES)
        row = {key: scores[key] for key in ("task", "model", "seed")}
        for content in (scores, *map(read_json, sorted((results / run).glob("*_scores.json")))):
            row |= {name: round(metric["value"], 4) for name, metric in content["metrics"].items()}
        costs = {
            key: None if value is None else round(value, 1) for key, value in scores["cost"].items()
        }
        rows.append(row | costs)
    pd.DataFrame(rows).to_csv(made / "scores.csv", index=False, lineterminator="\n")
    write_json(made / RECORD, made_by)
    shutil.rmtree(out, ignore_errors=True)
    made.rename(out)


def _write_archive(path: Path, results: Path, tasks: Mapping[str, str], closed: set[str]) -> None:
    """Writes what the runs, each of one of `tasks`, measured, no text of the `closed` ones; always
    the same bytes.
    """
    files: dict[str, Path] = {}
    for run, task in tasks.items():
        patterns = MEASURED if task in closed else MEASURED + TEXTS
        for file in whole_files(results / run, below=True):
            of_state = (
                results / run / "state"
            ) in file.parents  # has copies of what the training wrote
            if not of_state and any(fnmatch(file.name, pattern) for pattern in patterns):
                files[file.relative_to(results).as_posix()] = file
    with atomic_write(path) as temporary, tarfile.open(temporary, "w:xz", preset=9) as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            if (
                file.name == "analysis.json"
            ):  # its word links, which nobody scores, would double the archive
                whole = json.loads(content)
                kept = {
                    key: one
                    for key, one in whole["sentences"].items()
                    if not key.startswith("links")
                }
                content = json.dumps(whole | {"sentences": kept}).encode()
            member = tarfile.TarInfo(name)  # of no time and no owner
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@contextmanager
def unpacked(stored: Path) -> Iterator[Path]:
    """A temporary folder with the stored runs; a UserError if the archive is damaged, too large or
    leads out of it.
    """
    with scratch_folder() as folder:
        try:
            extract_all(stored / ARCHIVE, folder, UNPACKED)
        except UserError as error:
            hint = "check it out again, or store the experiment again"
            raise UserError(error.message, file=error.file, hint=hint) from error
        yield folder


def record(results: Path, runs: Sequence[str], call: dict[str, Any], out: Path) -> dict[str, Any]:
    """How many runs there are, what they cost, where and by which commands they were made.

    The command `call` made those that `out` does not have as they are. The same command of the same
    commit counts as one, of its last day.
    """
    scores = [read_json(results / run / SCORES) for run in runs]
    places = [{key: one["training"].get(key) for key in ("hardware", "versions")} for one in scores]
    identity, earlier, same = itemgetter("commit", "command"), [], set()
    if (out / ARCHIVE).is_file():
        earlier = read_json(out / RECORD)["commands"]
        with unpacked(out) as old:
            stored = [run for run in runs if (old / run / SCORES).is_file()]
            same = {
                run
                for run in stored
                if (old / run / SCORES).read_bytes() == (results / run / SCORES).read_bytes()
            }
    made_by = {run: identity(one) for one in earlier for run in one["runs"] if run in same}
    found = {identity(one): one | {"runs": []} for one in [*earlier, call]}
    for run in runs:
        found[made_by.get(run, identity(call))]["runs"].append(run)
    return {
        "runs": len(runs),
        "cost": {
            key: round(sum(one["cost"][key] or 0 for one in scores)) for key in ("cpu_s", "gpu_s")
        },
        "machines": [
            json.loads(text) | {"runs": n}
            for text, n in Counter(map(json.dumps, places)).most_common()
        ],
        "commands": [one for one in found.values() if one["runs"]],
    }


@dataclass
class Outcome:
    """What became of the runs of a plan: restored, present before, stored with another
    configuration, not stored.

    `again` are those restored now or before whose weights the last two need, to start or to be
    joined from.
    """

    restored: list[Name] = field(default_factory=list)
    present: list[Name] = field(default_factory=list)
    differing: list[Name] = field(default_factory=list)
    missing: list[Name] = field(default_factory=list)
    again: list[Name] = field(default_factory=list)


def restore(stored: Path, results: Path, plan: Plan) -> Outcome:
    """Restores the stored runs whose configuration and data are the plan's, but those that have
    scores.

    The stored experiment may be another one. All files of a run get the same time, which is later
    than its data's: the workflow takes them as up to date, and trains only what is missing. A
    record beside them says that the run has no weights, and what it was trained with. A UserError
    says that none of the plan's tasks or no runs are stored, or a task has no prepared data yet.
    """
    experiment, other = plan.experiment, read_yaml(stored / EXPERIMENT)
    tasks = other.get("tasks", {}) if isinstance(other, dict) else {}
    if not isinstance(tasks, dict) or not all(isinstance(own, dict) for own in tasks.values()):
        hint = "check it out again, or store the experiment again"
        raise UserError("this is not an experiment", file=stored / EXPERIMENT, hint=hint)
    if not tasks.keys() & experiment.tasks.keys():
        words, hint = (
            f"no task of `{experiment.experiment}` is in it",
            f"its tasks are {', '.join(tasks)}",
        )
        raise UserError(words, file=stored / EXPERIMENT, hint=hint)
    if not (stored / ARCHIVE).is_file():
        hint = "only tables and figures are stored here; train the runs"
        raise UserError("no runs are stored", file=stored / ARCHIVE, hint=hint)
    for task in experiment.tasks:
        if not (results / task / "data/summary.json").is_file():
            words = (
                "made later, it would be newer than what is restored, and all would be trained"
                " again"
            )
            words, place = (
                f"the data of task `{task}` is not prepared: {words}",
                results / task / "data",
            )
            raise UserError(
                words, file=place, hint="run `snakemake --cores all data --configfile ...` before"
            )
    found = Outcome()
    changed = {
        task
        for task, own in experiment.tasks.items()
        if data_of(dict(own)) != data_of(tasks.get(task, {}))
    }
    with unpacked(stored) as folder:
        for name in experiment.runs():
            source, target = folder / run_path(name), results / run_path(name)
            if (target / SCORES).exists():
                found.present.append(name)
            elif not (source / SCORES).is_file():
                found.missing.append(name)
            elif name[0] in changed or not _same_configuration(
                source / "run.yaml", plan.run(*name)
            ):
                found.differing.append(name)
            else:
                found.restored.append(name)
                if other.get("experiment") != experiment.experiment:
                    _rename(source, experiment.experiment)
                write_json(RunFolder(target).restored, identity_of(plan, name))
                now, files = time.time_ns(), whole_files(source, below=True)
                # The scores come last, as they make a run present.
                for path in sorted(files, key=lambda path: (path == source / SCORES, path)):
                    with atomic_write(target / path.relative_to(source)) as temporary:
                        shutil.copyfile(path, temporary)
                        os.utime(temporary, ns=(now, now))
    found.again = _needed_again(plan, results, [*found.missing, *found.differing])
    return found


def _needed_again(plan: Plan, results: Path, untrained: Sequence[Name]) -> list[Name]:
    """Return the restored runs whose weights some runs that are still to be trained need."""
    needed: dict[Name, None] = {}
    waiting = list(untrained)
    while waiting:
        task, model, seed = waiting.pop(0)
        base = plan.experiment.training_task(task)
        models = [*plan.starts(model), *plan.members(model)] if base == task else [model]
        for source in models:
            name = (base, source, seed)
            if name not in needed and RunFolder(results / run_path(name)).lacks_weights:
                needed[name] = None
                waiting.append(name)
    return list(needed)


def _rename(run: Path, experiment: str) -> None:
    """Makes a run one of another experiment, as the tables of an experiment take no others."""
    config = run / "run.yaml"
    write_text(config, dump_yaml(load_run(config).model_copy(update={"experiment": experiment})))
    for path in run.glob("*scores.json"):
        write_json(path, read_json(path) | {"experiment": experiment})


def _same_configuration(stored: Path, run: RunConfig) -> bool:
    """Whether a stored run was trained and decoded as `run` asks for."""
    try:
        found = load_run(stored)
    except UserError:  # of an earlier form, which is not read any more
        return False
    return found.training_config() == run.training_config() and decoding_of(found) == decoding_of(
        run
    )
