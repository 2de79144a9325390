"""Configuration: what a user may write, its defaults, and one resolved `RunConfig` per training.

These classes are the only place where a key, its type and its default are stated. The JSON schema
in `workflow/schemas/` is generated from them, and every file is read through them, so a misspelt
key is a UserError.

A component is written `general`, or `{kind: general, scale: true}`; its kinds and their options are
those of `pam.models.options`.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from pam.experiments.parsing import PathText, Strict, parse, refused
from pam.experiments.sweep import SWEEP, Point, Sweep, check_sweep
from pam.experiments.yaml import read_yaml
from pam.models import options
from pam.models.options import COMPONENTS, DEEPEST, LARGEST, Options
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import SHIPPED, find_file

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


def read_options(component: str, kind: str, values: dict[str, Any]) -> Options:
    """Return the options of one kind, from a name and values that YAML wrote.

    No such kind or option is a PydanticCustomError, a value of a wrong type a ValidationError:
    `pam.experiments.parsing.parse` makes UserErrors of them.
    """
    kinds = COMPONENTS[component]
    if kind not in kinds:
        raise refused(unknown(component, kind, sorted(kinds)), "kind")

    names = [name for name in kinds[kind].model_fields if name != "kind"]
    for name in values:
        if name not in names:
            raise refused(unknown(f"option of {component} `{kind}`", str(name), names), str(name))

    return kinds[kind].model_validate({"kind": kind, **values})


@dataclass(frozen=True)
class Kind:
    """Marks a field that holds the options of one of a component's kinds.

    The kinds are looked up when the field is read, as plugins may have added some.
    """

    name: str

    def read(self, value: Any) -> Options:
        """Return a value of YAML as options; options themselves are left as they are."""
        if isinstance(value, Options) and type(value) in COMPONENTS[self.name].values():
            return value
        if isinstance(value, str):
            return read_options(self.name, value, {})
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            hint = f"write `{self.name}: name`, or `{self.name}: {{kind: name, option: value}}`"
            raise refused(UserError(f"a {self.name} without `kind`", hint=hint), "kind")

        values = {name: option for name, option in value.items() if name != "kind"}
        return read_options(self.name, value["kind"], values)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        serialization = core_schema.plain_serializer_function_ser_schema(Options.model_dump)
        return core_schema.no_info_plain_validator_function(self.read, serialization=serialization)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        shipped = {
            kind: cls for kind, cls in COMPONENTS[self.name].items() if options.is_shipped(cls)
        }
        kinds = [{**cls.model_json_schema(), "required": ["kind"]} for cls in shipped.values()]
        return {"anyOf": [{"enum": list(shipped)}, *kinds]}


def _check_layer(
    layer: dict[str, dict[str, dict[str, Any]]],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Check every component, kind, option and value of a layer of options, and return it."""
    for component, kinds in layer.items():
        if component not in COMPONENTS:
            raise refused(unknown("component", component, list(COMPONENTS)), component)
        for kind, values in kinds.items():
            _check_options(component, kind, values)

    return layer


def _check_options(component: str, kind: str, values: dict[str, Any]) -> None:
    """Check the options of one kind in a layer; errors are placed below component and kind."""
    try:
        read_options(component, kind, values)
    except PydanticCustomError as error:
        details = [InitErrorDetails(type=error, loc=(component, kind), input=None)]
        raise ValidationError.from_exception_data("options", details) from error
    except ValidationError as error:
        details = []
        for problem in error.errors():
            # The model has what a layer leaves out.
            if problem["type"] == "missing":
                continue
            # As `parse` words it.
            if problem["type"] == "refused":
                worded = PydanticCustomError("refused", "{message}", problem["ctx"])
            else:
                message = {"said": problem["msg"]}
                worded = PydanticCustomError(problem["type"], "{said}", message)

            keys = (component, kind, *problem["loc"])
            details.append(InitErrorDetails(type=worded, loc=keys, input=problem["input"]))

        if details:
            raise ValidationError.from_exception_data("options", details) from error


