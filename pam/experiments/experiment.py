"""An experiment as the workflow runs it: checked as a whole, with its models, run by run.

`load_plan` reads an experiment and calls the checks of this module in their order. The list of all
checks, also of those that need the registries of data sets, is in `pam.experiments.check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pam.data.registry import Dataset
from pam.experiments.config import (
    OVERRIDES,
    Decoding,
    Experiment,
    Member,
    ModelConfig,
    OptionLayer,
    Resources,
    ResourcesByModel,
    RunConfig,
    TaskConfig,
    load_model,
    model_files,
    read_options,
    with_changes,
)
from pam.experiments.given import Given, merged
from pam.experiments.parsing import parse
from pam.experiments.sweep import SWEEP, Point, Sweep
from pam.experiments.yaml import placed, read_yaml
from pam.models.fitting import FitError, check_parts, check_sizes
from pam.models.options import COMPONENTS, Options
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import find_file, from_here

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Folders next to those of the tasks in `results/<experiment>/`, and of the models in
# `results/<experiment>/<task>/`.
RESERVED_TASKS = frozenset({"tables", "figures", "logs", "report", "benchmarks"})
RESERVED_MODELS = frozenset(
    {"data", "gold", "word_alignments", "significance", "controls", "aligners"}
)
# Keys of `decoding` that decide which files there are, so no model has its own.
OF_TASKS = frozenset({"beam", "beams", "dev"})
# Keys of `network` that decide the shapes of weights.
SIZES = ("embedding", "encoder", "decoder", "encoder_layers", "decoder_layers", "encoder_reads")
MODELS = Path("config/models")
Files = Sequence[Path | Given]
Place = tuple[Files, Sequence[str]]  # files, and keys in them, as `placed` takes them


@dataclass(frozen=True)
class Plan:
    """An experiment, its models' components, and the files in which both were written."""

    experiment: Experiment
    components: dict[str, ModelConfig]
    files: tuple[Path | Given, ...]

    # What a task, a model or a run has.

    def task(self, name: str) -> TaskConfig:
        """Return one task's own configuration; an unknown task is a UserError, here and below."""
        tasks = self.experiment.tasks
        check_known("task", name, sorted(tasks))
        return tasks[name]

    def model(self, name: str) -> ModelConfig:
        """Return a model's components; a model that has a file need not be listed."""
        if name in self.components:
            return self.components[name]
        components = load_model(name, MODELS)
        check_model(components, *self.place_of(name))
        return components

    def place_of(self, model: str, *keys: str) -> Place:
        """Return where keys of a model are written, for messages: the files, and the keys there."""
        return _place_of(self.experiment, self.files, model, *keys)

    def aligned_runs(self) -> Iterator[tuple[str, str, int]]:
        """Yield task, model and seed of every run that can align texts: none of pointer actions."""
        for task, model, seed in self.experiment.runs():
            if self.model(model).targets == "symbols":
                yield task, model, seed

    def beams(self, task: str) -> list[int]:
        """Return the beams with which a task's test split is decoded, the main one first."""
        values = self.experiment.decoding.model_dump() | self.task(task).decoding
        decoding = parse(Decoding, values, self.files, ("tasks", task, "decoding"))
        return list(dict.fromkeys([decoding.beam, *decoding.beams]))

    def resources(self, task: str, model: str | None = None) -> Resources:
        """Return what jobs on this task, or on one of its models, ask for.

        The experiment's resources are overridden by the task's, and those by the model's.
        """
        of_task = self.task(task).resources
        keys: tuple[str, ...] = ("tasks", task, "resources")
        values = self.experiment.resources.model_dump() | of_task
        by_model = parse(ResourcesByModel, values, self.files, keys)

        base = by_model.model_dump(exclude={"models"})
        if model is None or model not in by_model.models:
            return Resources(**base)

        # Where the overrides of this model are written.
        if "models" not in of_task:
            keys = ("resources",)
        overrides = by_model.models[model]
        return parse(Resources, base | overrides, self.files, (*keys, "models", model))

    def run(self, task: str, model: str, seed: int) -> RunConfig:
        """Return the resolved configuration of one training, or of an ensemble.

        A UserError says that there is no such task or model, or that an override is not allowed.
        """
        self.task(task)
        experiment = self.experiment
        components = self.model(model)
        training_task = experiment.training_task(task)
        task_options = self.task(training_task).options
        run = RunConfig(
            plugins=experiment.plugins,
            experiment=experiment.experiment,
            task=task,
            model=model,
            label=components.label,
            seed=seed,
            components=with_options(components, experiment.options, task_options),
            network=self._layered(model, components, training_task, "network"),
            training=self._layered(model, components, training_task, "training"),
            decoding=self._layered(model, components, task, "decoding"),
        )
        if not components.members:
            self._check_start_sizes(run)
            return run

        runs = [self.run(task, member, seed) for member in self.members(model)]
        # An ensemble writes what its members write.
        joined = run.components.model_copy(update={"targets": runs[0].components.targets})
        members = [Member(components=member.components, network=member.network) for member in runs]

        return run.model_copy(update={"components": joined, "members": members})

    def _layered(self, model: str, components: ModelConfig, task: str, section: str) -> Any:
        """Return the experiment's section with a task's overrides, then a model's over those."""
        defaults = getattr(self.experiment, section)
        kind = type(defaults)
        of_task = getattr(self.task(task), section)
        values = parse(
            kind, defaults.model_dump() | of_task, self.files, under=("tasks", task, section)
        )
        of_model = getattr(components, section)
        return parse(kind, values.model_dump() | of_model, *self.place_of(model, section))

    # Models that are made from other models.

    def members(self, model: str) -> list[str]:
        """Return the models whose mean a model is; none if it is trained by itself.

        A UserError names one that cannot be in one ensemble with the other members.
        """
        members = self.model(model).members
        where = self.place_of(model, "members")
        # Distributions are averaged, so all members have to write the same.
        outputs = set()
        for member in members:
            try:
                components = self.model(member)
            except UserError as error:
                raise placed(error, *where) from error

            outputs.add((components.targets, components.copying.copies))
            if components.members or components.reversed or len(outputs) > 1:
                hint = (
                    "join models of their own training, all of symbols or all of actions, none of"
                    " them reversed, and all or none with a pointer that copies"
                )
                message = f"`{member}` cannot be in one ensemble with the other members"
                raise placed(UserError(message, hint=hint), *where)

        return members

    def starts(self, model: str, before: tuple[str, ...] = ()) -> list[str]:
        """Return the models whose trained weights a model starts from.

        A UserError names one that is unknown, has no training, learns something else, or starts
        from it in turn.

        Args:
            model: its name.
            before: the models that start from it.
        """
        starts = self.model(model).starts()
        for prefix, name in starts.items():
            self._check_start(model, name, is_backward=prefix != "", before=before)
            # The source may start from another model in turn.
            self.starts(name, (*before, model))
        return list(starts.values())

    def trained_starts(self, task: str) -> dict[str, str]:
        """Return the paths of trained models of other data that a task's models start from.

        They are by the names of these models, which others of the task may start from in turn.
        """
        waiting = [] if self.task(task).trained_on else list(self.experiment.models_of(task))
        paths: dict[str, str] = {}
        seen: set[str] = set()
        while waiting:
            model = waiting.pop(0)
            if model in seen:
                continue

            seen.add(model)
            waiting += [*self.members(model), *self.starts(model)]
            path = self.model(model).trained_start
            if path is not None:
                paths[model] = path

        return paths

    def _check_start(
        self, model: str, name: str, is_backward: bool, before: tuple[str, ...]
    ) -> None:
        """Check that a model can start from the weights of the model `name`."""
        where = self.place_of(model, "init_from")
        components = self.model(model)
        try:
            source = self.model(name)
        except UserError as error:
            raise _placed_once(error, *where) from error

        is_reversed = components.reversed != is_backward
        if source.members:
            problem = "is an ensemble"
            hint = "start from a model that is trained itself"
        elif source.targets != components.targets:
            problem = f"writes {source.targets}"
            hint = f"start from a model with `targets: {components.targets}`"
        elif source.reversed != is_reversed:
            direction = "target to source" if source.reversed else "source to target"
            problem = f"learns from {direction}"
            hint = f"start from a model {'with' if is_reversed else 'without'} `reversed: true`"
        elif name in (*before, model):
            problem = "starts from it in turn"
            hint = "leave out `init_from` in one of their files"
        else:
            return

        message = f"`{model}` cannot start from `{name}`, which {problem}"
        raise placed(UserError(message, hint=hint), *where)

    def _check_start_sizes(self, run: RunConfig) -> None:
        """Check that a run is as large as those whose weights it starts from."""
        for name in self.starts(run.model):
            source = self.run(run.task, name, run.seed).network
            for size in SIZES:
                value = getattr(run.network, size)
                source_value = getattr(source, size)
                if value != source_value:
                    message = (
                        f"`{run.model}` has `network.{size}` {value} on `{run.task}`, `{name}` has"
                        f" {source_value}: it cannot start from that"
                    )
                    error = UserError(message, hint="give both the same in `network`")
                    raise placed(error, *self.place_of(run.model, "init_from"))


