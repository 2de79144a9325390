"""An experiment as the workflow runs it: checked as a whole, with its models, run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pam.answers import answers, asked, check_options
from pam.config import (
    Choice,
    Decoding,
    Experiment,
    ModelConfig,
    Options,
    Resources,
    ResourcesByModel,
    RunConfig,
    TaskConfig,
    kind_of,
    load_model,
)
from pam.data.registry import Dataset, load_task
from pam.fingerprint import QUESTIONS
from pam.io import Section, UserError, parse, place_of, read_yaml, unknown

RESERVED_TASKS = frozenset({"tables", "figures", "logs", "report", "benchmarks"})
"""Folders that stand beside those of the tasks in `results/<experiment>/`."""

RESERVED_MODELS = frozenset({"data", "gold", "significance"})
"""Folders that stand beside those of the models in `results/<experiment>/<task>/`."""

OF_TASKS = frozenset({"beam", "beams", "dev"})
"""Keys of `decoding` that decide which files there are, and so are not a model's to change."""

MODELS = Path("config/models")


@dataclass(frozen=True)
class Plan:
    """An experiment, its models' components, and the files in which both were written."""

    experiment: Experiment
    components: dict[str, ModelConfig]
    files: tuple[Path, ...]

    def run(self, task: str, model: str, seed: int) -> RunConfig:
        """The resolved configuration of one training.

        Models outside the experiment's list can be run too, if they have a file.

        Raises:
            UserError: no such task or model, or an override that its section does not allow.
        """
        model_file = MODELS / f"{model}.yaml"
        components = self._components(model)
        run = resolve_run(self.experiment, task, model, seed, components, self.files, model_file)
        if not components.members:
            return run
        members = [self.run(task, member, seed) for member in components.members]
        joined = {
            "kind": "ensemble",
            "members": [
                {
                    "components": member.components.model_dump(),
                    "network": member.network.model_dump(),
                }
                for member in members
            ],
        }
        made = run.components.model_copy(
            update={"architecture": joined, "targets": members[0].components.targets}
        )
        return run.model_copy(update={"components": made})

    def _components(self, model: str) -> ModelConfig:
        return self.components.get(model) or load_model(model, MODELS)

    def members(self, model: str) -> list[str]:
        """The models whose mean a model is; none if it is trained by itself.

        Raises:
            UserError: no such model, or one among them is itself an ensemble, or writes another
                kind of output.
        """
        members = self._components(model).members
        file = MODELS / f"{model}.yaml"
        targets = set()
        for member in members:
            try:
                components = self._components(member)
            except UserError as error:
                raise _at(error, [file], [], "members") from error
            targets.add(components.targets)
            if components.members or len(targets) > 1:
                fault = UserError(
                    f"`{member}` cannot be joined with the others",
                    hint="join models of their own training, all of symbols or all of actions",
                )
                raise _at(fault, [file], [], "members")
        return members

    def task(self, name: str) -> TaskConfig:
        """One task's own configuration.

        Raises:
            UserError: no such task.
        """
        tasks = self.experiment.tasks
        if name not in tasks:
            raise unknown("task", name, sorted(tasks))
        return tasks[name]

    def beams(self, task: str) -> list[int]:
        """Beams with which a task's test split is decoded, the main one first.

        Raises:
            UserError: no such task.
        """
        own = self.task(task)
        merged = self.experiment.decoding.model_dump() | own.decoding
        decoding = parse(Decoding, merged, self.files, ("tasks", task, "decoding"))
        return list(dict.fromkeys([decoding.beam, *decoding.beams]))

    def check_datasets(self, datasets: Mapping[str, Dataset]) -> None:
        """Checks that every task's data sets are in a registry and can be read as it wants.

        Raises:
            UserError: one is not, or a key of `format` makes no sense; names its line.
        """
        for task, own in self.experiment.tasks.items():
            under = ["tasks", task]
            for key, name in (("dataset", own.dataset), ("gold", own.gold)):
                if name is not None and name not in datasets:
                    raise _at(unknown("data set", name, sorted(datasets)), self.files, under, key)
            entry = datasets[own.dataset].with_format(own.format)
            kind = load_task(entry.task)
            if not kind.STAGES:
                error = UserError(
                    f"`{own.dataset}` holds word alignments, which no model learns",
                    hint="name it as the `gold` of a task of translation",
                )
                raise _at(error, self.files, under, "dataset")
            if own.gold is not None and load_task(datasets[own.gold].task).STAGES:
                error = UserError(
                    f"`{own.gold}` holds no word alignments",
                    hint="name a data set with `task: alignment`",
                )
                raise _at(error, self.files, under, "gold")
            parse(kind.Format, entry.format, self.files, (*under, "format"))

    def resources(self, task: str, model: str | None = None) -> Resources:
        """What jobs on this task ask for, those of one model if it is given.

        The experiment's `resources`, then the task's, then what these say of the model.

        Raises:
            UserError: no such task, or an override that is not a resource.
        """
        own, under = self.task(task).resources, ("tasks", task, "resources")
        merged = self.experiment.resources.model_dump() | own
        by_model = parse(ResourcesByModel, merged, self.files, under)
        base = by_model.model_dump(exclude={"models"})
        if model is None or model not in by_model.models:
            return Resources(**base)
        under = (*(under if "models" in own else ("resources",)), "models", model)
        return parse(Resources, base | by_model.models[model], self.files, under)