OptionLayer = Annotated[dict[str, dict[str, dict[str, Any]]], AfterValidator(_check_layer)]
"""Options by component and kind, as in `marginalization: {output: {top_k: 6}}`."""


def import_plugin(module: str) -> None:
    """Import a module, which registers its kinds; a UserError says that it cannot be imported."""
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        hint = f"install the package of `{error.name}`, or put its folder on PYTHONPATH"
        raise UserError(f"no module `{error.name}`", hint=hint) from error
    # A module of somebody's own may raise anything.
    except Exception as error:
        message = f"`{module}` cannot be imported: {type(error).__name__}: {error}"
        hint = f"`python -c 'import {module}'` shows where"
        raise UserError(message, hint=hint) from error


def _import_plugins(modules: list[str]) -> list[str]:
    """Import modules, which register their kinds, and return their names."""
    for module in modules:
        try:
            import_plugin(module)
        except UserError as error:
            raise refused(error, module) from error
    return modules


ModuleName = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)
]
Plugins = Annotated[list[ModuleName], AfterValidator(_import_plugins)]
"""Modules that are imported as they are read: what is read after them may use their kinds."""

# Names are those of folders too: they hold nothing that a shell or a path would read otherwise.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
Name = Annotated[str, Field(pattern=NAME)]
_NAME: TypeAdapter[str] = TypeAdapter(Name)
# Words for people, on one line.
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


def key(default: Any, description: str, **bounds: Any) -> Any:
    """Declare a key that need not be written."""
    return Field(default, description=description, **bounds)


class Network(Strict):
    """Sizes of encoder and decoder."""

    embedding: int = key(64, "units of a symbol's embedding", ge=1, le=LARGEST)
    encoder: int = key(64, "LSTM units of the encoder in each direction", ge=1, le=LARGEST)
    decoder: int = key(128, "LSTM units of the decoder", ge=1, le=LARGEST)
    encoder_layers: int = key(1, "layers of the bidirectional encoder", ge=1, le=DEEPEST)
    decoder_layers: int = key(1, "layers of the decoder", ge=1, le=DEEPEST)
    encoder_reads: Literal["both", "forward", "backward"] = key(
        "both", "directions in which the encoder reads the source"
    )
    decoder_start: Literal["encoder", "zeros"] = key(
        "encoder", "where the decoder's first state comes from"
    )
    dropout: float = key(
        0.2, "dropout on embeddings, encoder states and decoder states", ge=0, lt=1
    )
    initial_range: float | None = key(
        None, "initialize all weights by uniform(-r, r); null: torch's defaults", gt=0, le=100
    )


class Phase(Strict):
    """A part of a training, with its longest source and target."""

    until: int | None = key(
        None, "the step at which it ends, counted from the start; null: the training's end", ge=1
    )
    source: int | None = key(None, "symbols of a source that are read; null: all", ge=1)
    target: int | None = key(None, "symbols of a target that are learned; null: all", ge=1)


class Guided(Strict):
    """Links of words that guide attention in training."""

    links: str = Field(
        min_length=1,
        description="file with a line of links, such as `0-0 1-2`, for each pair of the prepared"
        " training text, `train.tsv`; words are those of that text, counted from 0; a blank line"
        " guides nothing",
    )
    weight: float = key(0.05, "weight of the links' cross-entropy in the objective", gt=0)
    of: Literal["prior", "posterior"] = key(
        "prior", "the distribution that learns the links: before or after the word is seen"
    )


