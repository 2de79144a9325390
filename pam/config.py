"""Configuration: what a user may write, its defaults, and one resolved `RunConfig` per training.

These classes are the only place where a key, its type and its default are stated. The JSON schema
in `workflow/schemas/` is generated from them, and every file is read through them, so a misspelt
key is an error with a file, a line and a hint.

A component is written `general`, or `{kind: general, scale: true}`; its kinds and their options are those of
`pam.models.options`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from pam.io import Strict, UserError, parse, read_yaml, refused, unknown
from pam.models import options
from pam.models.options import COMPONENTS, DEEPEST, LARGEST, Options


def read_options(component: str, kind: str, values: dict[str, Any]) -> Options:
    """The options of one kind, from a name and values that YAML wrote.

    Raises:
        PydanticCustomError: no such kind or option; `pam.io.parse` makes a UserError of it.
        ValidationError: a value of a wrong type.
    """
    kinds = COMPONENTS[component]
    if kind not in kinds:
        raise refused(unknown(component, kind, sorted(kinds)), "kind")
    known = [name for name in kinds[kind].model_fields if name != "kind"]
    for name in values:
        if name not in known:
            raise refused(unknown(f"option of {component} `{kind}`", str(name), known), str(name))
    return kinds[kind].model_validate({"kind": kind, **values})


class Component:
    """Marks a field that holds a component's options, written `general` or `{kind: general, ...}`.

    Kinds are looked up when a value is read, so that registered ones are known.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, value: Any) -> Options:
        """A value of YAML as options; options themselves are left as they are."""
        if isinstance(value, Options) and type(value) in COMPONENTS[self.name].values():
            return value
        if isinstance(value, str):
            return read_options(self.name, value, {})
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            hint = f"write `{self.name}: name`, or `{self.name}: {{kind: name, option: value}}`"
            raise refused(UserError(f"a {self.name} without `kind`", hint=hint), "kind")
        others = {name: own for name, own in value.items() if name != "kind"}
        return read_options(self.name, value["kind"], others)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(Options.model_dump)
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        own = {kind: cls for kind, cls in COMPONENTS[self.name].items() if not cls.implementation}
        kinds = [{**cls.model_json_schema(), "required": ["kind"]} for cls in own.values()]
        return {"anyOf": [{"enum": list(own)}, *kinds]}


def _checked(layer: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """A layer of options as it is, once every component, kind, option and value is known."""
    for component, kinds in layer.items():
        if component not in COMPONENTS:
            raise refused(unknown("component", component, list(COMPONENTS)), component)
        for kind, values in kinds.items():
            with _within(component, kind):
                read_options(component, kind, values)
    return layer


@contextmanager
def _within(*place: str) -> Iterator[None]:
    """Errors below `place`. An option that a layer leaves out is no error: the model has it."""
    try:
        yield
    except PydanticCustomError as error:
        details = [InitErrorDetails(type=error, loc=place, input=None)]
        raise ValidationError.from_exception_data("options", details) from error
    except ValidationError as error:
        details = [
            InitErrorDetails(
                type=PydanticCustomError(problem["type"], "{said}", {"said": problem["msg"]}),
                loc=(*place, *problem["loc"]),
                input=problem["input"],
            )
            for problem in error.errors()
            if problem["type"] != "missing"
        ]
        if details:
            raise ValidationError.from_exception_data("options", details) from error


OptionLayer = Annotated[dict[str, dict[str, dict[str, Any]]], AfterValidator(_checked)]
"""Options by component and kind, as in `marginalization: {output: {top_k: 6}}`."""


def _imported(modules: list[str]) -> list[str]:
    """Imports modules, which register their kinds of components."""
    for module in modules:
        try:
            importlib.import_module(module)
        except UserError as error:
            raise refused(error, module) from error
        except ModuleNotFoundError as error:
            hint = f"install the package of `{error.name}`, or put its folder on PYTHONPATH"
            raise refused(UserError(f"no module `{error.name}`", hint=hint), module) from error
        except Exception as error:  # whatever a module of somebody's own does
            said = f"`{module}` cannot be imported: {type(error).__name__}: {error}"
            raise refused(UserError(said, hint=f"`python -c 'import {module}'` shows where"), module) from error
    return modules


ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)]
Plugins = Annotated[list[ModuleName], AfterValidator(_imported)]
"""Modules that are imported as they are read: what is read after them may use their kinds."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Names that become folder names: nothing that a shell or a path would read otherwise."""

Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
"""Words for people, on one line: tables, figures and the report show them as they are."""
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Network(Strict):
    """Sizes of encoder and decoder."""

    embedding: int = Field(64, ge=1, le=LARGEST, description="units of a symbol's embedding")
    encoder: int = Field(64, ge=1, le=LARGEST, description="LSTM units of the encoder in each direction")
    decoder: int = Field(128, ge=1, le=LARGEST, description="LSTM units of the decoder")
    encoder_layers: int = Field(1, ge=1, le=DEEPEST, description="layers of the bidirectional encoder")
    decoder_layers: int = Field(1, ge=1, le=DEEPEST, description="layers of the decoder")
    encoder_reads: Literal["both", "forward", "backward"] = Field(
        "both", description="how the encoder reads; backward: a reversed source"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="on embeddings, encoder states and decoder states")
    initial_range: float | None = Field(
        None, gt=0, le=100, description="uniform(-r, r) for all weights; null: torch's defaults"
    )


