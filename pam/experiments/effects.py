"""Find what an experiment sets without effect: no run of it has the value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pam.experiments.model import ModelConfig
from pam.experiments.plan import Plan
from pam.experiments.settings import OVERRIDES
from pam.models.options import Options

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


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
