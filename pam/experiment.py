"""An experiment as the workflow runs it: checked as a whole, with its models, run by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pam.config import (
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
from pam.data.registry import Dataset, load_task
from pam.io import (
    Given,
    Section,
    UserError,
    find_file,
    from_here,
    is_there,
    merged,
    parse,
    placed,
    read_yaml,
    unknown,
)
from pam.models.fitting import FitError, check_parts, check_sizes, check_vectors
from pam.models.options import COMPONENTS

# Folders next to those of the tasks in `results/<experiment>/`, and of the models in
# `results/<experiment>/<task>/`.
RESERVED_TASKS = frozenset({"tables", "figures", "logs", "report", "benchmarks"})
RESERVED_MODELS = frozenset({"data", "gold", "word_alignments", "significance", "controls"})
# keys of `decoding` that decide which files there are, no model's own
OF_TASKS = frozenset({"beam", "beams", "dev"})
MODELS = Path("config/models")
Files = Sequence[Path | Given]
Place = tuple[Files, Sequence[str]]  # files, and keys in them, as `placed` takes them
# Keys of `network` that decide the shapes of weights.
SIZES = ("embedding", "encoder", "decoder", "encoder_layers", "decoder_layers", "encoder_reads")


@dataclass(frozen=True)
class Plan:
    """An experiment, its models' components, and the files in which both were written."""

    experiment: Experiment
    components: dict[str, ModelConfig]
    files: tuple[Path | Given, ...]

    def run(self, task: str, model: str, seed: int) -> RunConfig:
        """The resolved configuration of one training, or of an ensemble; a model that has a file
        need not be listed.

        A UserError says that there is no such task or model, or that an override is not allowed.
        """
        self.task(task)
        components = self._components(model)
        teaching = self.experiment.training_task(task)
        trained = self.task(teaching)

        def layered(section: str, base: Section, name: str = teaching) -> Section:
            """Defaults, then the experiment's, the task's and the model's, later ones winning."""
            kind, under = type(base), ("tasks", name, section)
            merged = parse(
                kind, base.model_dump() | getattr(self.task(name), section), self.files, under
            )
            override = getattr(components, section)
            return parse(kind, merged.model_dump() | override, *self.place_of(model, section))

        experiment = self.experiment
        run = RunConfig(
            plugins=experiment.plugins,
            experiment=experiment.experiment,
            task=task,
            model=model,
            label=components.label,
            seed=seed,
            components=with_options(components, experiment.options, trained.options),
            network=layered("network", experiment.network),
            training=layered("training", experiment.training),
            decoding=layered("decoding", experiment.decoding, task),
        )
        if not components.members:
            self._check_starts(run)
            return run
        runs = [self.run(task, member, seed) for member in self.members(model)]
        members = [Member(components=one.components, network=one.network) for one in runs]
        # An ensemble writes what its members write.
        joined = run.components.model_copy(update={"targets": runs[0].components.targets})
        return run.model_copy(update={"components": joined, "members": members})

    def _components(self, model: str) -> ModelConfig:
        return self.components.get(model) or _checked(
            load_model(model, MODELS), *self.place_of(model)
        )

    def place_of(self, model: str, *keys: str) -> Place:
        """Where keys of a model are written, for messages: the files, and the keys in them."""
        return _place_of(self.experiment, self.files, model, *keys)

    def members(self, model: str) -> list[str]:
        """The models whose mean a model is; none if it is trained by itself; UserError: one that
        cannot be joined.
        """
        members = self._components(model).members
        place = self.place_of(model, "members")
        targets = set()
        for member in members:
            try:
                components = self._components(member)
            except UserError as error:
                raise placed(error, *place) from error
            targets.add((components.targets, components.copying.copies))
            if components.members or components.reversed or len(targets) > 1:
                hint = (
                    "join models of their own training, all of symbols or all of actions, none of"
                    " them reversed"
                )
                hint = f"{hint}, and all or none with a pointer that copies"
                raise placed(
                    UserError(f"`{member}` cannot be joined with the others", hint=hint), *place
                )
        return members

    def starts(self, model: str, before: tuple[str, ...] = ()) -> list[str]:
        """The models whose trained weights a model starts from; `before`: those that start from it.

        A UserError names one that is unknown, has no training, learns something else, or starts
        from it in turn.
        """
        components, place = self._components(model), self.place_of(model, "init_from")
        for start, name in components.starts().items():
            try:
                source = self._components(name)
            except UserError as error:
                raise error if error.file else placed(error, *place) from error
            is_reversed, said = components.reversed != (start != ""), ""
            if source.members:
                said, hint = "is joined from other models", "start from a model of its own training"
            elif source.targets != components.targets:
                said, hint = (
                    f"writes {source.targets}",
                    f"start from a model with `targets: {components.targets}`",
                )
            elif source.reversed != is_reversed:
                said = (
                    f"learns from {'target to source' if source.reversed else 'source to target'}"
                )
                hint = f"start from a model {'with' if is_reversed else 'without'} `reversed: true`"
            elif name in (*before, model):
                said, hint = "starts from it in turn", "leave out `init_from` in one of their files"
            if said:
                raise placed(
                    UserError(f"`{model}` cannot start from `{name}`, which {said}", hint=hint),
                    *place,
                )
            self.starts(name, (*before, model))
        return list(components.starts().values())

    def _check_starts(self, run: RunConfig) -> None:
        """Checks that a run is as large as those whose weights it starts from; a UserError says
        what is not.
        """
        for name in self.starts(run.model):
            source = self.run(run.task, name, run.seed).network
            for size in SIZES:
                own, other = getattr(run.network, size), getattr(source, size)
                if own != other:
                    said = (
                        f"`{run.model}` has `network.{size}` {own} on `{run.task}`, `{name}` has"
                        f" {other}"
                    )
                    error = UserError(
                        f"{said}: it cannot start from that", hint="give both the same in `network`"
                    )
                    raise placed(error, *self.place_of(run.model, "init_from"))

    def task(self, name: str) -> TaskConfig:
        """One task's own configuration; an unknown task is a UserError, here and below."""
        tasks = self.experiment.tasks
        check_known("task", name, sorted(tasks))
        return tasks[name]

    def beams(self, task: str) -> list[int]:
        """Beams with which a task's test split is decoded, the main one first."""
        merged = self.experiment.decoding.model_dump() | self.task(task).decoding
        decoding = parse(Decoding, merged, self.files, ("tasks", task, "decoding"))
        return list(dict.fromkeys([decoding.beam, *decoding.beams]))

    def _check_splits(self, task: str, datasets: Mapping[str, Dataset]) -> None:
        """Checks that a task has what its models are trained on, or can be read in the symbols of
        the task that has.
        """
        own, other = self.task(task), self.task(self.experiment.training_task(task))
        check_known("data set", other.dataset, sorted(datasets))
        entry, taught = (datasets[one.dataset].with_format(one.format) for one in (own, other))
        key, hint = "dataset", "name a data set with files of its own for `test`, of the same kind"
        if own.trained_on is None:
            alone = list(entry.splits) == ["test"]
            said = f"`{own.dataset}` has no rows to train on" if alone else ""
            hint = "write `trained_on: TASK`, to test the models of another task on it"
        elif entry.task != taught.task:
            said = (
                f"`{own.dataset}` is of {entry.task}, and models of `{own.trained_on}` are of"
                f" {taught.task}"
            )
        elif not entry.kind.tests_alone or "test" not in entry.splits:
            said = f"the test split of `{own.dataset}` cannot be read without its other splits"
        else:
            layouts = (
                parse(entry.kind.Format, one.format, self.files, ("tasks", task))
                for one in (entry, taught)
            )
            mine, theirs = (entry.kind.symbols(layout) for layout in layouts)
            differing = [name for name in mine if mine[name] != theirs[name]]
            said = (
                f"the {differing[0]} of its `format` is not that of `{own.trained_on}`"
                if differing
                else ""
            )
            key, hint = (
                "format",
                "write the same in both: symbols have to be those that the models know",
            )
        if said:
            raise placed(
                UserError(f"task `{task}`: {said}", hint=hint), self.files, ["tasks", task, key]
            )

    def _check_penalties(self, task: str, kind: str) -> None:
        """Checks that a task has a score by which a length penalty can be chosen, if that is asked
        for.
        """
        for model in self.experiment.models_of(task):
            if kind != "translation" and self.run(task, model, 1).decoding.length_penalties:
                said = (
                    f"model `{model}` of task `{task}` is to choose a length penalty by BLEU, but"
                    f" it is of {kind}"
                )
                hint = "set `length_penalties: []` in the task's `decoding`"
                raise placed(
                    UserError(said, hint=hint),
                    self.files,
                    ["tasks", task, "decoding", "length_penalties"],
                )

    def _check_vectors(self, task: str, kind: str) -> None:
        """Checks that the models of a task whose sources are vectors can read them, and write no
        words of them.
        """
        under = ["tasks", task]
        for model in self.experiment.models_of(task):
            for one in [model, *self.members(model)]:
                try:
                    check_vectors(self._components(one), kind)
                except FitError as error:
                    message = f"model `{one}` of task `{task}`: {error.message}"
                    raise placed(UserError(message, hint=error.hint), self.files, under) from error
            if self.run(task, model, 1).decoding.replace_unknown:
                message = f"a task of {kind} has no source words to take the place of unknown ones"
                hint = "set `replace_unknown: false` in the task's `decoding`"
                raise placed(
                    UserError(message, hint=hint),
                    self.files,
                    [*under, "decoding", "replace_unknown"],
                )

    def check_registries(self) -> None:
        """Checks that the registries are there."""
        for name in self.experiment.registries:
            if not is_there(Path(name)):
                missing = UserError(f"{name}: no such file", hint="check the name")
                raise placed(missing, self.files, ["registries", name])

    def check_datasets(self, datasets: Mapping[str, Dataset]) -> None:
        """Checks that tasks' data sets are in a registry and can be read as wanted, and that models
        can learn them.
        """
        for task, own in self.experiment.tasks.items():
            under, links = ["tasks", task], own.word_alignments
            for key, name in {"dataset": own.dataset, "word_alignments": links}.items():
                if name is not None:
                    check_known("data set", name, sorted(datasets), self.files, [*under, key])
            entry = datasets[own.dataset].with_format(own.format)
            kind = load_task(entry.task)
            self._check_splits(task, datasets)
            self._check_penalties(task, entry.task)
            if not kind.STAGES:
                message = f"`{own.dataset}` holds word alignments, which no model learns"
                hint = "name it as the `word_alignments` of a task of translation"
                raise placed(UserError(message, hint=hint), self.files, [*under, "dataset"])
            if links is not None and load_task(datasets[links].task).STAGES:
                error = UserError(
                    f"`{links}` holds no word alignments",
                    hint="name a data set with `task: alignment`",
                )
                raise placed(error, self.files, [*under, "word_alignments"])
            parse(kind.Format, entry.format, self.files, (*under, "format"))
            for package in [name for name in kind.packages if find_spec(name) is None]:
                error = UserError(
                    f"a task of {entry.task} needs {package}", hint=f"pip install {package}"
                )
                raise placed(error, self.files, under)
            if not kind.has_symbols:
                self._check_vectors(task, entry.task)
            for model in [] if kind.has_actions else self.experiment.models_of(task):
                if any(
                    self._components(one).targets == "actions"
                    for one in [model, *self.members(model)]
                ):
                    lacking = f"writes actions, which a task of {entry.task} has none of"
                    hint = f"leave it out there: `without: [{model}]`"
                    error = UserError(f"model `{model}` of task `{task}` {lacking}", hint=hint)
                    raise placed(error, self.files, under)

    def resources(self, task: str, model: str | None = None) -> Resources:
        """What jobs on this task, or on one of its models, ask for: the experiment's, the task's,
        then the model's.
        """
        own, under = self.task(task).resources, ("tasks", task, "resources")
        merged = self.experiment.resources.model_dump() | own
        by_model = parse(ResourcesByModel, merged, self.files, under)
        base = by_model.model_dump(exclude={"models"})
        if model is None or model not in by_model.models:
            return Resources(**base)
        under = (*(under if "models" in own else ("resources",)), "models", model)
        return parse(Resources, base | by_model.models[model], self.files, under)


