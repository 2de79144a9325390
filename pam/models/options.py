"""What a model is made of and which options each part takes, without importing torch.

A kind of a component is declared here, and nowhere else: by its class of options, which names the
class that computes it. Whatever asks for kinds reads `COMPONENTS`: configuration and schemas,
the builder of models, and the fingerprints by which a run knows its code. A package of one's
own adds a kind with `register`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from pam.io import Strict, UserError, unknown
from pam.models.schedules import Schedule, Scheduled

# units and layers of the largest network: what is more was written by mistake
LARGEST, DEEPEST = (65_536, 100)

Units = Annotated[int, Field(ge=1, le=LARGEST)]
Layers = Annotated[int, Field(ge=1, le=DEEPEST)]
Share = Annotated[float, Field(ge=0, le=1)]
Mass = Annotated[float, Field(gt=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
ScheduledShare = Annotated[float | Schedule, Scheduled(0, 1)]
ScheduledWeight = Annotated[float | Schedule, Scheduled(0, 1e6)]
ScheduledTemperature = Annotated[float | Schedule, Scheduled(1e-3, 1e3)]
Samples = Annotated[int, Field(ge=1, le=1000)]


class Options(Strict):
    """The options of one kind of a component; `kind` is the name that YAML writes."""

    kind: str
    implementation: ClassVar[str] = ""
    """`package.module:Class` of what computes the kind; of an architecture, the function that
    builds it.
    """

    # Facts by which `pam.models.fitting` tells whether parts fit together. A class that computes a
    # kind and has an attribute of the same name says the same of itself.
    has_components: ClassVar[bool] = (
        True  # of an architecture: whether it is made of the other components
    )
    gives_positions: ClassVar[bool] = (
        False  # of a marginalization: whether it computes p(y | s, h_a) of each position
    )
    needs_positions: ClassVar[bool] = False  # of input feeding: whether it needs that
    needs_inference: ClassVar[bool] = (
        False  # of a marginalization: whether it is a bound, which an inference tightens
    )
    infers: ClassVar[bool] = False  # of an inference: whether there is one
    draws: ClassVar[bool] = (
        False  # of a latent, input feeding, an estimator: whether a step draws at random
    )
    has_zeros: ClassVar[bool] = (
        False  # of a window or a distribution: whether positions get no probability at all
    )
    copies: ClassVar[bool] = False  # of copying: whether symbols of the source can be written
    reads_history: ClassVar[bool] = (
        False  # of a score: whether it depends on where earlier steps looked
    )
    reads_vectors: ClassVar[bool] = False  # of an architecture: whether sources may be vectors


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
"""Component to its kinds, by the names that YAML writes. The classes below enter themselves."""

PARTS = tuple(component for component in COMPONENTS if component != "architecture")
"""The components that an architecture is made of, in the order in which they are built."""


def kind_of(component: str) -> Callable[[type[AnyOptions]], type[AnyOptions]]:
    """Declare a class of options as a kind of this component; the default of its `kind` is the
    kind's name.
    """

    def declare(options: type[AnyOptions]) -> type[AnyOptions]:
        COMPONENTS[component][options.model_fields["kind"].default] = options
        return options

    return declare


# score: how well a source position fits the decoder's state


@kind_of("score")
class General(Options):
    """Bilinear score."""

    implementation = "pam.models.scores:General"
    kind: Literal["general"] = "general"
    scale: bool = Field(True, description="divide by the root of the decoder's units")


@kind_of("score")
class Dot(Options):
    """Dot product of decoder and encoder state."""

    implementation = "pam.models.scores:Dot"
    kind: Literal["dot"] = "dot"
    scale: bool = Field(True, description="divide by the root of the number of units")


class _Perceptron(Options):
    units: Units | None = Field(None, description="of the hidden layer; null: the decoder's")


@kind_of("score")
class Concat(_Perceptron):
    """Perceptron over both states, one after the other: the same function as `mlp`."""

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
    longest: Units = Field(100, description="source positions that have a score")


@kind_of("score")
class Structural(_Perceptron):
    """`mlp` with features of position, previous alignment and fertility."""

    implementation = "pam.models.scores:Structural"
    reads_history = True
    kind: Literal["structural"] = "structural"
    place: bool = Field(True, description="whether positions and lengths are features")
    markov: Units | None = Field(1, description="half width of the Markov window; null: none")
    fertility: Units | None = Field(1, description="half width of local fertility; null: none")
    global_fertility: ScheduledWeight = Field(
        0.0, description="weight of the Gaussian of fertility"
    )
    least_variance: Weight = Field(0.0, description="of that Gaussian")


@kind_of("score")
class Coverage(_Perceptron):
    """`mlp` that sees what was attended so far, with a loss where that is attended again."""

    implementation = "pam.models.scores:Coverage"
    reads_history = True
    kind: Literal["coverage"] = "coverage"
    active: ScheduledShare = Field(
        1.0, description="factor of both, so that a schedule can add them late"
    )
    weight: ScheduledWeight = Field(1.0, description="of the coverage loss, in nats")


@kind_of("score")
class NoScore(Options):
    """Every position fits alike."""

    implementation = "pam.models.scores:NoScore"
    kind: Literal["none"] = "none"


# window: the source positions that a step considers


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


# distribution: scores to probabilities of positions


@kind_of("distribution")
class Softmax(Options):
    """Softmax."""

    implementation = "pam.models.distributions:Softmax"
    kind: Literal["softmax"] = "softmax"


@kind_of("distribution")
class Sparsemax(Options):
    """The nearest point of the simplex."""

    implementation = "pam.models.distributions:Sparsemax"
    has_zeros = True
    kind: Literal["sparsemax"] = "sparsemax"


@kind_of("distribution")
class Fusedmax(Options):
    """Sparsemax after total variation denoising."""

    implementation = "pam.models.distributions:Fusedmax"
    has_zeros = True
    kind: Literal["fusedmax"] = "fusedmax"
    weight: Weight = Field(0.1, description="of the total variation; 0: sparsemax")


@kind_of("distribution")
class Entmax(Options):
    """Alpha-entmax: a softmax with zeros, between softmax and sparsemax."""

    implementation = "pam.models.distributions:Entmax"
    has_zeros = True
    kind: Literal["entmax"] = "entmax"
    alpha: Annotated[float, Field(ge=1.01, le=1.99)] = Field(
        1.5, description="nearer to 1: softmax; to 2: sparsemax"
    )
    learned: bool = Field(False, description="whether training changes alpha, from there on")


# coupling: how the distribution depends on the previous alignment


@kind_of("coupling")
class NoCoupling(Options):
    """Not at all."""

    implementation = "pam.models.couplings:NoCoupling"
    kind: Literal["none"] = "none"


@kind_of("coupling")
class Proximity(Options):
    """Biased towards positions near the previous one."""

    implementation = "pam.models.couplings:Proximity"
    kind: Literal["proximity"] = "proximity"
    width: Units = Field(3, description="distances below it have an energy of their own")
    first: Literal["free", "before"] = Field("free", description="what the first step follows")


@kind_of("coupling")
class Monotone(Options):
    """Biased towards positions right after the previous one."""

    implementation = "pam.models.couplings:Monotone"
    kind: Literal["monotone"] = "monotone"
    first: Literal["free", "before"] = Field("free", description="what the first step follows")


@kind_of("coupling")
class Chain(Options):
    """A linear chain over the steps: structured attention."""

    implementation = "pam.models.couplings:Chain"
    kind: Literal["chain"] = "chain"
    reach: Units = Field(5, description="distances up to it have an energy of their own")


@kind_of("coupling")
class PointerCoupling(Options):
    """The alignment is where actions moved it: hard monotone attention."""

    implementation = "pam.models.couplings:PointerCoupling"
    kind: Literal["pointer"] = "pointer"


# latent: latent vectors besides the alignment


@kind_of("latent")
class NoLatent(Options):
    """None."""

    implementation = "pam.models.latents:NoLatent"
    kind: Literal["none"] = "none"


@kind_of("latent")
class Acvi(Options):
    """Contexts as Gaussian mixtures."""

    implementation = "pam.models.latents:Acvi"
    draws = True
    kind: Literal["acvi"] = "acvi"
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    temperature: ScheduledTemperature = Field(0.5, description="of Gumbel-Softmax")
    last: Share = Field(0.1, description="share of the training, at its end, with one component")
    variance: Literal["relu", "linear", "bounded"] = Field(
        "relu", description="form of the log variance"
    )
    start: Annotated[float, Field(ge=-20, le=20)] | None = Field(
        None, description="bias of the log variance before training; null: torch's default"
    )
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


@kind_of("latent")
class Ved(Options):
    """One Gaussian vector for the sentence."""

    implementation = "pam.models.latents:Ved"
    kind: Literal["ved"] = "ved"
    size: Units = Field(100, description="its dimensions")
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


# marginalization: where the position is summed out


@kind_of("marginalization")
class Input(Options):
    """At the input: soft attention."""

    implementation = "pam.models.marginalization:Input"
    kind: Literal["input"] = "input"


class _Summed(Options):
    gives_positions = True
    top_k: Units | None = Field(None, description="positions summed over at most; null: all")
    mass: Mass | None = Field(
        None, description="prior mass of the fewest positions summed over; null: all"
    )


@kind_of("marginalization")
class Output(_Summed):
    """At the output: joint attention."""

    implementation = "pam.models.marginalization:Output"
    kind: Literal["output"] = "output"


@kind_of("marginalization")
class Bound(_Summed):
    """At the output, trained by a variational bound."""

    implementation = "pam.models.marginalization:Bound"
    needs_inference = True
    kind: Literal["bound"] = "bound"
    q_top_k: Units | None = Field(None, description="positions of the bound; null: all")
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


@kind_of("marginalization")
class NoAttention(Options):
    """The source reaches the output through the decoder's state alone."""

    implementation = "pam.models.marginalization:NoAttention"
    kind: Literal["none"] = "none"


