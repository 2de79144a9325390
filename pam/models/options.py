"""The components of a model, their kinds, and the options of each kind; imports no torch.

A kind is declared here and nowhere else, by its class of options. That class names the class which
computes the kind. Configuration, schemas, the model builder and the code fingerprints of runs all
read `COMPONENTS`. A plugin adds a kind with `register`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from pam.experiments.parsing import Strict
from pam.models.schedules import Schedule, Scheduled
from pam.runtime.errors import UserError, unknown

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Units and layers of the largest network: more than that is a typing mistake.
LARGEST = 65_536
DEEPEST = 100

Units = Annotated[int, Field(ge=1, le=LARGEST)]
Layers = Annotated[int, Field(ge=1, le=DEEPEST)]
Share = Annotated[float, Field(ge=0, le=1)]
SmoothedShare = Annotated[float, Field(ge=0, lt=1)]
Mass = Annotated[float, Field(gt=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
ScheduledShare = Annotated[float | Schedule, Scheduled(0, 1)]
ScheduledWeight = Annotated[float | Schedule, Scheduled(0, 1e6)]
ScheduledTemperature = Annotated[float | Schedule, Scheduled(1e-3, 1e3)]
Samples = Annotated[int, Field(ge=1, le=1000)]


class Options(Strict):
    """The options of one kind of a component; `kind` is its name in YAML."""

    kind: str

    implementation: ClassVar[str] = ""
    """`package.module:Class` that computes the kind; an architecture names the function that builds
    it.
    """

    # Facts by which `pam.models.fitting` checks that components fit together. Implementations with
    # an attribute of the same name repeat the fact.

    has_components: ClassVar[bool] = True
    """Architecture: it is made of the other components."""

    gives_positions: ClassVar[bool] = False
    """Marginalization: it computes p(y | s, h_a) of each position."""

    needs_positions: ClassVar[bool] = False
    """Input feeding: it needs p(y | s, h_a) of each position."""

    needs_inference: ClassVar[bool] = False
    """Marginalization: it is a variational bound, which needs an inference."""

    infers: ClassVar[bool] = False
    """Inference: there is a distribution q(a | x, y)."""

    draws: ClassVar[bool] = False
    """Latent, input feeding, estimator: a training step draws random numbers."""

    has_zeros: ClassVar[bool] = False
    """Window, distribution: some positions get probability zero."""

    copies: ClassVar[bool] = False
    """Copying: symbols of the source can be written."""

    reads_history: ClassVar[bool] = False
    """Score: it depends on where earlier steps looked."""

    reads_vectors: ClassVar[bool] = False
    """Architecture: sources may be vectors."""

    has_opposite: ClassVar[bool] = False
    """Architecture: a model from target to source is trained beside it."""


Kinds = dict[str, type[Options]]
AnyOptions = TypeVar("AnyOptions", bound=Options)

COMPONENTS: dict[str, Kinds] = {
    "architecture": {},
    "score": {},
    "window": {},
    "distribution": {},
    "coupling": {},
    "latent": {},
    "marginalization": {},
    "input_feeding": {},
    "inference": {},
    "estimator": {},
    "copying": {},
}
"""Component to kind to class of options, by their names in YAML; `kind_of` fills it."""

PARTS = tuple(component for component in COMPONENTS if component != "architecture")
"""The components of an architecture, in the order in which they are built."""


def kind_of(component: str) -> Callable[[type[AnyOptions]], type[AnyOptions]]:
    """Declare a class of options as a kind of this component.

    The default of its field `kind` is the kind's name.
    """

    def declare(options: type[AnyOptions]) -> type[AnyOptions]:
        COMPONENTS[component][options.model_fields["kind"].default] = options
        return options

    return declare


# score: how well does a source position fit the decoder's state?


@kind_of("score")
class General(Options):
    """Bilinear product of decoder and encoder state."""

    implementation = "pam.models.scores:General"
    kind: Literal["general"] = "general"
    scale: bool = Field(True, description="divide by the square root of the decoder's units")
    learned_scale: bool = Field(
        False, description="multiply by a number that is trained, 1 at first"
    )


@kind_of("score")
class Dot(Options):
    """Dot product of decoder and encoder state."""

    implementation = "pam.models.scores:Dot"
    kind: Literal["dot"] = "dot"
    scale: bool = Field(True, description="divide by the square root of the number of units")


class _Perceptron(Options):
    units: Units | None = Field(
        None, description="units of the hidden layer; null: as many as the decoder"
    )


@kind_of("score")
class Concat(_Perceptron):
    """Perceptron over the concatenated states; the same function as `mlp`."""

    implementation = "pam.models.scores:Concat"
    kind: Literal["concat"] = "concat"


@kind_of("score")
class Mlp(_Perceptron):
    """Perceptron with one hidden layer."""

    implementation = "pam.models.scores:Mlp"
    kind: Literal["mlp"] = "mlp"


@kind_of("score")
class Location(Options):
    """Score from the decoder's state alone."""

    implementation = "pam.models.scores:Location"
    kind: Literal["location"] = "location"
    longest: Units = Field(100, description="number of source positions that have a score")