def resolve_run(
    experiment: Experiment,
    task: str,
    model: str,
    seed: int,
    components: ModelConfig,
    file: Path | str | Sequence[Path] | None = None,
    model_file: Path | str | None = None,
) -> RunConfig:
    """Defaults, then the experiment's, the task's and the model's, later ones winning.

    Args:
        file: where the experiment was written, to be named in messages.
        model_file: where the model was written, likewise.

    Raises:
        UserError: an unknown task, or an override that its section does not allow.
    """
    if task not in experiment.tasks:
        raise unknown("task", task, sorted(experiment.tasks))

    def layered(section: str, base: Section) -> Section:
        kind = type(base)
        under = ("tasks", task, section)
        override = getattr(experiment.tasks[task], section)
        merged = parse(kind, base.model_dump() | override, file, under)
        override = getattr(components, section)
        return parse(kind, merged.model_dump() | override, model_file, (section,))

    return RunConfig(
        experiment=experiment.experiment,
        task=task,
        model=model,
        label=components.label,
        seed=seed,
        components=with_options(components, experiment.options, experiment.tasks[task].options),
        network=layered("network", experiment.network),
        training=layered("training", experiment.training),
        decoding=layered("decoding", experiment.decoding),
    )


def with_options(components: ModelConfig, *layers: Options) -> ModelConfig:
    """The model with the options that its components are given, later layers winning.

    What the model's own file says wins over every layer. Questions in a layer must be a model's;
    those that its architecture does not ask change nothing.
    """
    changed: dict[str, Choice] = {}
    named = {question for layer in layers for question in layer}
    for question in sorted(named.intersection(asked(kind_of(components.architecture)[0]))):
        kind, own = kind_of(getattr(components, question))
        given = [layer.get(question, {}).get(kind, {}) for layer in layers]
        options = {name: value for one in (*given, own) for name, value in one.items()}
        if options:
            changed[question] = {"kind": kind, **options}
    return components.model_copy(update=changed)