def with_options(components: ModelConfig, *layers: OptionLayer) -> ModelConfig:
    """Return the model with options of the kinds that it uses.

    Later layers win, and the model's own file over all.
    """
    if not components.architecture.has_components:
        layers = tuple({"architecture": layer.get("architecture", {})} for layer in layers)

    changed = {}
    for component in COMPONENTS:
        chosen = getattr(components, component)
        options: dict[str, Any] = {}
        for layer in layers:
            options |= layer.get(component, {}).get(chosen.kind, {})
        if options:
            options |= chosen.model_dump(include=chosen.model_fields_set - {"kind"})
            changed[component] = read_options(component, chosen.kind, options)

    return components.model_copy(update=changed)


def without_effect(plan: Plan) -> Iterator[str]:
    """Yield a warning for every setting and every default of an option that no run has."""
    yield from _settings_without_effect(plan)
    yield from _options_without_effect(plan)


def _settings_without_effect(plan: Plan) -> Iterator[str]:
    """Yield a warning for keys of `network`, `training`, `decoding` that all models set."""
    experiment = plan.experiment
    for section in OVERRIDES:
        # Which keys each run's task and model set.
        runs = []
        for task, config in experiment.tasks.items():
            of_task = set(getattr(config, section))
            of_models = [
                set(getattr(model, section)) for model in _models_with(plan, section, task)
            ]
            runs += [of_task | of_model for of_model in of_models]

            for key in sorted(of_task.intersection(*of_models)):
                yield f"`tasks.{task}.{section}.{key}` has no effect: every model sets it itself"

        written = getattr(experiment, section).model_fields_set
        for key in sorted(written.intersection(*runs)):
            yield f"`{section}.{key}` has no effect: every task or model sets it itself"