@kind_of("score")
class Structural(_Perceptron):
    """`mlp` with features of position, previous alignment and fertility."""

    implementation = "pam.models.scores:Structural"
    reads_history = True
    kind: Literal["structural"] = "structural"
    place: bool = Field(
        True, description="use source position, target position and source length as features"
    )
    markov: Units | None = Field(
        1,
        description="half width of the window on the previous alignment (Markov); null: none",
    )
    fertility: Units | None = Field(
        1, description="half width of the window on summed attention (local fertility); null: none"
    )
    global_fertility: ScheduledWeight = Field(
        0.0, description="weight of a Gaussian over the summed attention of each position"
    )
    least_variance: Weight = Field(0.0, description="smallest variance of that Gaussian")


@kind_of("score")
class Coverage(_Perceptron):
    """`mlp` that reads past attention, with a loss for attending to a position again."""

    implementation = "pam.models.scores:Coverage"
    reads_history = True
    kind: Literal["coverage"] = "coverage"
    active: ScheduledShare = Field(
        1.0,
        description="factor of the feature and the loss; a schedule can add both late in training",
    )
    weight: ScheduledWeight = Field(1.0, description="weight of the coverage loss, in nats")


@kind_of("score")
class NoScore(Options):
    """All positions have the same score."""

    implementation = "pam.models.scores:NoScore"
    kind: Literal["none"] = "none"


# window: which source positions does a step consider?


@kind_of("window")
class NoWindow(Options):
    """All positions."""

    implementation = "pam.models.windows:NoWindow"
    kind: Literal["none"] = "none"


@kind_of("window")
class Monotonic(Options):
    """Local attention, local-m."""

    implementation = "pam.models.windows:Monotonic"
    has_zeros = True
    kind: Literal["monotonic"] = "monotonic"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


@kind_of("window")
class Predictive(Options):
    """Local attention, local-p."""

    implementation = "pam.models.windows:Predictive"
    has_zeros = True
    kind: Literal["predictive"] = "predictive"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


# distribution: how do scores become probabilities of positions?


@kind_of("distribution")
class Softmax(Options):
    """Softmax of the scores."""

    implementation = "pam.models.distributions:Softmax"
    kind: Literal["softmax"] = "softmax"


@kind_of("distribution")
class Sparsemax(Options):
    """Nearest point of the probability simplex."""

    implementation = "pam.models.distributions:Sparsemax"
    has_zeros = True
    kind: Literal["sparsemax"] = "sparsemax"


@kind_of("distribution")
class Fusedmax(Options):
    """Sparsemax after total variation denoising."""

    implementation = "pam.models.distributions:Fusedmax"
    has_zeros = True
    kind: Literal["fusedmax"] = "fusedmax"
    weight: Weight = Field(0.1, description="weight of the total variation; 0: sparsemax")


@kind_of("distribution")
class Entmax(Options):
    """Alpha-entmax: a softmax with zeros, between softmax and sparsemax."""

    implementation = "pam.models.distributions:Entmax"
    has_zeros = True
    kind: Literal["entmax"] = "entmax"
    alpha: Annotated[float, Field(ge=1.01, le=1.99)] = Field(
        1.5, description="towards 1: softmax; towards 2: sparsemax"
    )
    learned: bool = Field(False, description="train alpha, starting from the given value")


# coupling: how does the distribution depend on the previous alignment?


@kind_of("coupling")
class NoCoupling(Options):
    """No dependence on the previous alignment."""

    implementation = "pam.models.couplings:NoCoupling"
    kind: Literal["none"] = "none"


