"""An experiment as the workflow runs it: checked as a whole, with its models, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pam.config import (
    Cell,
    Experiment,
    ModelChoices,
    Resources,
    TaskConfig,
    kind_of,
    load_model,
    parse,
    resolve_cell,
    unknown,
)
from pam.data.registry import Dataset
from pam.errors import UserError
from pam.fingerprint import QUESTIONS, answers
from pam.yaml_files import place_of, read_yaml

RESERVED_TASKS = frozenset({"tables", "figures", "logs", "report", "benchmarks"})
"""Folders that stand beside those of the tasks in `results/<experiment>/`."""

RESERVED_MODELS = frozenset({"data"})
"""Folders that stand beside those of the models in `results/<experiment>/<task>/`."""

MODELS = Path("config/models")


@dataclass(frozen=True)
class Plan:
    """An experiment, its models' choices, and the files in which both were written."""

    experiment: Experiment
    choices: dict[str, ModelChoices]
    files: tuple[Path, ...]

    def cell(self, task: str, model: str, seed: int) -> Cell:
        """The resolved configuration of one training.

        Models outside the experiment's list can be run too, if they have a file.

        Raises:
            UserError: no such task or model, or an override that its section does not allow.
        """
        choices = self.choices.get(model) or load_model(model, MODELS)
        model_file = MODELS / f"{model}.yaml"
        return resolve_cell(self.experiment, task, model, seed, choices, self.files, model_file)

    def task(self, name: str) -> TaskConfig:
        """One task's own configuration.

        Raises:
            UserError: no such task.
        """
        tasks = self.experiment.tasks
        if name not in tasks:
            raise unknown("task", name, sorted(tasks))
        return tasks[name]

    def check_datasets(self, datasets: Mapping[str, Dataset]) -> None:
        """Checks that every task's data set is in a registry.

        Raises:
            UserError: one is not; names its line.
        """
        for task, own in self.experiment.tasks.items():
            if own.dataset not in datasets:
                error = unknown("data set", own.dataset, sorted(datasets))
                raise _at(error, self.files, ["tasks", task], "dataset")

    def resources(self, task: str) -> Resources:
        """What a training of this task asks for.

        Raises:
            UserError: no such task, or an override that is not a resource.
        """
        own = self.task(task).resources
        merged = self.experiment.resources.model_dump() | own
        return parse(Resources, merged, self.files, ("tasks", task, "resources"))


def load_plan(config: dict[str, Any] | None = None, files: Sequence[Path | str] = ()) -> Plan:
    """Checks an experiment as a whole: every key, every model, every override.

    Args:
        config: the merged configuration; without it, the first of `files` is read.
        files: the files it was merged from, the last one winning; they are named in messages.

    Raises:
        UserError: the first fault, with file, line and remedy.
    """
    paths = tuple(Path(file) for file in files)
    if config is None:
        config = read_yaml(paths[0])
    experiment = parse(Experiment, config, paths)
    _check_names(experiment, paths)
    choices = {}
    for model in experiment.models:
        try:
            choices[model] = load_model(model, MODELS)
        except UserError as error:
            if error.file is not None:
                raise
            raise _at(error, paths, ["models"], model) from error
        _check_components(choices[model], MODELS / f"{model}.yaml")
    plan = Plan(experiment, choices, paths)
    for task in experiment.tasks:
        plan.resources(task)
        for model in experiment.models:
            plan.cell(task, model, experiment.seeds[0])
    return plan


def known_dataset(datasets: Mapping[str, Dataset], name: str) -> Dataset:
    """The data set `name`.

    Raises:
        UserError: no registry has it.
    """
    if name not in datasets:
        raise unknown("data set", name, sorted(datasets))
    return datasets[name]


def check_local(name: str, dataset: Dataset) -> list[Path]:
    """The user's own files that a data set is copied from.

    Raises:
        UserError: one is missing.
    """
    for path in dataset.local_paths():
        if not path.is_file():
            raise UserError(
                f"data set `{name}`: no such file",
                file=path,
                remedy="correct its `path:` (relative to the registry's folder) or put it there",
            )
    return dataset.local_paths()


def _check_names(experiment: Experiment, files: Sequence[Path]) -> None:
    for what, names, reserved in (
        ("task", list(experiment.tasks), RESERVED_TASKS),
        ("model", experiment.models, RESERVED_MODELS),
    ):
        for name in names:
            if name in reserved:
                error = UserError(
                    f"a {what} cannot be called `{name}`: the results have a folder of that name",
                    remedy="choose another name",
                )
                raise _at(error, files, [f"{what}s"], name)
    for key, items in (("models", experiment.models), ("seeds", experiment.seeds)):
        values = [str(item) for item in items]
        for value in values:
            if values.count(value) > 1:
                error = UserError(f"`{value}` stands twice in `{key}`", remedy="remove one")
                raise _at(error, files, [key], value)


def _check_components(choices: ModelChoices, file: Path) -> None:
    """Every question of a model has an answer that exists."""
    for question in QUESTIONS:
        try:
            kind, _ = kind_of(getattr(choices, question))
        except UserError as error:
            raise _at(error, [file], [question], "kind") from error
        known = answers(question)
        if kind not in known:
            raise _at(unknown(question, kind, known), [file], [question], "kind")


def _at(error: UserError, files: Sequence[Path], keys: list[str], item: str) -> UserError:
    """The same error, placed on the line of `item` under `keys`."""
    file, line = place_of(files, [*keys, item])
    return UserError(error.message, file=file, line=line, remedy=error.remedy)
