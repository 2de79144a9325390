"""Trainings that are done again for another decoding, as their epoch is chosen by decoding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pam.experiments.parsing import dump_yaml
from pam.experiments.plan import Plan
from pam.experiments.restored import Name
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import CONFIG
from pam.runtime.errors import UserError


def told_of_decoding(plan: Plan, runs: Iterable[tuple[Name, RunFolder]]) -> list[str]:
    """Say of which keys of `decoding` alone some runs are trained again, and why.

    Args:
        plan: the experiment.
        runs: runs that may have been trained before, with their folders.
    """
    models: dict[tuple[str, str], list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for (task, model, seed), folder in runs:
        # Seeds of a model have one configuration, so the first one that was trained tells.
        if (task, model) in seen or not _trained(folder).is_file():
            continue
        seen.add((task, model))
        keys = changed_decoding(folder, plan.run(task, model, seed))
        if keys:
            models.setdefault((task, ", ".join(keys)), []).append(model)

    return [
        f"changed: {keys}; {', '.join(of_task)} on {task} will be trained again, as"
        " `training.select: accuracy` chooses their epoch by decoding"
        for (task, keys), of_task in models.items()
    ]


def changed_decoding(folder: RunFolder, run: RunConfig) -> list[str]:
    """Return the keys of `decoding` that alone make a training differ from the one before.

    There are none if its training differs in more, or does not decode.
    """
    if not run.is_chosen_by_decoding:
        return []
    # Most runs have not changed, and to read YAML takes long.
    if _trained(folder).read_text(encoding="utf-8") == dump_yaml(run):
        return []

    try:
        before = load_run(_trained(folder)).as_written_for(run)
    except UserError:  # of an earlier form
        return []

    config = run.training_config()
    config_before = before.training_config()
    decoding = config.pop("decoding")
    decoding_before = config_before.pop("decoding", None)
    if config != config_before or decoding_before is None:
        return []
    return [f"`decoding.{key}`" for key in decoding if decoding[key] != decoding_before[key]]


def _trained(folder: RunFolder) -> Path:
    """Return the configuration with which a run was trained."""
    return folder.model / CONFIG
