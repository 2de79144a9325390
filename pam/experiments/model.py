"""The configuration of a model, and its file in `config/models/`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pam.experiments.components import Kind
from pam.experiments.keys import Name, Text, key
from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import read_yaml
from pam.models import options
from pam.models.options import Options
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import SHIPPED, find_file

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

PRETRAINED = "pretrained:"  # before the name of a model that comes with the package
MODELS = Path("config/models")  # where models have their files
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
    # Left out where it is 1, as in models from before there was this key.
    seeds_each: Annotated[int, Field(ge=1, le=100)] = Field(
        1,
        description=(
            "an ensemble: seeds of each member; with 5, seed 1 joins the seeds 1 to 5, and seed 2"
            " the seeds 6 to 10"
        ),
        exclude_if=lambda seeds: seeds == 1,
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

    def member_runs(self, seed: int) -> list[tuple[str, int]]:
        """Return model and seed of each run that an ensemble joins; none if it is trained itself.

        Ensembles of different seeds have no run in common, so that their results are as independent
        as those of trainings.
        """
        last = seed * self.seeds_each
        seeds = range(last - self.seeds_each + 1, last + 1)
        return [(member, member_seed) for member in self.members for member_seed in seeds]

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


def load_model(name: str, folder: Path | str = MODELS) -> ModelConfig:
    """Read `<folder>/<name>.yaml`, the workflow's own where the folder of work has none.

    A UserError names the closest if there is none, or what is wrong in it.
    """
    path = model_file(name, folder)
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


def model_file(name: str, folder: Path | str = MODELS) -> Path:
    """Return the file of a model, in the folder of work or among the workflow's own."""
    return find_file(Path(folder) / f"{name}.yaml")


def model_files(folder: Path | str = MODELS) -> list[str]:
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
