"""Runs that were restored from `results/reference`, and whether the plan still asks for them.

Weights are not stored. Whatever would need those of a restored run is left out of the page, unless
somebody asks for it by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pam.experiments.plan import Plan
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder
from pam.runtime.errors import UserError
from pam.runtime.files import read_json

Name = tuple[str, str, int]  # a run: task, model, seed


def data_of(task: Mapping[str, Any]) -> list[Any]:
    """Return the part of a task's configuration that decides its data."""
    return [task.get(key) or None for key in ("dataset", "format", "trained_on", "word_alignments")]


def decoding_of(run: RunConfig) -> dict[str, Any]:
    """Return the settings of decoding that decide a run's outputs."""
    return run.decoding.model_dump(exclude={"batch_size"})


def identity_of(plan: Plan, name: Name) -> dict[str, Any]:
    """Return the settings that decide a run's results, as a restored run's record holds them."""
    task, _, _ = name
    run = plan.run(*name)
    identity = {
        "data": data_of(dict(plan.task(task))),
        "training": run.training_config(),
        "decoding": decoding_of(run),
    }

    # Through JSON, so that it is equal to a record that was read.
    return dict(json.loads(json.dumps(identity)))


def check_unchanged(plan: Plan, runs: Mapping[Name, RunFolder]) -> None:
    """Check that restored runs were made as the plan asks for.

    Snakemake has no record of their making, and would show them whatever the configuration says.
    A UserError names the first run that was made otherwise.
    """
    changed = [name for name, folder in runs.items() if not _is_unchanged(plan, name, folder)]
    if not changed:
        return

    share = ""
    if len(changed) > 1:
        share = f" ({len(changed)} of {len(runs)} restored runs)"

    hint = (
        "delete the folders of such runs to have them trained, or give the experiment another name"
    )
    raise UserError(
        f"this run was restored, and its configuration has changed since{share}",
        file=runs[changed[0]].path,
        hint=hint,
    )


def _is_unchanged(plan: Plan, name: Name, folder: RunFolder) -> bool:
    """Tell whether a restored run was made as the plan asks for."""
    record = read_json(folder.restored)
    identity = identity_of(plan, name)
    if {key: record.get(key) for key in identity} == identity:
        return True

    # The record may be older than some key of the configuration. Read as a configuration,
    # `run.yaml` has the default of such a key.
    same_data = record.get("data") == identity["data"]
    return same_data and is_same_run(load_run(folder.config_file), plan.run(*name))


def is_same_run(stored: RunConfig, planned: RunConfig) -> bool:
    """Tell whether a stored run was trained and decoded as a planned one asks for."""
    stored = stored.as_written_for(planned)
    same_training = stored.training_config() == planned.training_config()
    return same_training and decoding_of(stored) == decoding_of(planned)