def _models_with(plan: Plan, section: str, task: str) -> list[ModelConfig]:
    """Return the models of a task that a section is for.

    Ensembles are not trained: of `network` and `training` their members have them.
    """
    if section == "decoding":
        return [plan.model(name) for name in plan.experiment.models_of(task)]
    return [model for model in _models_with_members(plan, [task]) if not model.members]


def _options_without_effect(plan: Plan) -> Iterator[str]:
    """Yield a warning for every entry of `options` that changes no model of its tasks."""
    experiment = plan.experiment
    layers = [("options", experiment.options, list(experiment.tasks))]
    for task, config in experiment.tasks.items():
        layers.append((f"tasks.{task}.options", config.options, [task]))

    for path, layer, tasks in layers:
        models = _models_with_members(plan, tasks)
        for component, kinds in layer.items():
            chosen = [
                getattr(model, component)
                for model in models
                if component == "architecture" or model.architecture.has_components
            ]
            for kind, values in kinds.items():
                of_kind = [options for options in chosen if options.kind == kind]
                for option in values:
                    reason = _why_without_effect(component, kind, option, of_kind)
                    if reason:
                        yield f"`{path}.{component}.{kind}.{option}` has no effect: {reason}"


def _models_with_members(plan: Plan, tasks: Sequence[str]) -> list[ModelConfig]:
    """Return the models of some tasks, and the members of ensembles among them."""
    names = dict.fromkeys(name for task in tasks for name in plan.experiment.models_of(task))
    members = [member for name in names for member in plan.members(name)]
    return [plan.model(name) for name in dict.fromkeys([*names, *members])]


def _why_without_effect(
    component: str, kind: str, option: str, of_kind: Sequence[Options]
) -> str | None:
    """Say why a default of an option reaches no model of its kind; None: it reaches one."""
    if not of_kind:
        return f"no model here has `{component}: {kind}`"
    if all(option in options.model_fields_set for options in of_kind):
        return "every model with that kind sets it itself"
    return None