class Training(Strict):
    """Training: its length, its optimizer, what is saved."""

    epochs: int = key(12, "passes over the training split", ge=1)
    max_steps: int | None = key(None, "end after this many steps, if that is before `epochs`", ge=1)
    patience: int | None = key(
        None, "end after this many epochs without a lower development loss", ge=1
    )
    batch_size: int = key(64, "examples per step", ge=1)
    accumulate: int = key(
        1, "parts into which a step's batch is cut; their gradients are added", ge=1
    )
    optimizer: Literal["adam", "sgd"] = key("adam", "adam or plain sgd")
    adam_betas: list[Annotated[float, Field(ge=0, lt=1)]] = key(
        [0.9, 0.999],
        "decay rates of Adam's running means of gradients and of their squares",
        min_length=2,
        max_length=2,
    )
    learning_rate: float = key(0.002, "the peak learning rate", gt=0)
    warmup_steps: int = key(
        100, "steps over which the learning rate rises linearly at the start", ge=0
    )
    schedule: Literal["linear", "halving", "plateau", "inverse_sqrt"] = key(
        "linear",
        "how the learning rate falls after the warm-up; `flat` belongs to linear, `halve_after`"
        " and `halve_every` to halving, `halve_from` to plateau; inverse_sqrt is 1 / sqrt(step)",
    )
    flat: float = key(
        0.4, "linear: share of the training after which the rate falls linearly to 0", ge=0, le=1
    )
    halve_after: int = key(8000, "halving: steps before the rate is first halved", ge=0)
    halve_every: int = key(1000, "halving: steps from one halving to the next", ge=1)
    halve_from: int = key(
        2,
        "plateau: first epoch after which a development objective worse than the best so far"
        " halves the rate",
        ge=1,
    )
    normalize: Literal["tokens", "sentences"] = key(
        "tokens", "divide a step's gradient by the number of these"
    )
    clip: float = key(5.0, "largest norm of the gradient", gt=0)
    phases: list[Phase] = key(
        [],
        "parts of the training that cut long texts, as {until: step, source: longest, target:"
        " longest}; the last phase, without `until`, cuts the development split too",
    )
    select: Literal["accuracy", "loss", "last"] = key(
        "accuracy",
        "keep the weights of the epoch with the best accuracy or loss on the development"
        " split, or of the last epoch",
    )
    eval_metrics: bool = key(
        False,
        "after each epoch, also measure symbol accuracy, the objective and the positions in"
        " the sum",
    )
    average: int = key(
        1, "average the weights of this many epochs, up to and including the selected one", ge=1
    )
    precision: Literal["float32", "tf32", "bf16"] = key(
        "float32",
        "precision of large matrix products, in training and for the development loss; tf32 is"
        " for CUDA, where bf16 means tf32",
    )
    state_every_s: float = key(
        30.0,
        "seconds between two saved states, at least; saving takes at most 1/20 of the time",
        ge=0,
    )
    cuda_graphs: Literal["auto", "off"] = key(
        "off", "auto: replay training steps as CUDA graphs, if model and training allow it"
    )
    divergence: float = key(
        10.0, "stop when an epoch's loss is this many times the first batch's", gt=1
    )

    # Left out where it is not given, as in runs from before there was this key.
    guided: Guided | None = key(
        None,
        "learn given links of words, such as {links: links.txt, weight: 0.05}",
        exclude_if=lambda guided: guided is None,
    )

    @model_validator(mode="after")
    def _check_phases(self) -> Training:
        """Check that phases follow one another to the end of the training."""
        ends = [phase.until or math.inf for phase in self.phases]
        if ends and (ends != sorted(set(ends)) or ends[-1] < math.inf):
            hint = "let `until` rise from phase to phase, and leave it out in the last one"
            error = UserError(
                "the phases do not follow one another to the training's end", hint=hint
            )
            raise refused(error, "phases")

        return self

    def phase(self, step: int) -> Phase:
        """Return the phase of a step, which counts from 0."""
        for phase in self.phases:
            if phase.until is None or step < phase.until:
                return phase
        return Phase()