def with_options(components: ModelConfig, *layers: OptionLayer) -> ModelConfig:
    """The model with options of the kinds that it uses, later layers winning, its own file over
    all.
    """
    if not components.architecture.has_components:
        layers = tuple({"architecture": layer.get("architecture", {})} for layer in layers)
    changed = {}
    for component in COMPONENTS:
        own = getattr(components, component)
        options: dict[str, Any] = {}
        for layer in layers:
            options |= layer.get(component, {}).get(own.kind, {})
        if options:
            options |= own.model_dump(include=own.model_fields_set - {"kind"})
            changed[component] = read_options(component, own.kind, options)
    return components.model_copy(update=changed)


def load_plan(config: dict[str, Any] | None = None, files: Sequence[Path | str] = ()) -> Plan:
    """Checks an experiment as a whole: every key, every model, every override; the first error is a
    UserError.

    `config` was merged from `files`, the last one winning; without it, they are read and merged.
    Registries that the folder of work does not have are looked for beside the files, then among the
    workflow's own.
    """
    paths = tuple(file if isinstance(file, Given) else from_here(file) for file in files)
    # All are read, for what merging hides: a key that is given twice.
    contents = [path.content if isinstance(path, Given) else read_yaml(path) for path in paths]
    experiment = parse(Experiment, reduce(merged, contents) if config is None else config, paths)
    beside = [path.parent for path in paths if isinstance(path, Path)]
    registries = [str(find_file(name, *beside)) for name in experiment.registries]
    experiment = experiment.model_copy(update={"registries": registries})
    for task in experiment.tasks:
        _check_trained_on(experiment, task, paths)
    _check_names(experiment, paths)
    components = load_models(experiment, paths)
    plan = Plan(experiment, components, paths)
    labels: dict[str, str] = {}
    for model in experiment.model_names:
        other = labels.setdefault(components[model].label, model)
        if other != model:
            same = UserError(
                f"`{model}` has the label of `{other}`",
                hint="change one: tables tell models apart by it",
            )
            raise placed(same, *plan.place_of(model, "label"))
        plan.members(model)
        if components[model].reversed:
            said, hint = (
                "learns from target to source and has no outputs",
                "leave it out: `init_from` trains it",
            )
            raise placed(UserError(f"`{model}` {said}", hint=hint), paths, ["models", model])
    for task in experiment.tasks:
        _check_task(plan, task)
    return plan


