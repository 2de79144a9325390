"""The configuration of an experiment: its models, tasks and seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from pam.alignment.choices import ProgramName, Symmetrization
from pam.experiments.components import OptionLayer
from pam.experiments.keys import NAME, Name, Plugins, Seed, Text, key
from pam.experiments.parsing import PathText, Strict
from pam.experiments.settings import Decoding, Network, ResourcesByModel, Training
from pam.experiments.sweep import SWEEP, Point, Sweep
from pam.experiments.variants import Listed, ListedModel

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


class Aligning(Strict):
    """Links between the words of a task's training text."""

    text: Literal["files", "prepared"] | None = key(
        None,
        "files: a line of links for each line of the training files; prepared: for each pair that"
        " is trained on, `data/train.tsv`, between its words, as guided training takes them; null:"
        " the files if there is one for each language, with spaces between words, else prepared",
    )
    reverse: str | None = key(
        None,
        "task of the opposite direction, whose models are joined with this task's; null: links of"
        " one direction, or of both by models that are trained for agreement",
    )
    symmetrize: Symmetrization | None = key(
        None,
        "how links of two directions become one set; none: links of the first one alone; null:"
        " product of models with posteriors, else grow-diag-final-and",
    )
    threshold: float | None = key(
        None,
        "least probability of a link; null: each target word is linked to its most probable source"
        " word, unless none is more probable",
        gt=0,
        le=1,
    )
    smooth: bool = key(False, "let later target words tell of earlier ones")
    programs: list[ProgramName] = key(
        [], "programs that align the same text, if they are installed"
    )


class TaskConfig(Strict):
    """One task of an experiment: a data set and what differs from the defaults."""

    dataset: str = Field(description="name of the data set in a registry", pattern=NAME)
    label: Text | None = key(None, "name in tables; null: the task's key")
    paper: Text | None = key(None, "row of the paper's table with results on this data set")
    paper_reference: Text | None = key(
        None, "row of the paper's table to compare with, although its data differ"
    )
    note: str = key("", "what readers of the report need to know about the task")
    models: list[str] | None = key(
        None, "models of the experiment to run on this task; null: all", min_length=1
    )
    without: list[str] = key([], "models not to run on this task")
    trained_on: str | None = key(
        None,
        "another task, whose trained models are tested on this task's test split; null: models"
        " are trained on this task",
    )
    seeds: list[Seed] | None = key(
        None, "seeds for this task; null: the experiment's", min_length=1
    )
    more_seeds: dict[str, list[Seed]] = key(
        {}, "additional seeds for single models, as in {soft: [4, 5]}"
    )
    format: dict[str, Any] = key({}, "overrides of the data set's `format`")
    word_alignments: str | None = key(
        None, "data set of word alignments to compare attention with", pattern=NAME
    )
    # Left out where it is not given, as in experiments from before there was this key.
    align: Aligning | None = key(
        None,
        "align the training text, as {reverse: TASK}",
        exclude_if=lambda align: align is None,
    )
    network: dict[str, Any] = key({}, "overrides of `network` for this task")
    training: dict[str, Any] = key({}, "overrides of `training` for this task")
    decoding: dict[str, Any] = key({}, "overrides of `decoding` for this task")
    resources: dict[str, Any] = key({}, "overrides of `resources` for this task")
    options: OptionLayer = key({}, "overrides of `options` for this task")

    def family(self) -> str:
        """Return what it shares with tasks that differ in the amount of training data alone."""
        format_keys = sorted(item for item in self.format.items() if item[0] != "train_pairs")
        return f"{self.dataset} {format_keys}"


def _names(models: Sequence[Listed]) -> list[str]:
    """Return the names of an experiment's models, of a sweep those of all its points."""
    names: list[str] = []
    for item in models:
        if isinstance(item, str):
            names.append(item)
            continue

        ((name, changes),) = item.items()
        if SWEEP in changes:
            names += [point.name for point in Sweep(0, name, changes).points()]
        else:
            names.append(name)

    return names


def _baseline(data: dict[str, Any]) -> str:
    """Return the baseline of an experiment that names none."""
    names = _names(data.get("models") or ["soft"])
    return "soft" if "soft" in names else names[0]


