"""Checks that a model's components fit together and that its sizes are possible, without torch."""

from __future__ import annotations

from collections import Counter

from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models.options import (
    COMPONENTS,
    PARTS,
    Agreeing,
    AlignmentHeadOptions,
    LabelSmoothed,
    MultiHeadOptions,
)
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


class FitError(UserError):
    """Components or sizes that do not fit.

    `keys` lead to a component in the model's file; there are none if the sizes of a task are wrong.
    """

    def __init__(self, message: str, *keys: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.keys = keys


def check_fit(components: ModelConfig, network: Network) -> None:
    """Check that a model can be made of these components at these sizes, or raise a FitError."""
    check_parts(components)
    check_sizes(components, network)


def check_parts(components: ModelConfig) -> None:
    """Check the combination of a model's components.

    A FitError says that some exclude each other, or that one would have no effect.
    """
    if components.members:
        unused = ("init_from", "reversed", "architecture", "network", "training", *COMPONENTS)
        _check_unused(components, "an ensemble", unused)
        repeated = [name for name, count in Counter(components.members).items() if count > 1]
        if repeated:
            raise FitError(
                f"`{repeated[0]}` is a member twice",
                "members",
                hint="name each once; `seeds_each` joins several seeds of it",
            )
        return

    if components.seeds_each > 1:
        raise FitError(
            "only an ensemble has members of several seeds",
            "seeds_each",
            hint="leave it out, or name the model in the `members` of another one",
        )

    _check_start(components)
    kind = components.architecture.kind
    if not components.architecture.has_components:
        # A key without effect is an error, as its author expects one.
        _check_unused(components, f"the architecture `{kind}`", PARTS)

    if components.targets == "actions" and kind != "recurrent":
        raise FitError(
            f"the architecture `{kind}` writes no actions: it has no pointer to move",
            "targets",
            hint="use `targets: symbols`",
        )

    if components.architecture.has_components:
        _check_bound(components)
        _check_feeding(components)
        _check_pointer(components)
        _check_copying(components)
        _check_agreement(components)
        _check_label_smoothing(components)
    if isinstance(components.architecture, AlignmentHeadOptions):
        _check_alignment_head(components)


def check_vectors(components: ModelConfig, kind: str) -> None:
    """Check that a model can read the vectors that are the sources of a kind of task.

    A FitError says that it needs symbols.
    """
    # What needs symbols, if anything does.
    reader = ""
    if not components.architecture.reads_vectors:
        reader = f"the architecture `{components.architecture.kind}`"
    elif components.copying.copies:
        reader = "copying"
    elif components.reversed:
        reader = "a model that learns from target to source"

    if reader:
        raise FitError(
            f"{reader} needs sources of symbols, a task of {kind} has vectors",
            hint="leave the model out there: `without: [...]`",
        )


def check_sizes(components: ModelConfig, network: Network) -> None:
    """Check that a model can have these sizes, or raise a FitError."""
    architecture = components.architecture
    if isinstance(architecture, MultiHeadOptions):
        heads = architecture.heads
        if network.embedding % (2 * heads):
            raise FitError(
                f"{network.embedding} units do not divide into {heads} heads of an even size",
                hint="let `network.embedding` be a multiple of twice the `heads`",
            )
        # All states have as many units.
        return

    values = network.encoder
    if network.encoder_reads == "both":
        values = 2 * network.encoder
    if components.score.kind == "dot" and network.decoder != values:
        raise FitError(
            f"score `dot` multiplies a decoder state of {network.decoder} units with an encoder"
            f" state of {values}",
            hint="give the decoder as many units as both directions of the encoder have",
        )


def _check_unused(components: ModelConfig, owner: str, names: tuple[str, ...]) -> None:
    """Check that the file of a model of this kind leaves these keys out."""
    for name in names:
        if getattr(components, name) != ModelConfig.model_fields[name].default:
            raise FitError(f"{owner} has no `{name}`", name, hint=f"leave out `{name}`")


def _check_start(components: ModelConfig) -> None:
    """Check that a model can take the weights that it starts from, and can be reversed."""
    start = components.init_from
    if start is not None and not components.starts() and components.trained_start is None:
        raise FitError(
            "no model to start from", "init_from", hint="name one: `init_from: {forward: soft}`"
        )

    starts_backward = start is not None and start.backward is not None
    if starts_backward and not components.architecture.has_opposite:
        raise FitError(
            f"the architecture `{components.architecture.kind}` has no opposite direction",
            "init_from",
            "backward",
            hint="name the model to start from alone: `init_from: soft`",
        )

    if components.reversed and components.trained_start is not None:
        raise FitError(
            "a reversed model cannot start from one of other data",
            "init_from",
            hint="leave out `init_from`, or `reversed`",
        )

    if components.reversed and components.targets != "symbols":
        raise FitError(
            "sources have no actions to learn", "reversed", hint="use `targets: symbols`"
        )


def _check_bound(components: ModelConfig) -> None:
    """Check that a bound comes with an inference, and an estimator with a bound."""
    is_bound = components.marginalization.needs_inference
    if is_bound != components.inference.infers:
        raise FitError(
            "a bound and an inference network need each other",
            "marginalization" if is_bound else "inference",
            hint="use `marginalization: bound` with `inference: bilstm` or `prior`, or neither",
        )

    if components.estimator.draws and not is_bound:
        raise FitError(
            "only a bound has an expectation to estimate",
            "estimator",
            hint="use `marginalization: bound`, or leave `estimator` out",
        )


def _check_feeding(components: ModelConfig) -> None:
    """Check that a posterior that is fed back can be computed."""
    if components.input_feeding.needs_positions and not components.marginalization.gives_positions:
        raise FitError(
            "the posterior needs p(y | s, h_a) of each position",
            "input_feeding",
            hint="use `marginalization: output` with `input_feeding: posterior`",
        )


def _check_agreement(components: ModelConfig) -> None:
    """Check that a posterior that is to agree can be computed."""
    architecture = components.architecture
    agrees_on_posterior = isinstance(architecture, Agreeing) and architecture.of == "posterior"
    if agrees_on_posterior and not components.marginalization.gives_positions:
        raise FitError(
            "the posterior needs p(y | s, h_a) of each position",
            "architecture",
            "of",
            hint="use `marginalization: output`, or `of: prior`",
        )


def _check_label_smoothing(components: ModelConfig) -> None:
    """Check that the mean of log p over all symbols can be computed, if it is trained on."""
    architecture = components.architecture
    if not isinstance(architecture, LabelSmoothed) or architecture.label_smoothing == 0:
        return

    if components.marginalization.kind not in ("input", "none"):
        raise FitError(
            "label smoothing needs a symbol that comes from one context",
            "architecture",
            "label_smoothing",
            hint="use `marginalization: input`, or leave out `label_smoothing`",
        )

    if components.copying.copies:
        raise FitError(
            "label smoothing is of symbols that are generated, and not copied",
            "architecture",
            "label_smoothing",
            hint="leave out `copying`, or `label_smoothing`",
        )


def _check_pointer(components: ModelConfig) -> None:
    """Check that a pointer alone decides the alignment."""
    pointer_keys = []
    if components.coupling.kind == "pointer":
        pointer_keys.append("coupling")
    if components.input_feeding.kind == "pointer":
        pointer_keys.append("input_feeding")
    if components.targets == "actions":
        pointer_keys.append("targets")

    if not pointer_keys:
        return

    if len(pointer_keys) < 3:
        raise FitError(
            "a pointer is both coupling and input feeding, over actions",
            pointer_keys[0],
            hint="use `coupling: pointer`, `input_feeding: pointer`, `targets: actions` together",
        )

    if components.marginalization.kind != "input":
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
    """Check that every symbol of the source can be copied, if a model copies at all."""
    if not components.copying.copies:
        return

    for name, part in (("window", components.window), ("distribution", components.distribution)):
        if part.has_zeros:
            raise FitError(
                f"{name} `{part.kind}` leaves positions no probability at all, and so words that"
                " are to be copied",
                name,
                "copying",
                hint=f"leave out `{name}`, or `copying`",
            )

    if components.marginalization.kind == "none":
        raise FitError(
            "without attention there is nothing to copy from", "copying", hint="leave out `copying`"
        )

    if (
        components.targets == "actions"
        or components.reversed
        or components.architecture.has_opposite
    ):
        raise FitError(
            "only a model from source to target, of symbols, can copy",
            "copying",
            hint="leave out `copying`, or use `architecture: recurrent` with `targets: symbols`",
        )
