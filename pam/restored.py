"""Runs that were restored from `results/reference`: what they were made with, and what they lack.

Weights are not stored. Whatever would need those of a restored run is left out of the page, unless
somebody asks for it by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pam.config import RunConfig, load_run
from pam.experiment import Plan
from pam.io import UserError, read_json
from pam.run_folder import RunFolder

Name = tuple[str, str, int]  # a run: task, model, seed


def data_of(task: Mapping[str, Any]) -> list[Any]:
    """Return what decides which data a task has."""
    return [task.get(key) or None for key in ("dataset", "format", "trained_on", "word_alignments")]


def decoding_of(run: RunConfig) -> dict[str, Any]:
    """Return what decides a run's outputs."""
    return run.decoding.model_dump(exclude={"batch_size"})


def identity_of(plan: Plan, name: Name) -> dict[str, Any]:
    """Return what decides the results of a run, as a restored run's record holds it."""
    run = plan.run(*name)
    identity = {
        "data": data_of(dict(plan.task(name[0]))),
        "training": run.training_config(),
        "decoding": decoding_of(run),
    }
    return dict(json.loads(json.dumps(identity)))


def check_unchanged(plan: Plan, runs: Mapping[Name, RunFolder]) -> None:
    """Check that restored runs were made as the plan asks for.

    Snakemake has no record of their making, and would show them whatever the configuration says.
    A UserError names the first run that was made otherwise.
    """
    changed = [name for name, folder in runs.items() if not _is_unchanged(plan, name, folder)]
    if not changed:
        return
    others = f" ({len(changed)} of {len(runs)} restored runs)" if len(changed) > 1 else ""
    hint = (
        "delete the folders of such runs to have them trained, or give the experiment another name"
    )
    raise UserError(
        f"this run was restored, and its configuration has changed since{others}",
        file=runs[changed[0]].path,
        hint=hint,
    )


def _is_unchanged(plan: Plan, name: Name, folder: RunFolder) -> bool:
    record = read_json(folder.restored)
    wanted = identity_of(plan, name)
    if record == wanted:
        return True
    # The record may be older than some key of the configuration, which `run.yaml` has by its
    # default.
    stored, run = load_run(folder.config_file), plan.run(*name)
    same_training = stored.training_config() == run.training_config()
    return (
        record.get("data") == wanted["data"]
        and same_training
        and decoding_of(stored) == decoding_of(run)
    )