class Training(Strict):
    """One training: its length, its optimizer, what is saved."""

    epochs: int = Field(12, ge=1, description="passes over the training split")
    max_steps: int | None = Field(None, ge=1, description="end after so many steps, if that is before `epochs`")
    patience: int | None = Field(None, ge=1, description="end after so many epochs without a lower development loss")
    batch_size: int = Field(64, ge=1, description="examples per step")
    accumulate: int = Field(1, ge=1, description="parts into which a step's batch is cut, one gradient for all")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="adam or plain sgd")
    learning_rate: float = Field(0.002, gt=0, description="the highest learning rate")
    warmup_steps: int = Field(100, ge=0, description="steps of linear rise at the start")
    schedule: Literal["linear", "halving"] = Field(
        "linear", description="how the rate falls: `flat`, or `halve_after` and `halve_every`"
    )
    flat: float = Field(0.4, ge=0, le=1, description="share of the run after which the rate falls linearly to 0")
    halve_after: int = Field(8000, ge=0, description="steps before the rate is halved first")
    halve_every: int = Field(1000, ge=1, description="steps from one halving to the next")
    clip: float = Field(5.0, gt=0, description="largest norm of the gradient")
    select: Literal["accuracy", "loss", "last"] = Field(
        "accuracy", description="which epoch's weights are the model, by the development split"
    )
    eval_metrics: bool = Field(False, description="measure accuracy of symbols and the objective too, after each epoch")
    average: int = Field(1, ge=1, description="mean of the weights after each of so many last epochs, that one's too")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "float32", description="of large products in training; tf32 is for CUDA"
    )
    state_every_s: float = Field(
        30.0, ge=0, description="least seconds between two saved states; saving takes at most 1/20 of the time"
    )
    divergence: float = Field(10.0, gt=1, description="stop when an epoch's loss is this many times the first batch's")


class Decoding(Strict):
    """How outputs are searched."""

    beam: int = Field(1, ge=1, description="hypotheses that are followed; 1 is greedy search")
    beams: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="further beams with which the test split is decoded and scored"
    )
    length_penalty: float = Field(
        0.0, ge=0, le=1000, description="log p is divided by (length)^this in the last choice"
    )
    length_prior: float = Field(0.0, ge=0, le=1000, description="weight of log p(target length | source length)")
    replace_unknown: bool = Field(False, description="an unknown word becomes the source word most attended")
    latent_samples: int = Field(
        0, ge=0, le=1000, description="draws of latent vectors whose mean distribution is searched; 0: their means"
    )
    temperature: float | None = Field(
        None, gt=0, le=1000, description="draw outputs by p^(1 / temperature) instead of searching, whatever the beam"
    )
    dev: bool = Field(False, description="decode and score the development split of translations too")
    batch_size: int = Field(64, ge=1, description="examples decoded at once")
    max_ratio: float = Field(3.0, gt=0, le=1000, description="longest output as a multiple of the input")
    max_extra: int = Field(10, ge=1, le=100_000, description="symbols added to that limit")


AT_TEST_TIME = {
    "beam",
    "beams",
    "dev",
    "latent_samples",
    "length_penalty",
    "length_prior",
    "replace_unknown",
    "batch_size",
}
"""Keys of `decoding` that decide outputs, or the memory that they take, and nothing before them."""