def load_models(experiment: Experiment, files: Files) -> dict[str, ModelConfig]:
    """Read the models of an experiment, files and variants, each of parts that fit together."""
    variants = experiment.variants()
    components: dict[str, ModelConfig] = {}
    for model in experiment.model_names:
        place = _place_of(experiment, files, model)
        try:
            if model in variants:
                loaded = _load_variant(model, variants, components, place)
            else:
                loaded = load_model(model, MODELS)
            components[model] = _checked(loaded, *place)
        except UserError as error:
            raise error if error.file else placed(error, files, ["models", model]) from error
    return components


def _load_variant(
    name: str, variants: dict[str, dict[str, Any]], above: dict[str, ModelConfig], place: Place
) -> ModelConfig:
    """Read a variant of a model that has a file, or that is listed above it."""
    files, keys = place
    try:
        base = _base_of(name, variants, above)
    except UserError as error:
        raise error if error.file else placed(error, files, [*keys, "from"]) from error
    return parse(ModelConfig, with_changes(base, name, variants[name]), files, keys)


def _base_of(
    name: str, variants: dict[str, dict[str, Any]], above: dict[str, ModelConfig]
) -> ModelConfig | None:
    """The model that a variant changes, None for one that says all itself; a UserError: there is no
    such model.
    """
    base = variants[name].get("from")
    if base is None:
        return None
    if base in above:
        return above[base]
    if base in variants:
        raise UserError(
            f"`{name}` is a variant of `{base}`, which is not above it", hint="list that one first"
        )
    return load_model(base, MODELS)