# Reading an experiment.


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


def load_models(experiment: Experiment, files: Files) -> dict[str, ModelConfig]:
    """Read the models of an experiment, files and variants, each of parts that fit together."""
    variants = experiment.variants()
    points = experiment.points()
    swept: dict[int, ModelConfig] = {}
    models: dict[str, ModelConfig] = {}
    for name in experiment.model_names:
        where = _place_of(experiment, files, name)
        try:
            if name in points:
                sweep = points[name].sweep
                if sweep.index not in swept:
                    swept[sweep.index] = _load_swept(sweep, experiment, models, files)
                components = _load_point(points[name], swept[sweep.index], where)
            elif name in variants:
                components = _load_variant(name, variants, models, where)
            else:
                components = load_model(name, MODELS)

            check_model(components, *where)
        except UserError as error:
            listed = _keys_of_sweep(experiment, points[name].sweep) if name in points else ()
            raise _placed_once(error, files, listed or ["models", name]) from error

        models[name] = components

    return models


def _load_swept(
    sweep: Sweep, experiment: Experiment, above: dict[str, ModelConfig], files: Files
) -> ModelConfig:
    """Read the model of a sweep without the options that are swept.

    It is the one that `from` names, or that the item is named after, with the item's changes.
    """
    changes = sweep.changes()
    keys = _keys_of_sweep(experiment, sweep)
    try:
        base_name = changes.get("from") or sweep.name
        base = _model_above(sweep.name, base_name, experiment.variants(), above)
    except UserError as error:
        raise _placed_once(error, files, [*keys, "from"]) from error

    changes.setdefault("label", base.label)
    return parse(ModelConfig, with_changes(base, sweep.name, changes), files, keys)


def _load_point(point: Point, swept: ModelConfig, where: Place) -> ModelConfig:
    """Read one model of a sweep."""
    files, keys = where
    values = with_changes(swept, point.name, point.changes())
    values["label"] = f"{swept.label}, {point.words}"
    return parse(ModelConfig, values, files, keys)


def _load_variant(
    name: str, variants: dict[str, dict[str, Any]], above: dict[str, ModelConfig], where: Place
) -> ModelConfig:
    """Read a variant of a model that has a file, or that is listed above it."""
    files, keys = where
    try:
        base = _base_of(name, variants, above)
    except UserError as error:
        raise _placed_once(error, files, [*keys, "from"]) from error

    return parse(ModelConfig, with_changes(base, name, variants[name]), files, keys)


def _base_of(
    name: str, variants: dict[str, dict[str, Any]], above: dict[str, ModelConfig]
) -> ModelConfig | None:
    """Return the model that a variant changes, None for one that says all itself.

    A UserError says that there is no such model.
    """
    base = variants[name].get("from")
    if base is None:
        return None
    return _model_above(name, base, variants, above)


def _model_above(
    name: str, base: str, variants: Collection[str], above: dict[str, ModelConfig]
) -> ModelConfig:
    """Return the model `base`, which has a file or is listed above the item `name`."""
    if base in above:
        return above[base]
    if base in variants:
        raise UserError(
            f"`{name}` is a variant of `{base}`, which is not above it",
            hint="list the other one first",
        )

    return load_model(base, MODELS)


def _place_of(experiment: Experiment, files: Files, model: str, *keys: str) -> Place:
    """Return where keys of a model are written: in its own file, as a variant or in a sweep."""
    points = experiment.points()
    if model in points:
        return files, _keys_of_point(experiment, points[model], keys)
    if model in experiment.variants():
        return files, ("models", model, *keys)
    return (find_file(MODELS / f"{model}.yaml"),), keys


def _keys_of_point(experiment: Experiment, point: Point, keys: Sequence[str]) -> Sequence[str]:
    """Return where keys of a model of a sweep are written: below `sweep`, or beside it."""
    item = _keys_of_sweep(experiment, point.sweep)
    section = keys[0] if keys else ""
    if section in point.sweep.changes() and section not in point.changes():
        return (*item, *keys)
    return (*item, SWEEP, *keys)


def _keys_of_sweep(experiment: Experiment, sweep: Sweep) -> Sequence[str]:
    """Return where a sweep is listed: by its name, or by its index too if that is listed again."""
    names = [other.name for other in experiment.sweeps()]
    if names.count(sweep.name) + experiment.model_names.count(sweep.name) > 1:
        return ("models", str(sweep.index), sweep.name)
    return ("models", sweep.name)


