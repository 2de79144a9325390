"""Read the models that an experiment lists: files, variants of them, and points of sweeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pam.experiments.experiment import Experiment
from pam.experiments.given import Given
from pam.experiments.model import ModelConfig, load_model, model_file
from pam.experiments.parsing import parse
from pam.experiments.sweep import SWEEP, Point, Sweep
from pam.experiments.variants import with_changes
from pam.experiments.yaml import placed, placed_once
from pam.models.fitting import FitError, check_parts
from pam.models.options import COMPONENTS
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Keys of `decoding` that decide which files there are, so no model has its own.
OF_TASKS = frozenset({"beam", "beams", "dev"})
Files = Sequence[Path | Given]
Place = tuple[Files, Sequence[str]]  # files, and keys in them, as `placed` takes them


def load_models(experiment: Experiment, files: Files) -> dict[str, ModelConfig]:
    """Read the models of an experiment, files and variants, each of parts that fit together."""
    variants = experiment.variants()
    points = experiment.points()
    swept: dict[int, ModelConfig] = {}
    models: dict[str, ModelConfig] = {}
    for name in experiment.model_names:
        where = place_of(experiment, files, name)
        try:
            if name in points:
                sweep = points[name].sweep
                if sweep.index not in swept:
                    swept[sweep.index] = _load_swept(sweep, experiment, models, files)
                components = _load_point(points[name], swept[sweep.index], where)
            elif name in variants:
                components = _load_variant(name, variants, models, where)
            else:
                components = load_model(name)

            check_model(components, *where)
        except UserError as error:
            listed = _keys_of_sweep(experiment, points[name].sweep) if name in points else ()
            raise placed_once(error, files, listed or ["models", name]) from error

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
        raise placed_once(error, files, [*keys, "from"]) from error

    changes.setdefault("label", sweep.name if "from" in changes else base.label)
    return parse(ModelConfig, with_changes(base, sweep.name, changes), files, keys)


def _load_point(point: Point, swept: ModelConfig, where: Place) -> ModelConfig:
    """Read one model of a sweep."""
    files, keys = where
    changes = point.changes()
    for component in COMPONENTS:
        # Of its own kind a model keeps the options that it has.
        if changes.get(component, {}).get("kind") == getattr(swept, component).kind:
            del changes[component]["kind"]
    values = with_changes(swept, point.name, changes)
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
        raise placed_once(error, files, [*keys, "from"]) from error

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

    return load_model(base)


def place_of(experiment: Experiment, files: Files, model: str, *keys: str) -> Place:
    """Return where keys of a model are written: in its own file, as a variant or in a sweep."""
    points = experiment.points()
    if model in points:
        return files, _keys_of_point(experiment, points[model], keys)
    if model in experiment.variants():
        return files, ("models", model, *keys)
    return (model_file(model),), keys


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