class Resources(Strict):
    """What jobs ask of the machine or of the cluster."""

    threads: int = Field(1, ge=1, description="processor cores of a process")
    mem_mb: int = Field(2000, ge=1, description="main memory in megabytes")
    runtime: int = Field(240, ge=1, description="minutes of a cluster's job; a training goes on in another one")
    processes: int = Field(1, ge=1, description="processes that share a training, each with its cores and its GPU")
    gpu: bool | None = Field(None, description="a GPU for each process; null: if `device` is cuda, or one is here")
    gpu_model: str | None = Field(None, pattern=NAME, description="kind of GPU, by the cluster's name for it")
    decode_runtime: int = Field(60, ge=1, description="minutes of a job that decodes, analyses or compares outputs")
    data_mem_mb: int = Field(2000, ge=1, description="megabytes of a job that prepares data")
    data_runtime: int = Field(60, ge=1, description="minutes of a job that prepares data")


class ResourcesByModel(Resources):
    """What jobs ask of the machine or of the cluster, and what differs for single models."""

    models: dict[str, dict[str, Any]] = Field(
        {}, description="overrides of `resources` by model, as in `{variational: {runtime: 960}}`"
    )


class ModelConfig(Strict):
    """A model: for each of its components a kind, with options (see `pam.models.options`)."""

    label: Text = Field(description="the model's name in tables and figures")
    source: Text = Field("", description="the paper and section that define it")
    members: list[Name] = Field([], description="models whose mean this one is, in place of a training of its own")
    architecture: Annotated[Options, Component("architecture")] = Field(
        options.Recurrent(), description="what reads and writes"
    )
    score: Annotated[Options, Component("score")] = Field(
        options.General(), description="score e_t(a) of a source position"
    )
    window: Annotated[Options, Component("window")] = Field(
        options.NoWindow(), description="source positions that a step considers at all"
    )
    distribution: Annotated[Options, Component("distribution")] = Field(
        options.Softmax(), description="scores to alignment distribution"
    )
    coupling: Annotated[Options, Component("coupling")] = Field(
        options.NoCoupling(), description="dependence on the previous alignment"
    )
    latent: Annotated[Options, Component("latent")] = Field(
        options.NoLatent(), description="latent vectors in addition to the alignment, of contexts or of the sentence"
    )
    marginalization: Annotated[Options, Component("marginalization")] = Field(
        options.Input(), description="where attention is summed out"
    )
    input_feeding: Annotated[Options, Component("input_feeding")] = Field(
        options.PriorFeeding(), description="the alignment fed to the next state"
    )
    inference: Annotated[Options, Component("inference")] = Field(
        options.NoInference(), description="alignments given the whole target too, for a variational bound"
    )
    estimator: Annotated[Options, Component("estimator")] = Field(
        options.Exact(), description="how a bound's expectation is computed"
    )
    targets: Literal["symbols", "actions"] = Field(
        "symbols", description="output alphabet: symbols, or symbols and pointer steps"
    )
    network: dict[str, Any] = Field({}, description="overrides of `network` for this model")
    training: dict[str, Any] = Field({}, description="overrides of `training` for this model")
    decoding: dict[str, Any] = Field(
        {}, description="overrides of `decoding` for this model; its beams are those of the task"
    )


class TaskConfig(Strict):
    """One task of an experiment: a data set and what differs from the defaults."""

    dataset: str = Field(description="its name in the registry of data sets", pattern=NAME)
    label: Text | None = Field(None, description="name in tables; null: the task's key")
    paper: Text | None = Field(None, description="row of the paper's table that was run on this very data set")
    paper_reference: Text | None = Field(
        None, description="row of the paper's table to compare with, though its data differ"
    )
    note: str = Field("", description="what a reader of the report has to know about the task")
    models: list[str] | None = Field(
        None, min_length=1, description="those of the experiment's models to run; null: all"
    )
    without: list[str] = Field([], description="models that are not run after all")
    seeds: list[Seed] | None = Field(None, min_length=1, description="the task's own seeds; null: the experiment's")
    format: dict[str, Any] = Field({}, description="overrides of the data set's `format`")
    word_alignments: str | None = Field(
        None, pattern=NAME, description="data set of links that attention is compared with"
    )
    network: dict[str, Any] = Field({}, description="overrides of `network` for this task")
    training: dict[str, Any] = Field({}, description="overrides of `training` for this task")
    decoding: dict[str, Any] = Field({}, description="overrides of `decoding` for this task")
    resources: dict[str, Any] = Field({}, description="overrides of `resources` for this task")
    options: OptionLayer = Field({}, description="overrides of `options` for this task")

    def family(self) -> str:
        """What it shares with the tasks that differ in the amount of training data alone."""
        others = sorted((key, value) for key, value in self.format.items() if key != "train_pairs")
        return f"{self.dataset} {others}"