def load_plan(config: dict[str, Any] | None = None, files: Sequence[Path | str] = ()) -> Plan:
    """Checks an experiment as a whole: every key, every model, every override.

    Args:
        config: the merged configuration; without it, the first of `files` is read.
        files: the files it was merged from, the last one winning; they are named in messages.

    Raises:
        UserError: the first fault, with file, line and hint.
    """
    paths = tuple(Path(file) for file in files)
    if config is None:
        config = read_yaml(paths[0])
    experiment = parse(Experiment, config, paths)
    _check_names(experiment, paths)
    _check_options(experiment.options, paths, ["options"])
    components = {}
    for model in experiment.models:
        try:
            components[model] = load_model(model, MODELS)
        except UserError as error:
            if error.file is not None:
                raise
            raise _at(error, paths, ["models"], model) from error
        _check_components(components[model], MODELS / f"{model}.yaml")
        for key in OF_TASKS & components[model].decoding.keys():
            fault = UserError(
                f"`{key}` is the same for all models of a task",
                hint=f"set `decoding: {{{key}: ...}}` in the experiment or in its task",
            )
            raise _at(fault, [MODELS / f"{model}.yaml"], ["decoding"], key)
    plan = Plan(experiment, components, paths)
    for model in experiment.models:
        plan.members(model)
    for task, own in experiment.tasks.items():
        _check_task_models(task, experiment, paths)
        _check_options(own.options, paths, ["tasks", task, "options"])
        _check_resources(plan, task)
        for model in experiment.models_of(task):
            plan.run(task, model, experiment.seeds_of(task)[0])
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
                hint="correct its `path:` (relative to the registry's folder) or put it there",
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
                    hint="choose another name",
                )
                raise _at(error, files, [f"{what}s"], name)
    lists: list[tuple[list[str], str, Sequence[object]]] = [
        ([], "models", experiment.models),
        ([], "seeds", experiment.seeds),
        *((["tasks", name], "seeds", task.seeds or ()) for name, task in experiment.tasks.items()),
    ]
    for under, key, items in lists:
        values = [str(item) for item in items]
        for value in values:
            if values.count(value) > 1:
                error = UserError(f"`{value}` stands twice in `{key}`", hint="remove one")
                raise _at(error, files, [*under, key], value)


def _check_task_models(task: str, experiment: Experiment, files: Sequence[Path]) -> None:
    """A task's models are some of the experiment's, and at least one."""
    own, models = experiment.tasks[task], experiment.models
    for key, named in (("models", own.models or []), ("without", own.without)):
        for model in named:
            if model not in models:
                error = unknown("model of the experiment", model, models)
                raise _at(error, files, ["tasks", task, key], model)
    if not experiment.models_of(task):
        none = UserError("no model is left to run", hint="name fewer in `without`")
        raise _at(none, files, ["tasks", task], "without")


def _check_resources(plan: Plan, task: str) -> None:
    """What is asked for makes sense, for every model too, and those models are the experiment's."""
    plan.resources(task)
    experiment, own = plan.experiment, plan.experiment.tasks[task].resources
    for layer, under in (
        (experiment.resources.models, ["resources"]),
        (own.get("models", {}), ["tasks", task, "resources"]),
    ):
        for model in layer:
            if model not in experiment.models:
                error = unknown("model of the experiment", model, experiment.models)
                raise _at(error, plan.files, [*under, "models"], model)
            plan.resources(task, model)


def _check_options(options: Options, files: Sequence[Path], under: list[str]) -> None:
    """Options are given to components that exist."""
    for question, kinds in options.items():
        if question not in QUESTIONS:
            raise _at(unknown("question", question, list(QUESTIONS)), files, under, question)
        for kind in kinds:
            if kind not in answers(question):
                error = unknown(question, kind, answers(question))
                raise _at(error, files, [*under, question], kind)
            _check_option_names(question, kind, kinds[kind], files, [*under, question, kind])


def _check_components(components: ModelConfig, file: Path) -> None:
    """Every question of a model has an answer that exists."""
    for question in QUESTIONS:
        try:
            kind, options = kind_of(getattr(components, question))
        except UserError as error:
            raise _at(error, [file], [question], "kind") from error
        known = answers(question)
        if kind not in known:
            raise _at(unknown(question, kind, known), [file], [question], "kind")
        if (question, kind) == ("architecture", "ensemble"):
            fault = UserError("an ensemble is made of `members`", hint="name models there")
            raise _at(fault, [file], [], question)
        _check_option_names(question, kind, options, [file], [question])


def _check_option_names(
    question: str, kind: str, options: dict[str, Any], files: Sequence[Path], under: list[str]
) -> None:
    """A component has every option that it is given."""
    for name in options:
        try:
            check_options(question, kind, [name])
        except UserError as error:
            raise _at(error, files, under, name) from error


def _at(error: UserError, files: Sequence[Path], keys: list[str], item: str) -> UserError:
    """The same error, placed on the line of `item` under `keys`."""
    file, line = place_of(files, [*keys, item])
    return UserError(error.message, file=file, line=line, hint=error.hint)