def _placed_once(error: UserError, files: Files, keys: Sequence[str]) -> UserError:
    """Return an error with the file and line of these keys, unless it has a file already."""
    if error.file:
        return error
    return placed(error, files, keys)


# Checks, in the order of `load_plan`.


def check_known(
    noun: str,
    name: str,
    names: list[str],
    files: Sequence[Path | str] = (),
    keys: Sequence[str] = (),
) -> None:
    """Raise a UserError for an unknown name, with the closest one and the line where it is."""
    if name not in names:
        raise placed(unknown(noun, name, names), files, keys)


def check_trained_on(experiment: Experiment, task: str, files: Sequence[Path | str]) -> None:
    """Refuse a task that takes another task's models and has options that would train others."""
    config = experiment.tasks[task]
    teacher = config.trained_on
    if teacher is None:
        return

    keys = ["tasks", task]
    check_known("task", teacher, sorted(experiment.tasks), files, [*keys, "trained_on"])
    hint = f"leave it out, or write it under `{teacher}`"

    def wrong(key: str, problem: str, hint: str = hint) -> UserError:
        return placed(UserError(f"task `{task}` {problem}", hint=hint), files, [*keys, key])

    trains_none = "name a task that trains its own models"
    if teacher == task:
        raise wrong("trained_on", "is `trained_on` itself", trains_none)
    if experiment.tasks[teacher].trained_on is not None:
        problem = f"is `trained_on` `{teacher}`, which is `trained_on` another task itself"
        raise wrong("trained_on", problem, trains_none)

    for key in ("network", "training", "options", "word_alignments"):
        if getattr(config, key):
            raise wrong(key, f"has models of `{teacher}`, but its own `{key}`")

    trained_models = experiment.models_of(teacher)
    for model in config.models or []:
        if model not in trained_models:
            raise wrong("models", f"asks for `{model}`, which `{teacher}` does not train")

    for model in experiment.models_of(task):
        trained_seeds = experiment.seeds_of(teacher, model)
        seeds = set(experiment.seeds_of(task, model)) - set(trained_seeds)
        if seeds:
            key = "seeds" if config.seeds else "more_seeds"
            problem = f"asks for seed {min(seeds)} of `{model}`, which `{teacher}` does not train"
            raise wrong(key, problem)


def check_names(experiment: Experiment, files: Files) -> None:
    """Check that names make folders of their own, nothing is listed twice, the baseline exists."""
    _check_reserved(experiment, files)
    written = [*experiment.variants(), *experiment.points()]
    for name in sorted(set(written).intersection(model_files(MODELS))):
        file = find_file(MODELS / f"{name}.yaml")
        collision = UserError(
            f"the variant `{name}` has the name of {file}", hint="choose another name"
        )
        raise placed(collision, *_place_of(experiment, files, name))

    _check_repeated(experiment, files)
    check_known("baseline", experiment.baseline, experiment.model_names, files, ["baseline"])


def _check_reserved(experiment: Experiment, files: Sequence[Path | str]) -> None:
    """Check that no task or model has the name of a folder that the results have."""
    reserved = [("task", name) for name in experiment.tasks if name in RESERVED_TASKS]
    reserved += [("model", name) for name in experiment.model_names if name in RESERVED_MODELS]
    for noun, name in reserved:
        message = f"a {noun} cannot be called `{name}`: the results have a folder of that name"
        raise placed(UserError(message, hint="choose another name"), files, [f"{noun}s", name])


def _check_repeated(experiment: Experiment, files: Files) -> None:
    """Check that no list of models or seeds has an item twice."""
    lists: list[tuple[list[str], Sequence[object]]] = [
        (["models"], experiment.model_names),
        (["seeds"], experiment.seeds),
    ]
    for name, task in experiment.tasks.items():
        lists.append((["tasks", name, "seeds"], task.seeds or ()))
        for model in task.more_seeds:
            keys = ["tasks", name, "more_seeds", model]
            lists.append((keys, experiment.seeds_of(name, model)))

    for keys, items in lists:
        for value, times in Counter(map(str, items)).items():
            if times > 1:
                error = UserError(f"`{value}` is in `{keys[-1]}` twice", hint="remove one")
                if keys == ["models"] and value in experiment.points():
                    raise placed(error, *_place_of(experiment, files, value))
                raise placed(error, files, [*keys, value])