class Decoding(Strict):
    """How outputs are decoded."""

    beam: int = key(1, "number of hypotheses; 1 is greedy search", ge=1)
    beams: list[Annotated[int, Field(ge=1)]] = key(
        [], "further beams with which the test split is decoded and scored"
    )
    length_penalty: float = key(
        0.0, "divide log p by length^this when the best hypothesis is chosen", ge=0, le=1000
    )
    length_penalty_form: Literal["power", "wu"] = key(
        "power",
        "what the penalty is the exponent of: the length (power), or (5 + length) / 6 as in Wu"
        " et al. 2016 (wu)",
    )
    length_penalties: list[Annotated[float, Field(ge=0, le=1000)]] = key(
        [],
        "candidates for `length_penalty`; each run uses, for each beam, the one with the best"
        " BLEU on the development split",
    )
    length_prior: float = key(0.0, "weight of log p(target length | source length)", ge=0, le=1000)
    replace_unknown: bool = key(
        False, "replace an unknown word by the source word with the highest attention"
    )
    latent_samples: int = key(
        0,
        "decode by the mean distribution over this many draws of the latent vectors; 0: decode"
        " at their means",
        ge=0,
        le=1000,
    )
    temperature: float | None = key(
        None,
        "sample outputs from p^(1 / temperature) instead of searching, for every beam",
        gt=0,
        le=1000,
    )
    precision: Literal["float32", "bf16"] = key(
        "float32",
        "precision of the output layer in beam search; the most probable symbols are"
        " computed exactly",
    )
    dev: bool = key(False, "decode and score the development split of translations too")
    batch_size: int = key(64, "examples decoded at once", ge=1)
    max_ratio: float | None = key(
        None,
        "longest output as a multiple of the input; null: 3, and as much more as pairs of training"
        " need",
        gt=0,
        le=1000,
    )
    max_extra: int = key(
        10,
        "symbols added to the limit of `max_ratio`; where that is null, as many more as pairs of"
        " training need",
        ge=1,
        le=100_000,
    )
    max_length: int | None = key(
        None,
        "symbols of the longest output, including the end symbol; null: only `max_ratio` limits it",
        ge=1,
    )
    min_length: int = key(
        0, "symbols of the shortest output, without the end symbol", ge=0, le=100_000
    )
    no_repeat_ngram_size: int | None = key(
        None, "forbid outputs that repeat a sequence of this many symbols", ge=1
    )
    max_source: int | None = key(None, "symbols of a source that are read; null: all", ge=1)

    @model_validator(mode="after")
    def _check_lengths(self) -> Decoding:
        """Check that the lengths of outputs leave room between them."""
        if self.max_length is not None and self.min_length >= self.max_length:
            hint = "let `max_length`, which counts the end symbol, be the greater"
            error = UserError("`min_length` is not below `max_length`", hint=hint)
            raise refused(error, "min_length")
        return self

    @model_validator(mode="after")
    def _check_penalties(self) -> Decoding:
        """Check that candidates for the length penalty stand alone and can change outputs."""
        if self.length_penalties and self.length_penalty:
            error = UserError(
                "`length_penalty` and `length_penalties` exclude each other",
                hint="leave out one of the two",
            )
            raise refused(error, "length_penalties")

        if self.length_penalties and self.temperature is not None:
            error = UserError(
                "sampled outputs have no length penalty to choose",
                hint="set `length_penalties: []` where `temperature` is set",
            )
            raise refused(error, "length_penalties")

        if len(set(self.length_penalties)) < len(self.length_penalties):
            error = UserError("a candidate is given twice", hint="remove one")
            raise refused(error, "length_penalties")

        return self


OLD_MAX_RATIO = 3.0  # the default of `max_ratio` in configurations that were written before
IN_TRAINING = {"max_ratio", "max_extra", "max_length", "min_length", "no_repeat_ngram_size"}
"""Keys of `decoding` by which greedy search writes, where a training chooses its epoch by it."""


class Resources(Strict):
    """What jobs request from the machine or the cluster."""

    threads: int = key(1, "processor cores of a process", ge=1)
    mem_mb: int = key(2000, "main memory of a job in megabytes", ge=1)
    runtime: int = key(
        240,
        "time limit of a cluster job in minutes; a longer training resumes in another job",
        ge=1,
    )
    processes: int = key(
        1, "processes that share a training, each with its cores and its GPU", ge=1
    )
    gpu: bool | None = key(
        None, "request a GPU for each process; null: if `device` is cuda, or the machine has a GPU"
    )
    gpu_model: str | None = key(None, "kind of GPU, by the cluster's name for it", pattern=NAME)
    decode_runtime: int = key(
        60, "time limit in minutes of a job that decodes, analyses or compares outputs", ge=1
    )
    data_mem_mb: int = key(2000, "memory in megabytes of a job that prepares data", ge=1)
    data_runtime: int = key(60, "time limit in minutes of a job that prepares data", ge=1)


