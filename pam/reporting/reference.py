"""Store results under results/reference/, and restore runs from there.

`store` writes a folder of this form, small enough to be tracked:

    experiment.yaml  the configuration, resolved
    record.json      how many runs, what they cost, where and by which commands they were made
    scores.csv       one line a run: the value of each metric, and the cost
    data.json        the summaries of the tasks' prepared data and of their word alignments
    tables/ figures/ as the report shows them
    runs.tar.xz      <task>/<model>/seed<k>/: the measurements of each run, without its weights

`restore` puts such runs among an experiment's results, so that they are not trained again.
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from pam.data.archives import extract_all
from pam.data.overlaps import without_examples
from pam.experiments.experiment import Experiment
from pam.experiments.parsing import dump_yaml
from pam.experiments.plan import Plan
from pam.experiments.restored import Name, data_of, identity_of, is_same_run
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import GOLD, RunFolder
from pam.experiments.yaml import read_yaml
from pam.reporting import render
from pam.reporting.catalogue import TABLES
from pam.reporting.runs import label_of, load_experiment
from pam.runtime.errors import UserError
from pam.runtime.files import (
    atomic_write,
    read_json,
    scratch_folder,
    whole_files,
    write_json,
    write_text,
)

ARCHIVE = "runs.tar.xz"
RECORD = "record.json"
AGAIN = "check it out again, or store the experiment again"  # what helps a damaged file
SCORES = "scores.json"
EXPERIMENT = "experiment.yaml"
DATA = "data.json"
SUMMARIES = ("data", GOLD)  # folders of a task that have a summary

# files of a run that are stored
MEASURED = (
    "run.yaml",
    "training.json",
    "history.csv",
    "decoding.json",
    "*scores.json",
    "*analysis.json",
)
# files that hold text of the data, stored only if its license allows it
TEXTS = ("predictions.tsv", "attention.json")
SHOWN = {"tables": (".csv", ".md"), "figures": (".svg", ".png")}
LEFT_OUT_NOTE = "Left out, as the license does not let the text be passed on: {}."
COMMIT = 12  # letters of a commit on a page, as of a run that was not restored
UNPACKED = 2**30  # the most bytes of all runs of an experiment, unpacked


def run_path(name: Name) -> str:
    """Return a run's folder within its experiment's results."""
    task, model, seed = name
    return f"{task}/{model}/seed{seed}"


def store(results: Path, out: Path, command: str, commit: str) -> None:
    """Store an experiment's measurements in the folder `out`, in place of what it held before.

    Runs whose scores are already stored there stay attributed to the command that made them. The
    others are attributed to `command` with the code of `commit`.

    Raises:
        UserError: no run has scores, or what is stored in `out` is damaged.
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
    closed = set()
    for task in set(tasks.values()):
        summary = read_json(results / task / "data/summary.json")
        if not summary.get("redistributable"):
            closed.add(task)

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    call = {"date": today, "command": command, "commit": commit}
    made_by = record(results, list(tasks), call, out)

    # The new folder takes the place of the old one when it is whole.
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    _copy_shown(results, part, experiment, closed)
    shutil.copyfile(results / EXPERIMENT, part / EXPERIMENT)
    _write_archive(part / ARCHIVE, results, tasks, closed)

    rows = [_score_row(results / run) for run in tasks]
    pd.DataFrame(rows).to_csv(part / "scores.csv", index=False, lineterminator="\n")
    write_json(part / RECORD, made_by)
    write_json(part / DATA, stored_summaries(results, list(experiment.tasks)))

    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)


def _copy_shown(results: Path, out: Path, experiment: Experiment, closed: set[str]) -> None:
    """Copy tables and figures without the text of the `closed` tasks."""
    maps_of_closed = tuple(f"attention_{task}_" for task in closed)
    for folder, endings in SHOWN.items():
        (out / folder).mkdir(parents=True)
        for path in whole_files(results / folder):
            if path.suffix not in endings or path.name.startswith(maps_of_closed):
                continue

            if closed and path.stem in TABLES and TABLES[path.stem].builder == "examples":
                _copy_open_examples(path, out / folder, experiment, closed)
            else:
                shutil.copyfile(path, out / folder / path.name)