class Experiment(Strict):
    """Everything one experiment runs."""

    plugins: Plugins = Field([], description="modules to import, which add kinds of components of one's own")
    experiment: str = Field(description="name of the folder under results/", pattern=NAME)
    title: Text = Field("", description="heading of the report")
    seeds: list[Seed] = Field([1], min_length=1, description="one training per seed")
    models: list[Name] = Field(min_length=1, description="names of files in config/models/")
    baseline: Name = Field(
        default_factory=lambda data: _baseline(data.get("models", [])),
        description="the model that others are compared with; not given: soft, else the first",
    )
    tasks: dict[Name, TaskConfig] = Field(min_length=1, description="task name to its data set")
    network: Network = Field(default_factory=lambda: Network())
    training: Training = Field(default_factory=lambda: Training())
    decoding: Decoding = Field(default_factory=lambda: Decoding())
    registries: list[str] = Field(["config/datasets.yaml"], min_length=1, description="registries of data sets")
    mirror: str | None = Field(None, description="folder or base address tried first")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where models train")
    attention_words: int = Field(4, ge=1, description="rows of a test split drawn as heat maps")
    resources: ResourcesByModel = Field(default_factory=lambda: ResourcesByModel())
    options: OptionLayer = Field(
        {}, description="options of components where a model uses them: component, kind, option"
    )

    def models_of(self, task: str) -> list[str]:
        """The models that a task is run with, in the experiment's order."""
        own = self.tasks[task]
        chosen = set(own.models or self.models) - set(own.without)
        return [model for model in self.models if model in chosen]

    def seeds_of(self, task: str) -> list[int]:
        """The seeds that a task is run with."""
        return self.tasks[task].seeds or self.seeds

    def runs(self) -> Iterator[tuple[str, str, int]]:
        """Task, model and seed of every run that is asked for."""
        for task in self.tasks:
            for model in self.models_of(task):
                for seed in self.seeds_of(task):
                    yield task, model, seed


def _baseline(models: list[str]) -> str:
    return "soft" if "soft" in models or not models else models[0]


class Member(Strict):
    """One of the models whose mean an ensemble is."""

    components: ModelConfig
    network: Network


class RunConfig(Strict):
    """One training, resolved: nothing is left to default or to another file."""

    plugins: Plugins = Field([], description="as in the experiment")
    experiment: str = Field(pattern=NAME)
    task: str = Field(pattern=NAME)
    model: str = Field(pattern=NAME)
    label: Text
    seed: Seed
    components: ModelConfig
    members: list[Member] = Field([], description="of an ensemble; then nothing is trained")
    network: Network
    training: Training
    decoding: Decoding

    def training_config(self) -> dict[str, Any]:
        """What decides what the training results in: a change of it is a reason to train again.

        A new label in tables or a wider beam at test time is none.
        """
        for_people = {"label", "source"}
        return self.model_dump(
            exclude={
                "plugins": True,
                "experiment": True,
                "label": True,
                "components": for_people,
                "members": {"__all__": {"components": for_people}},
                "training": {"state_every_s"},
                "decoding": AT_TEST_TIME,
            }
        )


def load_model(name: str, folder: Path | str = "config/models") -> ModelConfig:
    """Reads `<folder>/<name>.yaml`.

    Raises:
        UserError: no such model (names the closest), or an error in its file.
    """
    path = Path(folder) / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in Path(folder).glob("*.yaml"))
        raise unknown("model", name, known, file=None)
    return parse(ModelConfig, read_yaml(path), path)


def load_run(path: Path | str) -> RunConfig:
    """Reads the resolved configuration of one training."""
    return parse(RunConfig, read_yaml(path), path)