class ResourcesByModel(Resources):
    """What jobs request from the machine or the cluster, with exceptions for single models."""

    models: dict[str, dict[str, Any]] = key(
        {}, "overrides of `resources` by model, as in `{variational: {runtime: 960}}`"
    )


PRETRAINED = "pretrained:"  # before the name of a model that comes with the package
EXPORTED_SUFFIX = ".pam"  # of a file that `export` wrote
ModelOrPath = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}|[^\x00-\x1f{}]*[/:][^\x00-\x1f{}]*)$",
        max_length=4096,
    ),
]
"""The name of a model, or the path of a trained one."""


def is_path(model: str) -> bool:
    """Return whether this is the path of a trained model, not the name of one of the task's."""
    return "/" in model or model.startswith(PRETRAINED) or model.endswith(EXPORTED_SUFFIX)


class InitFrom(Strict):
    """Models from whose trained weights another model starts. A name means a model of the same task
    and seed.
    """

    forward: ModelOrPath | None = key(
        None,
        "gives all parameters of the same name; may also be the path of a model trained on"
        " other data, with whose vocabularies the task's data are then prepared",
    )
    backward: Name | None = key(
        None, "a `reversed` model, for the opposite direction of `architecture: agreement`"
    )


def _forward(value: Any) -> Any:
    """Read a model's name as that of `forward`."""
    return {"forward": value} if isinstance(value, str) else value


class ModelConfig(Strict):
    """A model: one kind of each component, with options (see `pam.models.options`)."""

    label: Text = Field(description="the model's name in tables and figures")
    source: Text = key("", "the paper and section that define it")
    members: list[Name] = key(
        [],
        "an ensemble: trained models whose distributions are averaged; the ensemble itself"
        " is not trained",
    )
    init_from: Annotated[
        InitFrom | None, BeforeValidator(_forward, ModelOrPath | InitFrom | None)
    ] = key(
        None,
        "the model from whose trained weights this model starts, by name or by the path of a"
        " run or an exported file; or one for each direction: {forward: ..., backward: ...}",
    )
    reversed: bool = key(
        False, "train from target to source, to be used only as `backward` in `init_from`"
    )
    architecture: Annotated[Options, Kind("architecture")] = key(
        options.Recurrent(), "encoder and decoder"
    )
    score: Annotated[Options, Kind("score")] = key(
        options.General(), "score e_t(a) of a source position"
    )
    window: Annotated[Options, Kind("window")] = key(
        options.NoWindow(), "source positions that a step considers"
    )
    distribution: Annotated[Options, Kind("distribution")] = key(
        options.Softmax(), "how scores become a distribution over positions"
    )
    coupling: Annotated[Options, Kind("coupling")] = key(
        options.NoCoupling(), "how an alignment depends on the previous one"
    )
    latent: Annotated[Options, Kind("latent")] = key(
        options.NoLatent(),
        "latent vectors besides the alignment, one per step (acvi) or per sentence (ved)",
    )
    marginalization: Annotated[Options, Kind("marginalization")] = key(
        options.Input(), "where the position is summed out"
    )
    input_feeding: Annotated[Options, Kind("input_feeding")] = key(
        options.PriorFeeding(), "the alignment fed to the next state"
    )
    inference: Annotated[Options, Kind("inference")] = key(
        options.NoInference(), "alignments given the whole target, for a variational bound"
    )
    estimator: Annotated[Options, Kind("estimator")] = key(
        options.Exact(), "how a bound's expectation is computed"
    )
    copying: Annotated[Options, Kind("copying")] = key(
        options.NoCopying(), "whether symbols of the source are copied"
    )
    targets: Literal["symbols", "actions"] = key(
        "symbols", "output vocabulary: symbols, or symbols and pointer actions"
    )
    network: dict[str, Any] = key({}, "overrides of `network` for this model")
    training: dict[str, Any] = key({}, "overrides of `training` for this model")
    decoding: dict[str, Any] = key(
        {}, "overrides of `decoding` for this model; the task sets its beams"
    )

    def starts(self) -> dict[str, str]:
        """Return models of the same task to start from, by how their parameters begin here."""
        sources = self.init_from or InitFrom()
        by_prefix = {"": sources.forward, "back.": sources.backward}
        return {
            prefix: name
            for prefix, name in by_prefix.items()
            if name is not None and not is_path(name)
        }

    @property
    def trained_start(self) -> str | None:
        """The path of a trained model of other data to start from, None without one."""
        sources = self.init_from or InitFrom()
        if sources.forward is None or not is_path(sources.forward):
            return None
        return sources.forward