class Experiment(Strict):
    """An experiment: its models, tasks and seeds, and their settings."""

    plugins: Plugins = key(
        [], "your own modules to import, which add kinds of components and of tasks"
    )
    experiment: str = Field(description="name of the folder under results/", pattern=NAME)
    title: Text = key("", "heading of the report")
    seeds: list[Seed] = key([1], "seeds; each model is trained once per seed", min_length=1)
    models: list[Annotated[Listed, ListedModel()]] = Field(
        min_length=1,
        description=(
            "names of files in config/models/, or variants: {NAME: {from: MODEL, score: dot}}, or"
            " sweeps: {MODEL: {sweep: {training.learning_rate: [0.001, 0.002]}}}"
        ),
    )
    baseline: Name = Field(
        default_factory=_baseline,
        description=(
            "model that the other models are compared with; by default soft, or else the first"
            " model"
        ),
    )
    tasks: dict[Name, TaskConfig] = Field(min_length=1, description="tasks by name")
    network: Network = Field(default_factory=Network)
    training: Training = Field(default_factory=Training)
    decoding: Decoding = Field(default_factory=Decoding)
    registries: list[PathText] = key(
        ["config/datasets.yaml"], "registries, files that describe data sets", min_length=1
    )
    mirror: PathText | None = key(None, "folder or base address to try first for downloads")
    device: Literal["auto", "cpu", "cuda"] = key("auto", "where models train")
    jobs_per_gpu: int = key(
        1,
        "number of jobs that share a GPU of one machine; a small model leaves most of a GPU idle",
        ge=1,
    )
    attention_words: int = key(
        4, "number of test examples whose attention is drawn as heat maps", ge=1
    )
    resources: ResourcesByModel = Field(default_factory=ResourcesByModel)
    options: OptionLayer = key(
        {},
        "options for all models that use a kind of a component, as {component: {kind:"
        " {option: value}}}",
    )

    @property
    def model_names(self) -> list[str]:
        """The names of the models, in order: of files, of variants and of points of sweeps."""
        return _names(self.models)

    def variants(self) -> dict[str, dict[str, Any]]:
        """Return what each variant changes, by its name."""
        return {
            name: changes
            for item in self.models
            if isinstance(item, dict)
            for name, changes in item.items()
            if SWEEP not in changes
        }

    def sweeps(self) -> list[Sweep]:
        """Return the sweeps, in order; one model may have several."""
        return [
            Sweep(index, name, changes)
            for index, item in enumerate(self.models)
            if isinstance(item, dict)
            for name, changes in item.items()
            if SWEEP in changes
        ]

    def points(self) -> dict[str, Point]:
        """Return the models that sweeps stand for, by their names."""
        return {point.name: point for sweep in self.sweeps() for point in sweep.points()}

    def models_of(self, task: str) -> list[str]:
        """Return the models that a task is run with, in the experiment's order."""
        tested = self.tasks[task]
        trained = self.tasks[self.training_task(task)]
        chosen = set(tested.models or trained.models or self.model_names)
        chosen -= {*tested.without, *trained.without}
        return [model for model in self.model_names if model in chosen]

    def seeds_of(self, task: str, model: str = "") -> list[int]:
        """Return the seeds that a task is run with, and those of a model alone."""
        tested = self.tasks[task]
        trained = self.tasks[self.training_task(task)]
        # Seeds of the task's own replace all of the task that it is trained on.
        more = tested.more_seeds
        if not tested.seeds:
            more = more or trained.more_seeds
        return [*(tested.seeds or trained.seeds or self.seeds), *more.get(model, [])]

    def training_task(self, task: str) -> str:
        """Return the task on which a task's models are trained: itself without `trained_on`."""
        return self.tasks[task].trained_on or task

    def runs(self) -> Iterator[tuple[str, str, int]]:
        """Yield task, model and seed of every run that is asked for."""
        for task in self.tasks:
            for model in self.models_of(task):
                for seed in self.seeds_of(task, model):
                    yield task, model, seed
