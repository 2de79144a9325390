"""Read an experiment from its files, merged into one, and check it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from pam.experiments.consistency import check_models, check_names, check_task, check_trained_on
from pam.experiments.experiment import Experiment
from pam.experiments.given import Given, merged
from pam.experiments.listed_models import load_models
from pam.experiments.parsing import parse
from pam.experiments.plan import Plan
from pam.experiments.yaml import placed, read_yaml
from pam.runtime.errors import UserError
from pam.runtime.files import find_file, from_here

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


def load_plan(config: dict[str, Any] | None = None, files: Sequence[Path | str] = ()) -> Plan:
    """Read an experiment and check it as a whole: every key, every model, every override.

    The first error is a UserError.

    Args:
        config: what was merged from `files`; None: they are read and merged.
        files: where it was written, the last one winning. Registries that the folder of work does
            not have are looked for beside them, then among the workflow's own.
    """
    paths = tuple(file if isinstance(file, Given) else from_here(file) for file in files)
    experiment = _read_experiment(config, paths)
    for task in experiment.tasks:
        check_trained_on(experiment, task, paths)
    check_names(experiment, paths)

    plan = Plan(experiment, load_models(experiment, paths), paths)
    check_models(plan)
    for task in experiment.tasks:
        check_task(plan, task)
    return plan


def _read_experiment(config: dict[str, Any] | None, paths: tuple[Path | Given, ...]) -> Experiment:
    """Read every key of an experiment, and find its registries."""
    # All files are read, for what merging hides: a key that is given twice.
    contents = [path.content if isinstance(path, Given) else read_yaml(path) for path in paths]
    if config is None:
        config = reduce(merged, contents)

    check_merged(contents, paths)
    experiment = parse(Experiment, config, paths)

    folders = [path.parent for path in paths if isinstance(path, Path)]
    registries = [str(find_file(name, *folders)) for name in experiment.registries]

    return experiment.model_copy(update={"registries": registries})


def check_merged(contents: Sequence[Any], paths: Sequence[Path | Given]) -> None:
    """Check that no two files name two experiments: merged, one would replace half of the other."""
    named: dict[str, Path] = {}
    for content, path in zip(contents, paths, strict=True):
        name = content.get("experiment") if isinstance(content, dict) else None
        if not isinstance(name, str) or not isinstance(path, Path):
            continue

        named.setdefault(name, path)
        if len(named) > 1:
            first, *_ = named.values()
            message = (
                f"this file is another experiment than {first}: files are merged into one, and the"
                " keys of a later file replace those of an earlier one"
            )
            hint = (
                "run the experiments one after the other; to change a few keys of one, leave out"
                " `experiment:` in the file with the changes, and give the result another name by"
                " `--config experiment=NAME`"
            )
            raise placed(UserError(message, hint=hint), [path], ["experiment"])
