"""Trained and stored runs that others go on from: to be damaged file by file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
import yaml

from pam.data.dataset import Prepared
from pam.decoding.hypotheses import LENGTHS
from pam.experiments.loading import load_plan
from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.models.build import build
from pam.reporting.reference import restore, store
from pam.runtime.files import write_json, write_text
from pam.training.run import reuse, train
from pam.training.start import load_starts, take_over
from tests.faults.subject import Result, Subject
from tests.training import small

SEED = "seed1"
METRICS = {"word_accuracy": {"value": 0.5}}
COST = {"cpu_s": 1.0, "gpu_s": 0.0}


def trained(room: Path, model: str = "soft", seed: int = 1) -> Path:
    """Make a task's folder with prepared data and the run of a model, trained for an epoch."""
    data = small.prepare(room / "data")
    run = small.run(model, seed=seed, epochs=1, state_every_s=60.0)
    # The same folder whatever the seed, so that one's files may come in place of the other's.
    folder = RunFolder(room / model / SEED)
    small.write_run(folder.path, run)

    assert train(folder, data, folder.path / "state", "cpu") == 0

    shutil.rmtree(folder.path / "state")
    shutil.rmtree(folder.path / "events", ignore_errors=True)

    return room


def a_start(room: Path) -> Subject:
    """Train a model from which another one starts; it is used for that one's first weights."""
    task = trained(room / "task", "structural")
    other = trained(room / "other", "structural", seed=2)
    run = _unstopped(small.run("fertility-init"))
    data = task / "data"

    def use(folder: Path) -> Result:
        starting = RunFolder(folder / "fertility-init" / SEED)
        prepared = Prepared(data)
        torch.manual_seed(run.seed)
        model = build(run.components, run.network, len(prepared.source), len(prepared.target))
        take_over(model, load_starts(starting, run, prepared))

        return {name: value.tolist() for name, value in model.state_dict().items()}

    runs = [_alone(room / name, whole) for name, whole in (("start", task), ("other start", other))]
    return Subject(runs[0], use, (runs[1],))


def a_trained_run(room: Path) -> Subject:
    """Train a run that another task tests; it is used for that task's run."""
    task = trained(room / "task")
    other = trained(room / "other", seed=2)
    data = task / "data"

    def use(folder: Path) -> Result:
        tested = RunFolder(folder / "tested")
        reuse(tested, RunFolder(folder / "soft" / SEED), data)
        files = [tested.model / name for name in ("weights.safetensors", "source.vocab", LENGTHS)]
        contents = [file.read_bytes() for file in files]
        shutil.rmtree(tested.path)

        return contents

    runs = [_alone(room / name, whole) for name, whole in (("run", task), ("other run", other))]
    return Subject(runs[0], use, (runs[1],))


def _unstopped(run: RunConfig) -> RunConfig:
    """Return the run with no dropout, which draws nothing."""
    return run.model_copy(update={"network": run.network.model_copy(update={"dropout": 0.0})})


def _alone(folder: Path, task: Path) -> Path:
    """Copy the files that another run reads of a task's runs."""
    for path in sorted(task.rglob("*")):
        needed = "model" in path.parts or path.name in ("training.json", "history.csv")
        if path.is_file() and needed and "data" not in path.relative_to(task).parts:
            target = folder / path.relative_to(task)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return folder


EXPERIMENT: dict[str, Any] = {
    "experiment": "tiny",
    "title": "Made up",
    "models": ["soft", "postr-joint"],
    "tasks": {"nouns": {"dataset": "small"}},
    "device": "cpu",
}


def stored_runs(room: Path) -> Subject:
    """Store the runs of an experiment; they are used to restore them."""
    results = room / "results"
    data = small.prepare(results / "nouns/data")
    write_text(results / "experiment.yaml", yaml.safe_dump(EXPERIMENT))
    plan = load_plan(files=[results / "experiment.yaml"])

    for name in plan.experiment.runs():
        task, model, seed = name
        run = results / task / model / f"seed{seed}"
        write_text(run / "run.yaml", dump_yaml(plan.run(*name)))
        write_text(run / "history.csv", "epoch,train_loss\n1,2.5\n")
        write_text(run / "beam1/predictions.tsv", "source\ttarget\tpredicted\na\tb\tc\n")
        write_json(run / "training.json", COST)
        named = {"experiment": "tiny", "task": task, "model": model, "seed": seed}
        write_json(run / "scores.json", {**named, "metrics": METRICS, "cost": COST, "training": {}})

    store(results, room / "stored", "a command", "a commit")
    # Restoring does not read these.
    (room / "stored/scores.csv").unlink()
    for name in ("tables", "figures"):
        shutil.rmtree(room / "stored" / name)

    def use(folder: Path) -> Result:
        restored = folder / "restored"
        shutil.copytree(data, restored / "nouns/data")
        outcome = restore(folder, restored, plan)
        files = {
            str(path.relative_to(restored)): path.read_bytes()
            for path in sorted(restored.rglob("seed*/**/*.*"))
        }
        shutil.rmtree(restored)

        return [outcome.restored, outcome.differing, outcome.missing, files]

    # A changed experiment, which nothing can tell from another one, has runs that are all to be
    # trained.
    undone = [[], list(plan.experiment.runs()), [], {}]
    return Subject(room / "stored", use, fair=(undone,))