def _checked(components: ModelConfig, files: Files, keys: Sequence[str]) -> ModelConfig:
    """A model that was written in these files, below these keys, once its parts fit together."""
    try:
        check_parts(components)
    except FitError as error:
        raise placed(error, files, [*keys, *error.keys]) from error
    for key in OF_TASKS & components.decoding.keys():
        hint = f"set `decoding: {{{key}: ...}}` in the experiment or in its task"
        of_task = UserError(f"`{key}` is the same for all models of a task", hint=hint)
        raise placed(of_task, files, [*keys, "decoding", key])
    return components


def _place_of(experiment: Experiment, files: Files, model: str, *keys: str) -> Place:
    """Where keys of a model are written: in its own file, or where the experiment writes the
    variant.
    """
    if model in experiment.variants():
        return files, ("models", model, *keys)
    return (find_file(MODELS / f"{model}.yaml"),), keys


def check_local(name: str, dataset: Dataset) -> list[Path]:
    """The user's own files that a data set is copied from, of a folder all of its files; a
    UserError if one is missing, or cannot be an input of the workflow.
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
    """All files of a folder: a folder itself does not show that one of them has changed."""
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


def check_known(
    what: str,
    name: str,
    known: list[str],
    files: Sequence[Path | str] = (),
    keys: Sequence[str] = (),
) -> None:
    """Raise a UserError for an unknown name, with the closest one and the line where it is."""
    if name not in known:
        raise placed(unknown(what, name, known), files, keys)


def _check_names(experiment: Experiment, files: Sequence[Path | str]) -> None:
    """Names make folders of their own, nothing is listed twice, the baseline is a model."""
    tasks = [("task", name) for name in experiment.tasks if name in RESERVED_TASKS]
    for what, name in tasks + [
        ("model", name) for name in experiment.model_names if name in RESERVED_MODELS
    ]:
        message = f"a {what} cannot be called `{name}`: the results have a folder of that name"
        raise placed(UserError(message, hint="choose another name"), files, [f"{what}s", name])
    for name in experiment.variants().keys() & set(model_files(MODELS)):
        file = find_file(MODELS / f"{name}.yaml")
        collision = UserError(
            f"the variant `{name}` has the name of {file}", hint="choose another name"
        )
        raise placed(collision, files, ["models", name])
    lists: list[tuple[list[str], Sequence[object]]] = [
        (["models"], experiment.model_names),
        (["seeds"], experiment.seeds),
    ]
    for name, task in experiment.tasks.items():
        lists.append((["tasks", name, "seeds"], task.seeds or ()))
        lists += [
            (["tasks", name, "more_seeds", model], experiment.seeds_of(name, model))
            for model in task.more_seeds
        ]
    for keys, items in lists:
        for value, times in Counter(map(str, items)).items():
            if times > 1:
                error = UserError(f"`{value}` is in `{keys[-1]}` twice", hint="remove one")
                raise placed(error, files, [*keys, value])
    check_known("baseline", experiment.baseline, experiment.model_names, files, ["baseline"])


def _check_trained_on(experiment: Experiment, task: str, files: Sequence[Path | str]) -> None:
    """Refuse a task that takes another task's models and has options that would train others."""
    own, tasks = experiment.tasks[task], experiment.tasks
    if own.trained_on is None:
        return
    check_known("task", own.trained_on, sorted(tasks), files, ["tasks", task, "trained_on"])
    other, said, hint = (
        tasks[own.trained_on],
        "",
        f"leave it out, or write it under `{own.trained_on}`",
    )
    own_keys = [
        key for key in ("network", "training", "options", "word_alignments") if getattr(own, key)
    ]
    lacking = [
        model for model in own.models or [] if model not in experiment.models_of(own.trained_on)
    ]
    if own.trained_on == task or other.trained_on is not None:
        of_itself = own.trained_on == task
        said = (
            "itself"
            if of_itself
            else f"`{own.trained_on}`, which is `trained_on` another task itself"
        )
        said, hint, place = (
            f"is `trained_on` {said}",
            "name a task that trains its own models",
            "trained_on",
        )
    elif own_keys:
        said, place = f"has models of `{own.trained_on}`, but its own `{own_keys[0]}`", own_keys[0]
    elif lacking:
        said, place = f"asks for `{lacking[0]}`, which `{own.trained_on}` does not train", "models"
    for model in [] if said else experiment.models_of(task):
        seeds = set(experiment.seeds_of(task, model)) - set(
            experiment.seeds_of(own.trained_on, model)
        )
        if seeds:
            said = (
                f"asks for seed {min(seeds)} of `{model}`, which `{own.trained_on}` does not train"
            )
            place = "seeds" if own.seeds else "more_seeds"
            break
    if said:
        raise placed(UserError(f"task `{task}` {said}", hint=hint), files, ["tasks", task, place])