# Keys of a model that hold overrides, each by its own key.
OVERRIDES = ("network", "training", "decoding")
SECTIONS: dict[str, type[Strict]] = {
    "network": Network,
    "training": Training,
    "decoding": Decoding,
}
VARIANT = (
    "write `- NAME` for a file of config/models/, or a variant as `- {NAME: {from: MODEL, score:"
    " dot}}`"
)
Listed = str | dict[str, dict[str, Any]]
"""An item of an experiment's `models`: the name of a file, or of a variant with its changes."""


@dataclass(frozen=True)
class ListedModel:
    """Marks an item of an experiment's `models`: the name of a file, or a variant.

    Variants are read when their bases are known.
    """

    def read(self, value: Any) -> Listed:
        """Return a name, or one name with the keys of a model.

        Whether the keys have right values, `with_changes` sees.
        """
        if not isinstance(value, dict):
            return _NAME.validate_python(value)
        if len(value) != 1 or not all(isinstance(changes, dict) for changes in value.values()):
            error = UserError("a variant needs one name, with its changes below it", hint=VARIANT)
            raise refused(error)

        ((name, changes),) = value.items()
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            error = UserError(f"`{name}` cannot be the name of a model", hint=VARIANT)
            raise refused(error, str(name))

        keys = ["from", SWEEP, *ModelConfig.model_fields]
        for key in changes:
            if key not in keys:
                raise refused(unknown("key of a model", str(key), keys), name, str(key))

        if not isinstance(changes.get("from"), str | None):
            raise refused(
                UserError("`from` is not the name of a model", hint=VARIANT), name, "from"
            )

        if SWEEP in changes:
            check_sweep(
                item=name,
                swept=changes[SWEEP],
                options=swept_options(),
                whole=list(COMPONENTS),
                name=NAME,
            )

        return {name: changes}

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        variant = {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": NAME},
        }
        return {
            "anyOf": [
                {"type": "string", "pattern": NAME},
                {**variant, "additionalProperties": {"type": "object"}},
            ]
        }


def swept_options() -> dict[str, list[str]]:
    """Return what a sweep may vary: by section the options of any kind, or the keys."""
    by_section = {}
    for component, kinds in COMPONENTS.items():
        names = dict.fromkeys(name for kind in kinds.values() for name in kind.model_fields)
        by_section[component] = [name for name in names if name != "kind"]
    for section, keys in SECTIONS.items():
        by_section[section] = list(keys.model_fields)

    return by_section