@kind_of("coupling")
class Proximity(Options):
    """Bias towards positions near the previous one."""

    implementation = "pam.models.couplings:Proximity"
    kind: Literal["proximity"] = "proximity"
    width: Units = Field(3, description="each distance below this has a learned energy")
    first: Literal["free", "before"] = Field(
        "free",
        description="bias in the first step: none, or from a position before the source",
    )


@kind_of("coupling")
class Monotone(Options):
    """Bias towards positions right after the previous one."""

    implementation = "pam.models.couplings:Monotone"
    kind: Literal["monotone"] = "monotone"
    first: Literal["free", "before"] = Field(
        "free",
        description="bias in the first step: none, or from a position before the source",
    )


@kind_of("coupling")
class Chain(Options):
    """A linear chain over the steps: structured attention."""

    implementation = "pam.models.couplings:Chain"
    kind: Literal["chain"] = "chain"
    reach: Units = Field(5, description="each distance up to this has a learned energy")


@kind_of("coupling")
class PointerCoupling(Options):
    """Pointer that output actions move over the source: hard monotonic attention."""

    implementation = "pam.models.couplings:PointerCoupling"
    kind: Literal["pointer"] = "pointer"


# latent: which vectors besides the alignment are latent?


@kind_of("latent")
class NoLatent(Options):
    """No latent vectors."""

    implementation = "pam.models.latents:NoLatent"
    kind: Literal["none"] = "none"


@kind_of("latent")
class Acvi(Options):
    """Contexts drawn from Gaussian mixtures."""

    implementation = "pam.models.latents:Acvi"
    draws = True
    kind: Literal["acvi"] = "acvi"
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    temperature: ScheduledTemperature = Field(0.5, description="temperature of Gumbel-Softmax")
    last: Share = Field(
        0.1,
        description=(
            "final share of the training, in which a context is drawn from one position's Gaussian"
        ),
    )
    variance: Literal["relu", "linear", "bounded"] = Field(
        "relu", description="form of the log variance"
    )
    start: Annotated[float, Field(ge=-20, le=20)] | None = Field(
        None, description="bias of the log variance before training; null: torch's default"
    )
    weight: ScheduledWeight = Field(1.0, description="weight of the divergence")


@kind_of("latent")
class Ved(Options):
    """One Gaussian vector for the sentence."""

    implementation = "pam.models.latents:Ved"
    kind: Literal["ved"] = "ved"
    size: Units = Field(100, description="dimensions of the vector")
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    weight: ScheduledWeight = Field(1.0, description="weight of the divergence")


# marginalization: where is the position summed out?


@kind_of("marginalization")
class Input(Options):
    """At the input, as a mean context: soft attention."""

    implementation = "pam.models.marginalization:Input"
    kind: Literal["input"] = "input"


class _Summed(Options):
    gives_positions = True
    top_k: Units | None = Field(
        None, description="largest number of positions in the sum; null: all"
    )
    mass: Mass | None = Field(
        None,
        description=(
            "sum over a nucleus: the fewest positions that hold this share of the prior; null: all"
        ),
    )


@kind_of("marginalization")
class Output(_Summed):
    """At the output, as a sum of predictions: joint models."""

    implementation = "pam.models.marginalization:Output"
    kind: Literal["output"] = "output"


@kind_of("marginalization")
class Bound(_Summed):
    """At the output, trained by a variational bound."""

    implementation = "pam.models.marginalization:Bound"
    needs_inference = True
    kind: Literal["bound"] = "bound"
    q_top_k: Units | None = Field(
        None, description="largest number of positions with q(a) in the bound; null: all"
    )
    weight: ScheduledWeight = Field(1.0, description="weight of the divergence")


@kind_of("marginalization")
class SoftmaxMixture(Options):
    """At the input, as a mean context that several softmaxes read: a control for `output`."""

    implementation = "pam.models.experts:SoftmaxMixture"
    kind: Literal["mixture"] = "mixture"
    experts: Units = Field(16, description="number of softmaxes")
    rank: Units | None = Field(
        8,
        description="rank of the matrix of each expert's hidden layer; null: a full matrix",
    )


@kind_of("marginalization")
class NoAttention(Options):
    """No attention: the source reaches the output through the decoder's state alone."""

    implementation = "pam.models.marginalization:NoAttention"
    kind: Literal["none"] = "none"


