"""Compute and keep the fingerprints that the workflow asks for with the given experiments.

    PYTHONPATH=FOLDER python fill_fingerprints.py EXPERIMENT ...

They are kept beside the code in FOLDER. A plan computes the same ones, but it also plans thousands
of jobs that ask for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import SimpleNamespace

from pam.data.registry import load_task
from pam.experiments.check import check_experiment
from pam.experiments.fingerprint import CODE, PARTS_OF_KIND
from pam.reporting.catalogue import DRAWINGS
from pam.runtime import files
from pam.tasks import KINDS
from pam.workflow import JobInputs, WorkflowFiles

OF_RUNS = ("train", "predict", "length-penalty", "attention", "analyze")


def fill(file: str) -> None:
    """Ask for the fingerprint of each job of an experiment."""
    plan, datasets = check_experiment(None, [file])
    inputs = JobInputs(plan, datasets, WorkflowFiles(plan, datasets))

    for task_name, task in plan.experiment.tasks.items():
        job = SimpleNamespace(task=task_name)
        inputs.stage_code()(job)
        for stage in load_task(datasets[task.dataset].task).STAGES:
            inputs.stage_code(stage)(job)
        if task.word_alignments:
            inputs.gold_code()(job)

    for task_name, model, seed in plan.experiment.runs():
        job = SimpleNamespace(task=task_name, model=model, seed=seed)
        commands = OF_RUNS
        if plan.members(model):
            commands += ("ensemble",)
        for command in commands:
            inputs.run_code(command)(job)


def fill_commands() -> None:
    """Ask for the fingerprint of each command, and of each kind of its jobs."""
    for command in CODE:
        JobInputs.code(command)
        kinds: Iterable[str] = ()
        if command in PARTS_OF_KIND:
            kinds = KINDS
        elif command == "figures":
            kinds = DRAWINGS
        for kind in kinds:
            JobInputs.code(command, kind)


if __name__ == "__main__":
    # Each fingerprint is written when it is known, and none of them has to survive a loss of power.
    files._flush = lambda path: None
    fill_commands()
    for name in sys.argv[1:]:
        fill(name)