def _check_task(plan: Plan, task: str) -> None:
    """Models and resources of a task are the experiment's and make sense, and each model can have
    the task's sizes.
    """
    experiment, own, files = plan.experiment, plan.experiment.tasks[task], plan.files
    for key, named in (
        ("models", own.models or []),
        ("without", own.without),
        ("more_seeds", own.more_seeds),
    ):
        for model in named:
            check_known(
                "model of the experiment",
                model,
                experiment.model_names,
                files,
                ["tasks", task, key, model],
            )
    if not experiment.models_of(task):
        none = UserError("no model is left to run", hint="name fewer in `without`")
        raise placed(none, files, ["tasks", task, "without"])
    plan.resources(task)
    layers = (
        (experiment.resources.models, ["resources"]),
        (own.resources.get("models", {}), ["tasks", task, "resources"]),
    )
    for layer, under in layers:
        for model in layer:
            check_known(
                "model of the experiment",
                model,
                experiment.model_names,
                files,
                [*under, "models", model],
            )
            plan.resources(task, model)
    for model in experiment.models_of(task):
        run = plan.run(task, model, experiment.seeds_of(task)[0])
        try:
            check_sizes(run.components, run.network)
            for member in run.members:
                check_sizes(member.components, member.network)
        except FitError as error:
            placeless = UserError(
                f"model `{model}` of task `{task}`: {error.message}", hint=error.hint
            )
            raise placed(placeless, files, ["tasks", task]) from error
