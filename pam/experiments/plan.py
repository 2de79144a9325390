"""An experiment with its models, from which every run's configuration is resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pam.experiments.components import OptionLayer, read_options
from pam.experiments.experiment import Experiment, TaskConfig
from pam.experiments.given import Given
from pam.experiments.keys import LARGEST_SEED
from pam.experiments.listed_models import Place, check_model, place_of
from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import parse
from pam.experiments.run_config import Member, RunConfig
from pam.experiments.settings import Decoding, Resources, ResourcesByModel
from pam.experiments.yaml import check_known, placed, placed_once
from pam.models.options import COMPONENTS
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Keys of `network` that decide the shapes of weights.
SIZES = ("embedding", "encoder", "decoder", "encoder_layers", "decoder_layers", "encoder_reads")


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
        components = load_model(name)
        check_model(components, *self.place_of(name))
        return components

    def place_of(self, model: str, *keys: str) -> Place:
        """Return where keys of a model are written, for messages: the files, and the keys there."""
        return place_of(self.experiment, self.files, model, *keys)

    def aligned_runs(self) -> Iterator[tuple[str, str, int]]:
        """Yield task, model and seed of every run that can align texts: none of pointer actions."""
        for task, model, seed in self.experiment.runs():
            if self.model(model).targets == "symbols":
                yield task, model, seed

    def reverse_task(self, task: str, model: str) -> str | None:
        """Return the task whose run of a model aligns in the opposite direction, or None.

        A model that is trained for agreement needs no other.
        """
        aligning = self.task(task).align
        if aligning is None or self.model(model).architecture.has_opposite:
            return None
        return aligning.reverse

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
        of_experiment = self.experiment.resources.model_dump()
        values = of_experiment | of_task
        models_of_task = of_task.get("models")
        if isinstance(models_of_task, dict):
            # Of a model too the task changes only what it says.
            merged = dict(of_experiment["models"])
            for name, changes in models_of_task.items():
                is_changed = isinstance(changes, dict) and name in merged
                merged[name] = {**merged[name], **changes} if is_changed else changes
            values["models"] = merged
        by_model = parse(ResourcesByModel, values, self.files, keys)

        base = by_model.model_dump(exclude={"models"})
        if model is None or model not in by_model.models:
            return Resources(**base)

        # Where the overrides of this model are written.
        if model not in (models_of_task or {}):
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

        runs = [self.run(task, *member) for member in self.sources(model, seed)]
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

    def sources(self, model: str, seed: int) -> list[tuple[str, int]]:
        """Return model and seed of the runs, on the same task, whose weights a run takes.

        They are the members of an ensemble, or what a training starts from.
        """
        self.members(model)  # an error if one of them cannot be joined
        members = self.model(model).member_runs(seed)
        for _, member_seed in members:
            if not 0 <= member_seed <= LARGEST_SEED:
                message = f"seed {seed} of `{model}` has members of the seed {member_seed}"
                hint = "count the seeds of the experiment from 1"
                raise placed(UserError(message, hint=hint), *self.place_of(model, "seeds_each"))

        return [*members, *[(name, seed) for name in self.starts(model)]]

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
            raise placed_once(error, *where) from error

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
