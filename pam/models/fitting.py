"""Whether the parts of a model fit together, and the model its sizes, seen without torch."""

from __future__ import annotations

from pam.config import ModelConfig, Network
from pam.io import UserError
from pam.models.options import (
    COMPONENTS,
    PARTS,
    AlignedTransformerOptions,
    MultiHeadOptions,
)


class FitError(UserError):
    """Parts or sizes that do not fit; `keys` of the model's file name a part; none: it is the sizes
    of a task.
    """

    def __init__(self, message: str, *keys: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.keys = keys


def check_fit(components: ModelConfig, network: Network) -> None:
    """Checks that a model can be made of these parts at these sizes; a FitError says that it
    cannot.
    """
    check_parts(components)
    check_sizes(components, network)


def check_parts(components: ModelConfig) -> None:
    """Checks the combination of a model's parts; a FitError says if some exclude each other, or one
    changes nothing.
    """
    if components.members:
        _check_unused(
            components, "an ensemble", ("init_from", "reversed", "architecture", *COMPONENTS)
        )
        return
    _check_start(components)
    kind = components.architecture.kind
    if not components.architecture.has_components:
        # What would change nothing is an error: it would be thought to.
        _check_unused(components, f"the architecture `{kind}`", PARTS)
    if components.targets == "actions" and kind != "recurrent":
        raise FitError(
            f"the architecture `{kind}` writes no actions: it has no pointer to move",
            "targets",
            hint="use `targets: symbols`",
        )
    if components.architecture.has_components:
        _check_bound(components)
        _check_alignment(components)
        _check_copying(components)
    if isinstance(components.architecture, AlignedTransformerOptions):
        _check_alignment_head(components)


def check_vectors(components: ModelConfig, kind: str) -> None:
    """Checks that a model can read sources of vectors, which a kind of task has; a FitError says
    that it cannot.
    """
    what = ""
    if not components.architecture.reads_vectors:
        what = f"the architecture `{components.architecture.kind}`"
    elif components.copying.copies:
        what = "copying"
    elif components.reversed:
        what = "a model that learns from target to source"
    if what:
        hint = "leave the model out there: `without: [...]`"
        raise FitError(f"{what} needs sources of symbols, a task of {kind} has vectors", hint=hint)


def check_sizes(components: ModelConfig, network: Network) -> None:
    """Checks that a model can have these sizes; a FitError says that it cannot."""
    architecture = components.architecture
    heads = architecture.heads if isinstance(architecture, MultiHeadOptions) else None
    if heads and network.embedding % (2 * heads):
        raise FitError(
            f"{network.embedding} units do not divide into {heads} heads of an even size",
            hint="let `network.embedding` be a multiple of twice the `heads`",
        )
    directions = 2 if network.encoder_reads == "both" else 1
    values = directions * network.encoder
    is_recurrent = architecture.has_components and not heads
    if is_recurrent and components.score.kind == "dot" and network.decoder != values:
        raise FitError(
            f"score `dot` multiplies a decoder state of {network.decoder} units with an encoder"
            f" state of {values}",
            hint="give the decoder as many units as both directions of the encoder have",
        )


def _check_unused(components: ModelConfig, what: str, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(components, name) != ModelConfig.model_fields[name].default:
            raise FitError(f"{what} has no `{name}`", name, hint=f"leave out `{name}`")


def _check_start(components: ModelConfig) -> None:
    """There is a model to start from, and a place for its weights; what is reversed has symbols on
    both sides.
    """
    start = components.init_from
    if start is not None and not components.starts():
        raise FitError(
            "no model to start from", "init_from", hint="name one: `init_from: {forward: soft}`"
        )
    if (
        start is not None
        and start.backward is not None
        and components.architecture.kind != "agreement"
    ):
        raise FitError(
            "only `architecture: agreement` has an opposite direction",
            *("init_from", "backward"),
            hint="name the model to start from alone: `init_from: soft`",
        )
    if components.reversed and components.targets != "symbols":
        raise FitError(
            "sources have no actions to learn", "reversed", hint="use `targets: symbols`"
        )


def _check_bound(components: ModelConfig) -> None:
    """A bound, an inference network and an estimator belong together."""
    bound = components.marginalization.needs_inference
    if bound != components.inference.infers:
        raise FitError(
            "a bound and an inference network need each other",
            "marginalization" if bound else "inference",
            hint="use `marginalization: bound` with `inference: bilstm` or `prior`, or neither",
        )
    if components.estimator.draws and not bound:
        raise FitError(
            "only a bound has an expectation to estimate",
            "estimator",
            hint="use `marginalization: bound`, or leave `estimator` out",
        )


def _check_alignment(components: ModelConfig) -> None:
    """What is fed back is there, and a pointer is all that decides an alignment."""
    marginalization, feeding = components.marginalization, components.input_feeding
    if feeding.needs_positions and not marginalization.gives_positions:
        raise FitError(
            "the posterior needs p(y | s, h_a) of each position",
            "input_feeding",
            hint="use `marginalization: output` with `input_feeding: posterior`",
        )
    pointers = ["coupling"] if components.coupling.kind == "pointer" else []
    pointers += ["input_feeding"] if feeding.kind == "pointer" else []
    pointers += ["targets"] if components.targets == "actions" else []
    if pointers and len(pointers) < 3:
        raise FitError(
            "a pointer is both coupling and input feeding, over actions",
            pointers[0],
            hint="use `coupling: pointer`, `input_feeding: pointer`, `targets: actions` together",
        )
    if pointers and marginalization.kind != "input":
        raise FitError(
            "a pointer is one position, which leaves none to sum over",
            "marginalization",
            hint="use `marginalization: input` with `coupling: pointer`",
        )


def _check_alignment_head(components: ModelConfig) -> None:
    """Check that the head draws nothing, and that what all steps need at once waits for none."""
    if components.latent.kind != "none":
        raise FitError(
            "an alignment head has no latent vectors", "latent", hint="leave out `latent`"
        )
    if components.marginalization.needs_inference:
        raise FitError(
            "an alignment head is trained by the likelihood itself",
            "marginalization",
            hint="use `marginalization: input` or `marginalization: output`",
        )
    feeding = components.input_feeding
    if feeding.draws:
        raise FitError(
            "an alignment head draws no position",
            "input_feeding",
            hint="use `input_feeding: none`, `prior` or `posterior`",
        )
    if components.score.reads_history:
        raise FitError(
            f"score `{components.score.kind}` depends on where earlier steps looked, and the scores"
            " of all steps are computed at once",
            "score",
            hint="use `score: general`, `dot` or `mlp`",
        )


def _check_copying(components: ModelConfig) -> None:
    """What is copied is a symbol of the source, and every one of them can be."""
    if not components.copying.copies:
        return
    for name, part in (("window", components.window), ("distribution", components.distribution)):
        if part.has_zeros:
            raise FitError(
                f"{name} `{part.kind}` leaves positions no probability at all, and so words that"
                " are to be copied",
                *(name, "copying"),
                hint=f"leave out `{name}`, or `copying`",
            )
    if components.marginalization.kind == "none":
        raise FitError(
            "without attention there is nothing to copy from", "copying", hint="leave out `copying`"
        )
    if (
        components.targets == "actions"
        or components.reversed
        or components.architecture.kind == "agreement"
    ):
        raise FitError(
            "only a model from source to target, of symbols, can copy",
            "copying",
            hint="leave out `copying`, or use `architecture: recurrent` with `targets: symbols`",
        )