# input_feeding: which alignment is fed to the next state?


@kind_of("input_feeding")
class PriorFeeding(Options):
    """The prior alignment."""

    implementation = "pam.models.input_feeding:PriorFeeding"
    kind: Literal["prior"] = "prior"


@kind_of("input_feeding")
class PosteriorFeeding(Options):
    """The posterior alignment, given the output symbol."""

    implementation = "pam.models.input_feeding:PosteriorFeeding"
    needs_positions = True
    kind: Literal["posterior"] = "posterior"
    mix: Share | None = Field(
        None,
        description=(
            "share of the posterior in its mixture with the prior; null: 1/2 if `top_k` cuts"
            " the sum, else 1"
        ),
    )
    gradient: bool = Field(True, description="let gradients flow through the posterior")
    context: bool = Field(
        True,
        description=(
            "feed the context to the next state; false: only the next step's coupling reads the"
            " posterior"
        ),
    )


@kind_of("input_feeding")
class SampleFeeding(Options):
    """One position drawn from the prior."""

    implementation = "pam.models.input_feeding:SampleFeeding"
    draws = True
    kind: Literal["sample"] = "sample"


@kind_of("input_feeding")
class PointerFeeding(Options):
    """The pointer of hard monotonic attention."""

    implementation = "pam.models.input_feeding:PointerFeeding"
    kind: Literal["pointer"] = "pointer"


@kind_of("input_feeding")
class NoFeeding(Options):
    """No context is fed back."""

    implementation = "pam.models.input_feeding:NoFeeding"
    kind: Literal["none"] = "none"


# inference: which alignments, given the whole target, is a bound trained by?


@kind_of("inference")
class NoInference(Options):
    """No inference: the likelihood itself is trained."""

    implementation = "pam.models.variational:NoInference"
    kind: Literal["none"] = "none"


@kind_of("inference")
class PriorInference(Options):
    """The prior itself: the bound is Jensen's."""

    implementation = "pam.models.variational:PriorInference"
    infers = True
    kind: Literal["prior"] = "prior"


@kind_of("inference")
class BiLSTM(Options):
    """An inference network of two bidirectional LSTMs."""

    implementation = "pam.models.variational:BiLSTM"
    infers = True
    kind: Literal["bilstm"] = "bilstm"
    units: Units | None = Field(
        None, description="units of each direction; null: as many as the encoder"
    )
    layers: Layers | None = Field(
        None, description="bidirectional layers; null: as many as the encoder"
    )
    scale: bool = Field(True, description="divide by the square root of the network's units")


# estimator: how is the expectation in a bound computed?


@kind_of("estimator")
class Exact(Options):
    """Exactly, as a sum over all positions."""

    implementation = "pam.models.variational:Exact"
    kind: Literal["exact"] = "exact"


@kind_of("estimator")
class Reinforce(Options):
    """From one sampled position, with the gradient of REINFORCE."""

    implementation = "pam.models.variational:Reinforce"
    draws = True
    kind: Literal["reinforce"] = "reinforce"
    baseline: Literal["soft", "moving", "none"] = Field(
        "soft", description="baseline of the reward"
    )
    decay: Share = Field(0.9, description="decay of the moving baseline, per step of training")
    expected: ScheduledShare = Field(
        0.0, description="share of symbols that read the expected context in training"
    )
    entropy: ScheduledWeight = Field(0.0, description="weight of the entropy bonus in training")


@kind_of("estimator")
class Gumbel(Options):
    """From a relaxed sample, by Gumbel-Softmax."""

    implementation = "pam.models.variational:Gumbel"
    draws = True
    kind: Literal["gumbel"] = "gumbel"
    temperature: ScheduledTemperature = Field(0.5, description="temperature of Gumbel-Softmax")


# copying: can symbols of the source be written as they are?


@kind_of("copying")
class NoCopying(Options):
    """All symbols are generated from the vocabulary."""

    implementation = "pam.models.copying:NoCopying"
    kind: Literal["none"] = "none"


@kind_of("copying")
class PointerGenerator(Options):
    """Mixture of generating a symbol and copying a source symbol."""

    implementation = "pam.models.copying:PointerGenerator"
    copies = True
    kind: Literal["pointer"] = "pointer"


# architecture: what is the model built of?


SMOOTHED = "share of the objective that is the mean of log p over all symbols"