# input_feeding: the alignment that is fed to the next state


@kind_of("input_feeding")
class PriorFeeding(Options):
    """The prior."""

    implementation = "pam.models.input_feeding:PriorFeeding"
    kind: Literal["prior"] = "prior"


@kind_of("input_feeding")
class PosteriorFeeding(Options):
    """The posterior."""

    implementation = "pam.models.input_feeding:PosteriorFeeding"
    needs_positions = True
    kind: Literal["posterior"] = "posterior"
    mix: Share | None = Field(
        None, description="share of the posterior; null: 1/2 where `top_k` cuts the sum, else 1"
    )
    gradient: bool = Field(True, description="whether gradients flow through it")
    context: bool = Field(
        True, description="whether its context is fed; else the next coupling alone sees it"
    )


@kind_of("input_feeding")
class SampleFeeding(Options):
    """One position drawn from the prior."""

    implementation = "pam.models.input_feeding:SampleFeeding"
    draws = True
    kind: Literal["sample"] = "sample"


@kind_of("input_feeding")
class PointerFeeding(Options):
    """The pointer of hard monotone attention."""

    implementation = "pam.models.input_feeding:PointerFeeding"
    kind: Literal["pointer"] = "pointer"


@kind_of("input_feeding")
class NoFeeding(Options):
    """No context is fed back."""

    implementation = "pam.models.input_feeding:NoFeeding"
    kind: Literal["none"] = "none"