def with_changes(base: ModelConfig | None, name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Return what the file of a variant would hold: what its base says, with its changes.

    Of a component that is written without its `kind`, and of overrides, the base keeps what the
    variant does not say. The label is the variant's name unless it has its own, since no two models
    have the same.
    """
    values: dict[str, Any] = {}
    if base:
        values = {key: getattr(base, key) for key in base.model_fields_set}
    values["label"] = name

    for key, value in changes.items():
        if base and key in COMPONENTS and isinstance(value, dict) and "kind" not in value:
            options_of_base: Options = getattr(base, key)
            values[key] = {
                "kind": options_of_base.kind,
                **options_of_base.model_dump(include=options_of_base.model_fields_set),
                **value,
            }
        elif base and key in OVERRIDES and isinstance(value, dict):
            values[key] = {**getattr(base, key), **value}
        elif key != "from":
            values[key] = value

    return values


class Aligning(Strict):
    """Links between the words of a task's training text."""

    reverse: str | None = key(
        None,
        "task of the opposite direction, whose models are joined with this task's; null: links of"
        " one direction",
    )
    symmetrize: Literal[
        "intersection",
        "union",
        "grow-diag",
        "grow-diag-final",
        "grow-diag-final-and",
        "product",
    ] = key("grow-diag-final-and", "how links of two directions become one set")
    threshold: float | None = key(
        None,
        "least probability of a link; null: each target word is linked to its most probable source"
        " word, unless none is more probable",
        gt=0,
        le=1,
    )
    smooth: bool = key(False, "let later target words tell of earlier ones")
    programs: list[Literal["eflomal", "fast_align"]] = key(
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


class Member(Strict):
    """One of the models whose mean an ensemble is."""

    components: ModelConfig
    network: Network


class RunConfig(Strict):
    """One training, resolved: nothing is left to default or to another file."""

    plugins: Plugins = key([], "as in the experiment")
    experiment: str = Field(pattern=NAME)
    task: str = Field(pattern=NAME)
    model: str = Field(pattern=NAME)
    label: Text
    seed: Seed
    components: ModelConfig
    members: list[Member] = key([], "of an ensemble; then nothing is trained")
    network: Network
    training: Training
    decoding: Decoding

    @property
    def is_chosen_by_decoding(self) -> bool:
        """Whether the training decodes the development split to choose its epoch."""
        return not self.members and self.training.select == "accuracy"

    def training_config(self) -> dict[str, Any]:
        """Return what decides the result of the training, and so is a reason to train again.

        Of `decoding` it has nothing, unless the epoch is chosen by decoding.
        """
        for_people = {"label", "source"}
        config = self.model_dump(
            exclude={
                "plugins": True,
                "experiment": True,
                "label": True,
                "components": for_people,
                "members": {"__all__": {"components": for_people}},
                "training": {"state_every_s"},
                "decoding": True,
            }
        )
        if self.is_chosen_by_decoding:
            config["decoding"] = self.decoding.model_dump(include=IN_TRAINING)
        return config

    def as_written_for(self, plan: RunConfig) -> RunConfig:
        """Return a stored run as it would be written today, to be compared with a planned one.

        Before `max_ratio` followed the pairs of training its default was a number, which runs that
        are stored have. No stored experiment has a pair of training that it cuts.
        """
        if plan.decoding.max_ratio is None and self.decoding.max_ratio == OLD_MAX_RATIO:
            decoding = self.decoding.model_copy(update={"max_ratio": None})
            return self.model_copy(update={"decoding": decoding})
        return self


def load_model(name: str, folder: Path | str = "config/models") -> ModelConfig:
    """Read `<folder>/<name>.yaml`, the workflow's own where the folder of work has none.

    A UserError names the closest if there is none, or what is wrong in it.
    """
    path = find_file(Path(folder) / f"{name}.yaml")
    if path.is_file():
        return parse(ModelConfig, read_yaml(path), path)

    experiment = experiment_with(name)
    if experiment is not None:
        hint = (
            f"copy its line from there into the `models:` of your experiment, as `- {{{name}:"
            " ...}`"
        )
        raise UserError(
            f"model `{name}` has no file: it is a variant that {experiment} defines", hint=hint
        )

    raise unknown("model", name, model_files(folder))


def model_files(folder: Path | str = "config/models") -> list[str]:
    """List the models that have a file, in the folder of work or among the workflow's own."""
    files = [*Path(folder).glob("*.yaml"), *(SHIPPED / folder).glob("*.yaml")]
    return sorted({file.stem for file in files})


def experiment_with(variant: str) -> Path | None:
    """Return the first of the workflow's own experiments that writes a variant of this name.

    It is named as seen from the workflow's folder.
    """
    for file in sorted((SHIPPED / "config").rglob("*.yaml")):
        content = read_yaml(file)
        models = content.get("models") if isinstance(content, dict) else None
        for item in models if isinstance(models, list) else []:
            if isinstance(item, dict) and variant in item:
                return file.relative_to(SHIPPED)

    return None


def load_run(path: Path | str) -> RunConfig:
    """Read the resolved configuration of one training."""
    return parse(RunConfig, read_yaml(path), path)