class LabelSmoothed(Options):
    """A model whose objective may be smoothed, where a symbol comes from one context."""

    # Left out where it is zero, as in models from before there was this key.
    label_smoothing: SmoothedShare = Field(
        0.0, description=SMOOTHED, exclude_if=lambda share: share == 0
    )


@kind_of("architecture")
class Recurrent(LabelSmoothed):
    """Encoder and decoder of LSTMs with attention."""

    implementation = "pam.models.build:recurrent"
    reads_vectors = True
    kind: Literal["recurrent"] = "recurrent"


class MultiHeadOptions(Options):
    """Sizes of the parts of a Transformer."""

    heads: Units = Field(4, description="heads of each attention; the units are divided among them")
    feedforward: Units | None = Field(
        None, description="units of the feed-forward layer; null: four times the embedding's"
    )
    feature_kinds: bool = Field(
        False,
        description="inflection: features have an embedding of their kind, and no position",
    )


@kind_of("architecture")
class TransformerOptions(MultiHeadOptions):
    """A Transformer."""

    implementation = "pam.models.build:transformer"
    has_components: ClassVar[bool] = False
    kind: Literal["transformer"] = "transformer"
    label_smoothing: SmoothedShare = Field(0.0, description=SMOOTHED)


class AlignmentHeadOptions(MultiHeadOptions, LabelSmoothed):
    """Sizes and connections of a Transformer with an alignment head."""

    source_attention: bool = Field(
        True, description="let the decoder's layers attend to the source; false: only the head does"
    )
    # Left out where it is the default, as in models from before there was this key.
    readout: Literal["residual", "log-linear"] = Field(
        "residual",
        description=(
            "logits of state s and position h: `residual`: W_o norm(s + W_x h) + b_o; `log-linear`:"
            " W_o (s + W_x h) + b_o, whose sums over all positions cost little"
        ),
        exclude_if=lambda readout: readout == "residual",
    )


@kind_of("architecture")
class AlignedTransformerOptions(AlignmentHeadOptions):
    """A Transformer with an alignment head that is made of the other components."""

    implementation = "pam.models.build:aligned_transformer"
    kind: Literal["aligned-transformer"] = "aligned-transformer"


class Agreeing(Options):
    """What two models of opposite directions agree on."""

    has_opposite = True
    weight: Weight = Field(
        1.0, description="weight of the trace of the product of both attentions, in nats"
    )
    of: Literal["prior", "posterior"] = Field(
        "prior", description="attention that is to agree: before or after each symbol is known"
    )


@kind_of("architecture")
class AgreementOptions(Agreeing, LabelSmoothed):
    """A recurrent model trained together with a model of the opposite direction."""

    implementation = "pam.models.build:recurrent_agreement"
    kind: Literal["agreement"] = "agreement"


@kind_of("architecture")
class TransformerAgreementOptions(Agreeing, AlignmentHeadOptions):
    """An aligned Transformer trained together with one of the opposite direction."""

    implementation = "pam.models.build:transformer_agreement"
    kind: Literal["aligned-transformer-agreement"] = "aligned-transformer-agreement"


def is_shipped(options: type[Options]) -> bool:
    """Return whether a kind is declared here, not by a plugin."""
    return options.__module__ == __name__


def register(component: str, options: type[Options]) -> None:
    """Add a kind of a component, such as `score`, from a plugin.

    The default of `options.kind` is the kind's name, and `options.implementation` names the class
    that computes it. The module of the options must not import torch.

    Raises a UserError if there is no such component or implementation, or if another class has
    registered the kind. Registering the same class again changes nothing.
    """
    kinds = COMPONENTS.get(component)
    if kinds is None:
        raise unknown("component", component, list(COMPONENTS))

    kind = options.model_fields["kind"].default
    module, _, name = options.implementation.partition(":")
    if not isinstance(kind, str) or not name.isidentifier() or find_spec(module) is None:
        raise UserError(
            f"{options.__name__} of {options.__module__} is not a kind of {component}",
            hint="give `kind` a default, and `implementation` a `package.module:Class` that exists",
        )

    # A plugin that is imported twice makes a new class of the same name.
    registered = kinds.setdefault(kind, options)
    if (registered.__module__, registered.__name__) != (options.__module__, options.__name__):
        raise UserError(f"there is a {component} `{kind}` already", hint="choose another name")