# inference: alignments given the whole target, for a bound


@kind_of("inference")
class NoInference(Options):
    """None: the likelihood itself is trained."""

    implementation = "pam.models.variational:NoInference"
    kind: Literal["none"] = "none"


@kind_of("inference")
class PriorInference(Options):
    """The prior, which makes the bound Jensen's."""

    implementation = "pam.models.variational:PriorInference"
    infers = True
    kind: Literal["prior"] = "prior"


@kind_of("inference")
class BiLSTM(Options):
    """An inference network of two bidirectional LSTMs."""

    implementation = "pam.models.variational:BiLSTM"
    infers = True
    kind: Literal["bilstm"] = "bilstm"
    units: Units | None = Field(None, description="of a direction; null: the encoder's")
    layers: Layers | None = Field(None, description="bidirectional layers; null: the encoder's")
    scale: bool = Field(True, description="divide scores by the root of its units")


# estimator: how a bound's expectation is computed


@kind_of("estimator")
class Exact(Options):
    """Enumerated."""

    implementation = "pam.models.variational:Exact"
    kind: Literal["exact"] = "exact"


@kind_of("estimator")
class Reinforce(Options):
    """From one drawn position, the gradient by REINFORCE."""

    implementation = "pam.models.variational:Reinforce"
    draws = True
    kind: Literal["reinforce"] = "reinforce"
    baseline: Literal["soft", "moving", "none"] = Field("soft", description="of the reward")
    decay: Share = Field(0.9, description="of the moving baseline, per step of training")
    expected: ScheduledShare = Field(
        0.0, description="share of symbols that read the expected context in training"
    )
    entropy: ScheduledWeight = Field(0.0, description="weight of the entropy bonus in training")


