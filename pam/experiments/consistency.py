"""Check that what an experiment says in several places agrees.

`pam.experiments.loading.load_plan` calls these checks in their order. The list of all checks, also
of those that need the registries of data sets, is in `pam.experiments.check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pam.experiments.experiment import Experiment
from pam.experiments.listed_models import Files, place_of
from pam.experiments.model import model_file, model_files
from pam.experiments.plan import Plan
from pam.experiments.yaml import check_known, placed
from pam.models.fitting import FitError, check_sizes
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Folders in `results/` that are a part of this project.
RESERVED_EXPERIMENTS = frozenset({"reference", "unfinished"})
# Folders next to those of the tasks in `results/<experiment>/`, and of the models in
# `results/<experiment>/<task>/`.
RESERVED_TASKS = frozenset({"tables", "figures", "logs", "report", "benchmarks"})
RESERVED_MODELS = frozenset(
    {"data", "gold", "word_alignments", "significance", "controls", "aligners"}
)


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
    for name in sorted(set(written).intersection(model_files())):
        file = model_file(name)
        collision = UserError(
            f"the variant `{name}` has the name of {file}", hint="choose another name"
        )
        raise placed(collision, *place_of(experiment, files, name))

    _check_repeated(experiment, files)
    check_known("baseline", experiment.baseline, experiment.model_names, files, ["baseline"])


def _check_reserved(experiment: Experiment, files: Sequence[Path | str]) -> None:
    """Check that no experiment, task or model has the name of a folder that the results have."""
    if experiment.experiment in RESERVED_EXPERIMENTS:
        message = (
            f"an experiment cannot be called `{experiment.experiment}`: it is a folder of ours"
        )
        raise placed(UserError(message, hint="choose another name"), files, ["experiment"])
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
                    raise placed(error, *place_of(experiment, files, value))
                raise placed(error, files, [*keys, value])


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
        if model not in experiment.models_of(task):
            error = UserError(f"`{model}` is no model of this task", hint="leave its seeds out")
            raise placed(error, plan.files, [*keys, "more_seeds", model])
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