def _copy_open_examples(path: Path, out: Path, experiment: Experiment, closed: set[str]) -> None:
    """Copy a file of a table of examples without the rows of the `closed` tasks.

    It is left out where no row is left.
    """
    table = render.read(path.parent, path.stem)
    left_out = sorted(closed.intersection(row.task for row in table.rows if row.task))
    rows = [row for row in table.rows if row.task not in left_out]
    if not rows:
        return

    if left_out:
        labels = ", ".join(label_of(task, experiment) for task in left_out)
        note = render.Note(LEFT_OUT_NOTE.format(labels))
        table = replace(table, rows=rows, notes=[*table.notes, note])

    text_of = {".csv": render.to_csv, ".md": render.to_markdown}[path.suffix]
    write_text(out / path.name, text_of(table))


def stored_summaries(results: Path, tasks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the summary of each task's data, and of its word alignments if it has some.

    They quote no text of data whose license does not let it be passed on.
    """
    summaries: dict[str, dict[str, Any]] = {}
    for folder in SUMMARIES:
        summaries[folder] = {}
        for task in tasks:
            file = results / task / folder / "summary.json"
            if file.is_file():
                summaries[folder][task] = _without_quotes(read_json(file))

    return summaries


def _without_quotes(summary: dict[str, Any]) -> dict[str, Any]:
    """Take the examples out of the summary of closed data."""
    if summary.get("redistributable"):
        return summary

    without = {key: value for key, value in summary.items() if not key.endswith("in_two_splits")}
    if "warnings" in summary:
        without["warnings"] = [without_examples(warning) for warning in summary["warnings"]]
    return without


def restore_summaries(stored: Path, results: Path) -> None:
    """Write the stored summaries of data where prepared data have theirs.

    They stand for the data wherever nothing is trained or decoded.
    """
    for folder, summaries in read_json(stored / DATA).items():
        for task, summary in summaries.items():
            write_json(results / task / folder / "summary.json", summary)


def _score_row(run: Path) -> dict[str, Any]:
    """Return a run's row of scores.csv."""
    scores = read_json(run / SCORES)
    row = {key: scores[key] for key in ("task", "model", "seed")}

    more_scores = [read_json(path) for path in sorted(run.glob("*_scores.json"))]
    for content in (scores, *more_scores):
        for name, metric in content["metrics"].items():
            row[name] = round(metric["value"], 4)

    for key, cost in scores["cost"].items():
        row[key] = None if cost is None else round(cost, 1)
    return row


def _write_archive(path: Path, results: Path, tasks: Mapping[str, str], closed: set[str]) -> None:
    """Write the measurements of runs, always as the same bytes.

    Args:
        tasks: run's folder -> its task.
        closed: tasks whose text is left out.
    """
    files: dict[str, Path] = {}
    for run, task in tasks.items():
        patterns = MEASURED if task in closed else MEASURED + TEXTS
        for file in whole_files(results / run, below=True):
            # This folder has copies of what the training wrote.
            of_state = (results / run / "state") in file.parents

            if not of_state and any(fnmatch(file.name, pattern) for pattern in patterns):
                files[file.relative_to(results).as_posix()] = file

    with atomic_write(path) as temporary, tarfile.open(temporary, "w:xz", preset=9) as archive:
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            if file.name == "analysis.json":
                content = _without_links(content)

            member = tarfile.TarInfo(name)  # without a time and an owner
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _without_links(content: bytes) -> bytes:
    """Drop an analysis' word links, which nobody scores and which would double the archive."""
    analysis = json.loads(content)
    sentences = {
        key: values for key, values in analysis["sentences"].items() if not key.startswith("links")
    }
    return json.dumps(analysis | {"sentences": sentences}).encode()


@contextmanager
def unpacked(stored: Path, names: Collection[str] = ()) -> Iterator[Path]:
    """Unpack the stored runs into a temporary folder, or of each run the files called `names`.

    Raises:
        UserError: the archive is damaged, too large or leads out of the folder.
    """
    with scratch_folder() as folder:
        try:
            extract_all(stored / ARCHIVE, folder, UNPACKED, names)
        except UserError as error:
            hint = AGAIN
            raise UserError(error.message, file=error.file, hint=hint) from error

        yield folder


def record(results: Path, runs: Sequence[str], call: dict[str, Any], out: Path) -> dict[str, Any]:
    """Return how many runs there are, what they cost, where and by which commands they were made.

    The command `call` made the runs whose scores `out` does not have as they are. The same command
    of the same commit counts as one, of its last day.
    """
    scores = [read_json(results / run / SCORES) for run in runs]
    machines = [
        {key: run_scores["training"].get(key) for key in ("hardware", "versions")}
        for run_scores in scores
    ]
    cost = {
        key: round(sum(run_scores["cost"][key] or 0 for run_scores in scores))
        for key in ("cpu_s", "gpu_s")
    }

    identity = itemgetter("commit", "command")
    earlier_calls = []
    made_by = {}
    if (out / ARCHIVE).is_file():
        earlier_calls = read_json(out / RECORD)["commands"]
        unchanged = _unchanged(results, runs, out)
        made_by = {
            run: identity(earlier)
            for earlier in earlier_calls
            for run in earlier["runs"]
            if run in unchanged
        }

    calls = {identity(command): command | {"runs": []} for command in [*earlier_calls, call]}
    # A run whose scores are new, or have changed, was made by this call.
    for run in runs:
        calls[made_by.get(run, identity(call))]["runs"].append(run)

    return {
        "runs": len(runs),
        "cost": cost,
        "machines": [
            json.loads(text) | {"runs": count}
            for text, count in Counter(map(json.dumps, machines)).most_common()
        ],
        "commands": [command for command in calls.values() if command["runs"]],
    }


def _unchanged(results: Path, runs: Sequence[str], out: Path) -> set[str]:
    """Return the runs whose scores `out` has as they are."""
    with unpacked(out) as stored:
        return {
            run
            for run in runs
            if (stored / run / SCORES).is_file()
            and (stored / run / SCORES).read_bytes() == (results / run / SCORES).read_bytes()
        }


@dataclass
class Outcome:
    """The runs of a plan by what became of them."""

    restored: list[Name] = field(default_factory=list)
    present: list[Name] = field(default_factory=list)  # had scores before
    differing: list[Name] = field(default_factory=list)  # stored with another configuration
    missing: list[Name] = field(default_factory=list)  # not stored
    # restored now or before, whose weights differing or missing runs need to start or to be joined
    again: list[Name] = field(default_factory=list)


def restore(stored: Path, results: Path, plan: Plan) -> Outcome:
    """Restore the stored runs whose configuration and data are the plan's.

    Runs that have scores are left as they are. The stored experiment may be another one. All files
    of a run get the same time, which is later than its data's: the workflow takes them as up to
    date, and trains only what is missing. A record beside them says that the run has no weights,
    and what it was trained with.

    Raises:
        UserError: none of the plan's tasks or no runs are stored, or a task has no prepared data
            yet.
    """
    experiment = plan.experiment
    stored_experiment = _read_stored(stored, experiment)
    for task in experiment.tasks:
        _check_prepared(results / task / "data", task)

    stored_tasks = stored_experiment["tasks"]
    changed_tasks = {
        task
        for task, config in experiment.tasks.items()
        if data_of(dict(config)) != data_of(stored_tasks.get(task, {}))
    }

    outcome = Outcome()
    commits = _commits(stored)
    with unpacked(stored) as folder:
        for name in experiment.runs():
            source = folder / run_path(name)
            target = results / run_path(name)
            if (target / SCORES).exists():
                outcome.present.append(name)
            elif not (source / SCORES).is_file():
                outcome.missing.append(name)
            elif name[0] in changed_tasks or not _same_configuration(
                source / "run.yaml", plan.run(*name)
            ):
                outcome.differing.append(name)
            else:
                outcome.restored.append(name)
                # Runs of another experiment become runs of this one.
                if stored_experiment.get("experiment") != experiment.experiment:
                    _rename(source, experiment.experiment)
                made_by = {"commit": commits.get(run_path(name))}
                write_json(RunFolder(target).restored, identity_of(plan, name) | made_by)
                _copy_run(source, target)

    outcome.again = _needed_again(plan, results, [*outcome.missing, *outcome.differing])
    return outcome


def _commits(stored: Path) -> dict[str, str]:
    """Return the commit of the code that made each stored run, by the run's folder."""
    record_file = stored / RECORD
    if not record_file.is_file():
        return {}
    record = read_json(record_file)
    try:
        return {
            run: command["commit"][:COMMIT]
            for command in record["commands"]
            for run in command["runs"]
        }
    except (KeyError, TypeError):
        raise UserError("no commands with their runs", file=record_file, hint=AGAIN) from None


def _read_stored(stored: Path, experiment: Experiment) -> dict[str, Any]:
    """Read the configuration of a stored experiment that has a task of ours, and runs."""
    content = read_yaml(stored / EXPERIMENT)
    tasks = content.get("tasks", {}) if isinstance(content, dict) else {}
    if not isinstance(tasks, dict) or not all(isinstance(task, dict) for task in tasks.values()):
        hint = AGAIN
        raise UserError("this is not an experiment", file=stored / EXPERIMENT, hint=hint)

    if not tasks.keys() & experiment.tasks.keys():
        raise UserError(
            f"no task of `{experiment.experiment}` is in it",
            file=stored / EXPERIMENT,
            hint=f"its tasks are {', '.join(tasks)}",
        )

    if not (stored / ARCHIVE).is_file():
        hint = "only tables and figures are stored here; train the runs"
        raise UserError("no runs are stored", file=stored / ARCHIVE, hint=hint)

    return dict(content)


def _check_prepared(data: Path, task: str) -> None:
    """Check that a task's data are prepared."""
    if not (data / "summary.json").is_file():
        reason = (
            "made later, it would be newer than what is restored, and all would be trained again"
        )
        raise UserError(
            f"the data of task `{task}` is not prepared: {reason}",
            file=data,
            hint="run `pam run data --configfile ...` before",
        )


def _copy_run(source: Path, target: Path) -> None:
    """Copy the files of a run, all with the same time."""
    now = time.time_ns()
    files = whole_files(source, below=True)
    # The scores come last, as they make a run present.
    for path in sorted(files, key=lambda path: (path == source / SCORES, path)):
        with atomic_write(target / path.relative_to(source)) as temporary:
            shutil.copyfile(path, temporary)
            os.utime(temporary, ns=(now, now))


def _needed_again(plan: Plan, results: Path, untrained: Sequence[Name]) -> list[Name]:
    """Return the restored runs whose weights some runs that are still to be trained need."""
    needed: dict[Name, None] = {}
    waiting = list(untrained)
    while waiting:
        # A restored run that is needed may need the weights of others in turn.
        task, model, seed = waiting.pop(0)
        base = plan.experiment.training_task(task)
        sources = [(model, seed)]
        if base == task:
            sources = plan.sources(model, seed)

        for source in sources:
            name = (base, *source)
            if name not in needed and RunFolder(results / run_path(name)).lacks_weights:
                needed[name] = None
                waiting.append(name)

    return list(needed)


def _rename(run: Path, experiment: str) -> None:
    """Make a run one of another experiment, as the tables of an experiment take no others."""
    config = run / "run.yaml"
    write_text(config, dump_yaml(load_run(config).model_copy(update={"experiment": experiment})))

    for path in run.glob("*scores.json"):
        write_json(path, read_json(path) | {"experiment": experiment})


def _same_configuration(stored: Path, run: RunConfig) -> bool:
    """Check whether a stored run was trained and decoded as `run` asks for."""
    try:
        stored_run = load_run(stored)
    except UserError:  # of an earlier form, which is not read any more
        return False

    return is_same_run(stored_run, run)