@kind_of("estimator")
class Gumbel(Options):
    """From a relaxed draw."""

    implementation = "pam.models.variational:Gumbel"
    draws = True
    kind: Literal["gumbel"] = "gumbel"
    temperature: ScheduledTemperature = Field(0.5, description="of Gumbel-Softmax")


# copying: whether symbols of the source can be written as they are


@kind_of("copying")
class NoCopying(Options):
    """All symbols are generated from the vocabulary."""

    implementation = "pam.models.copying:NoCopying"
    kind: Literal["none"] = "none"


@kind_of("copying")
class PointerGenerator(Options):
    """A mixture of generating a symbol and copying one of the source."""

    implementation = "pam.models.copying:PointerGenerator"
    copies = True
    kind: Literal["pointer"] = "pointer"


# architecture: what the model is built of


@kind_of("architecture")
class Recurrent(Options):
    """Encoder and decoder of LSTMs with attention."""

    implementation = "pam.models.build:recurrent"
    reads_vectors = True
    kind: Literal["recurrent"] = "recurrent"


class MultiHeadOptions(Options):
    """Sizes of the parts of a Transformer."""

    heads: Units = Field(4, description="of each attention; the units are divided among them")
    feedforward: Units | None = Field(
        None, description="units of the layer between; null: four times the embedding's"
    )


@kind_of("architecture")
class TransformerOptions(MultiHeadOptions):
    """Attention in place of recurrences."""

    implementation = "pam.models.build:transformer"
    has_components: ClassVar[bool] = False
    kind: Literal["transformer"] = "transformer"


@kind_of("architecture")
class AlignedTransformerOptions(MultiHeadOptions):
    """A Transformer with an alignment head that is made of the other components."""

    implementation = "pam.models.build:aligned_transformer"
    kind: Literal["aligned-transformer"] = "aligned-transformer"


@kind_of("architecture")
class AgreementOptions(Options):
    """A recurrent model trained with one of the opposite direction."""

    implementation = "pam.models.build:agreement"
    kind: Literal["agreement"] = "agreement"
    weight: Weight = Field(1.0, description="of the trace, in nats")


def is_shipped(options: type[Options]) -> bool:
    """Return whether a kind is declared here, not by a package of one's own."""
    return options.__module__ == __name__


def register(component: str, options: type[Options]) -> None:
    """Adds a kind of a component, such as `score`, from a package of one's own.

    The default of `options.kind` is the kind's name, and `options.implementation` names the class
    that computes it; neither may import torch. A UserError says: no such component or
    implementation, or a kind that there is already.
    """
    kinds = COMPONENTS.get(component)
    if kinds is None:
        raise unknown("component", component, list(COMPONENTS))
    kind = options.model_fields["kind"].default
    module, _, name = options.implementation.partition(":")
    if not isinstance(kind, str) or not name.isidentifier() or find_spec(module) is None:
        raise UserError(
            f"{options.__name__} of {options.__module__} is no kind of {component}",
            hint="give `kind` a default, and `implementation` a `package.module:Class` that exists",
        )
    known = kinds.setdefault(kind, options)
    if (known.__module__, known.__name__) != (options.__module__, options.__name__):
        raise UserError(f"there is a {component} `{kind}` already", hint="choose another name")