def check_model(components: ModelConfig, files: Files, keys: Sequence[str]) -> None:
    """Check that a model's parts fit together; it is written in these files, below these keys."""
    try:
        check_parts(components)
    except FitError as error:
        raise placed(error, files, [*keys, *error.keys]) from error

    for key in OF_TASKS & components.decoding.keys():
        hint = f"set `decoding: {{{key}: ...}}` in the experiment or in its task"
        of_task = UserError(f"`{key}` is the same for all models of a task", hint=hint)
        raise placed(of_task, files, [*keys, "decoding", key])


def check_models(plan: Plan) -> None:
    """Check that tables can tell the models apart, and that each has outputs of its own."""
    names_by_label: dict[str, str] = {}
    for model in plan.experiment.model_names:
        components = plan.components[model]
        other = names_by_label.setdefault(components.label, model)
        if other != model:
            same_label = UserError(
                f"`{model}` has the label of `{other}`",
                hint="change one: tables tell models apart by it",
            )
            raise placed(same_label, *plan.place_of(model, "label"))

        # An error if one of its members cannot be joined.
        plan.members(model)
        if components.reversed:
            no_outputs = UserError(
                f"`{model}` learns from target to source and has no outputs",
                hint="leave it out: `init_from` trains it",
            )
            raise placed(no_outputs, plan.files, ["models", model])


def check_task(plan: Plan, task: str) -> None:
    """Check that a task's models and resources are the experiment's, and that its sizes fit."""
    experiment = plan.experiment
    config = experiment.tasks[task]
    keys = ["tasks", task]

    def check_listed(model: str, under: Sequence[str]) -> None:
        noun = "model of the experiment"
        check_known(noun, model, experiment.model_names, plan.files, [*under, model])

    for model in config.models or []:
        check_listed(model, [*keys, "models"])
    for model in config.without:
        check_listed(model, [*keys, "without"])
    for model in config.more_seeds:
        check_listed(model, [*keys, "more_seeds"])
    if not experiment.models_of(task):
        none_left = UserError("no model is left to run", hint="name fewer in `without`")
        raise placed(none_left, plan.files, [*keys, "without"])

    # Resources are read for their errors; jobs read them again.
    plan.resources(task)
    for model in experiment.resources.models:
        check_listed(model, ["resources", "models"])
        plan.resources(task, model)

    for model in config.resources.get("models", {}):
        check_listed(model, [*keys, "resources", "models"])
        plan.resources(task, model)

    for model in experiment.models_of(task):
        _check_sizes(plan, task, model)


def _check_sizes(plan: Plan, task: str, model: str) -> None:
    """Check that a model, or each member of an ensemble, can have the sizes of a task's network."""
    # All seeds of a task have the same sizes.
    run = plan.run(task, model, plan.experiment.seeds_of(task)[0])
    try:
        check_sizes(run.components, run.network)
        for member in run.members:
            check_sizes(member.components, member.network)
    except FitError as error:
        message = f"model `{model}` of task `{task}`: {error.message}"
        raise placed(UserError(message, hint=error.hint), plan.files, ["tasks", task]) from error


# Files of the user's own.


def check_local(name: str, dataset: Dataset) -> list[Path]:
    """Return the user's own files that a data set is copied from, of a folder all of its files.

    A UserError names one that is missing, or that cannot be an input of the workflow.
    """
    files = []
    for path in dataset.local_paths():
        if path.is_dir():
            files += _files_in(name, path)
        elif path.is_file():
            files.append(path)
        else:
            hint = "correct its `path:` (relative to the registry's folder) or put it there"
            raise UserError(f"data set `{name}`: no such file", file=path, hint=hint)

    return files


def _files_in(name: str, folder: Path) -> list[Path]:
    """List all files of a folder: a folder itself does not show that one of them has changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        raise UserError(
            f"data set `{name}`: the folder is empty", file=folder, hint="put its files there"
        )

    for path in files:
        if not str(path).isprintable() or set("{}") & set(str(path)):
            message = (
                f"data set `{name}`: a name with braces, which Snakemake takes for wildcards, or"
                " unprintable"
            )
            raise UserError(message, file=path, hint="rename the file")

    return files
