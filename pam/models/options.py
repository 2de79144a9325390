"""What a model is made of and which options each part takes, without importing torch.

Each component of a model (`score`, `coupling`, ...) has one dictionary here, from the kinds that a YAML file may name
to the class of their options. The class that computes a kind has the same name, but for a suffix `Options`, in the
component's module: `pam.models.scores.General` for `options.General`. A package of one's own adds a kind with
`register`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pam.io import Strict, UserError, unknown
from pam.models.schedules import Schedule, Scheduled

LARGEST, DEEPEST = 65_536, 100  # units and layers of the largest network: what is more was written by mistake

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
    implementation: ClassVar[str | None] = None  # `package.module:Class` of a kind from elsewhere; None: from here
    # Facts by which `pam.models.fitting` tells whether parts fit together.
    has_components: ClassVar[bool] = True  # of an architecture: whether it is made of the other components
    gives_positions: ClassVar[bool] = False  # of a marginalization: whether it computes p(y | s, h_a) of each position
    needs_positions: ClassVar[bool] = False  # of input feeding: whether it needs that
    needs_inference: ClassVar[bool] = False  # of a marginalization: whether it is a bound, which an inference tightens
    infers: ClassVar[bool] = False  # of an inference: whether there is one
    draws: ClassVar[bool] = False  # of an estimator: whether it draws positions
    has_zeros: ClassVar[bool] = False  # of a window or a distribution: whether positions get no probability at all
    copies: ClassVar[bool] = False  # of copying: whether symbols of the source can be written


# score: how well a source position fits the decoder's state


class General(Options):
    """Bilinear score."""

    kind: Literal["general"] = "general"
    scale: bool = Field(True, description="divide by the root of the decoder's units")


class Dot(Options):
    """Dot product of decoder and encoder state."""

    kind: Literal["dot"] = "dot"
    scale: bool = Field(True, description="divide by the root of the number of units")


class _Perceptron(Options):
    units: Units | None = Field(None, description="of the hidden layer; null: the decoder's")


class Mlp(_Perceptron):
    """Perceptron with one hidden layer."""

    kind: Literal["mlp"] = "mlp"


class Concat(_Perceptron):
    """Perceptron over both states, one after the other: the same function as `mlp`."""

    kind: Literal["concat"] = "concat"


class Location(Options):
    """Score from the decoder's state alone."""

    kind: Literal["location"] = "location"
    longest: Units = Field(100, description="source positions that have a score")


class Structural(_Perceptron):
    """`mlp` with features of position, previous alignment and fertility."""

    kind: Literal["structural"] = "structural"
    place: bool = Field(True, description="whether positions and lengths are features")
    markov: Units | None = Field(1, description="half width of the Markov window; null: none")
    fertility: Units | None = Field(1, description="half width of local fertility; null: none")
    global_fertility: ScheduledWeight = Field(0.0, description="weight of the Gaussian of fertility")
    least_variance: Weight = Field(0.0, description="of that Gaussian")


class Coverage(_Perceptron):
    """`mlp` that sees what was attended so far, with a loss where that is attended again."""

    kind: Literal["coverage"] = "coverage"
    active: ScheduledShare = Field(1.0, description="factor of both, so that a schedule can add them late")
    weight: ScheduledWeight = Field(1.0, description="of the coverage loss, in nats")


class NoScore(Options):
    """Every position fits alike."""

    kind: Literal["none"] = "none"


# window: the source positions that a step considers


class NoWindow(Options):
    """All positions."""

    kind: Literal["none"] = "none"


class Monotonic(Options):
    """Local attention, local-m."""

    has_zeros: ClassVar[bool] = True
    kind: Literal["monotonic"] = "monotonic"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


class Predictive(Options):
    """Local attention, local-p."""

    has_zeros: ClassVar[bool] = True
    kind: Literal["predictive"] = "predictive"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


# distribution: scores to probabilities of positions


class Softmax(Options):
    """Softmax."""

    kind: Literal["softmax"] = "softmax"


class Sparsemax(Options):
    """The nearest point of the simplex."""

    has_zeros: ClassVar[bool] = True
    kind: Literal["sparsemax"] = "sparsemax"


class Fusedmax(Options):
    """Sparsemax after total variation denoising."""

    has_zeros: ClassVar[bool] = True
    kind: Literal["fusedmax"] = "fusedmax"
    weight: Weight = Field(0.1, description="of the total variation; 0: sparsemax")


# coupling: how the distribution depends on the previous alignment


class NoCoupling(Options):
    """Not at all."""

    kind: Literal["none"] = "none"


class Proximity(Options):
    """Biased towards positions near the previous one."""

    kind: Literal["proximity"] = "proximity"
    width: Units = Field(3, description="distances below it have an energy of their own")
    first: Literal["free", "before"] = Field("free", description="what the first step follows")


class Monotone(Options):
    """Biased towards positions right after the previous one."""

    kind: Literal["monotone"] = "monotone"
    first: Literal["free", "before"] = Field("free", description="what the first step follows")


class Chain(Options):
    """A linear chain over the steps: structured attention."""

    kind: Literal["chain"] = "chain"
    reach: Units = Field(5, description="distances up to it have an energy of their own")


class PointerCoupling(Options):
    """The alignment is where actions moved it: hard monotone attention."""

    kind: Literal["pointer"] = "pointer"


# latent: latent vectors besides the alignment


class NoLatent(Options):
    """None."""

    kind: Literal["none"] = "none"


class Acvi(Options):
    """Contexts as Gaussian mixtures."""

    kind: Literal["acvi"] = "acvi"
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    temperature: ScheduledTemperature = Field(0.5, description="of Gumbel-Softmax")
    last: Share = Field(0.1, description="share of the training, at its end, with one component")
    variance: Literal["relu", "linear", "bounded"] = Field("relu", description="form of the log variance")
    start: Annotated[float, Field(ge=-20, le=20)] | None = Field(
        None, description="bias of the log variance before training; null: torch's default"
    )
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


class Ved(Options):
    """One Gaussian vector for the sentence."""

    kind: Literal["ved"] = "ved"
    size: Units = Field(100, description="its dimensions")
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


# marginalization: where the position is summed out


class Input(Options):
    """At the input: soft attention."""

    kind: Literal["input"] = "input"


class _Summed(Options):
    gives_positions: ClassVar[bool] = True
    top_k: Units | None = Field(None, description="positions summed over at most; null: all")
    mass: Mass | None = Field(None, description="prior mass of the fewest positions summed over; null: all")


class Output(_Summed):
    """At the output: joint attention."""

    kind: Literal["output"] = "output"


class Bound(_Summed):
    """At the output, trained by a variational bound."""

    needs_inference: ClassVar[bool] = True
    kind: Literal["bound"] = "bound"
    q_top_k: Units | None = Field(None, description="positions of the bound; null: all")
    weight: ScheduledWeight = Field(1.0, description="of the divergence")


class NoAttention(Options):
    """The source reaches the output through the decoder's state alone."""

    kind: Literal["none"] = "none"


# input_feeding: the alignment that is fed to the next state


class PriorFeeding(Options):
    """The prior."""

    kind: Literal["prior"] = "prior"


class PosteriorFeeding(Options):
    """The posterior."""

    needs_positions: ClassVar[bool] = True
    kind: Literal["posterior"] = "posterior"
    mix: Share | None = Field(None, description="share of the posterior; null: 1/2 where `top_k` cuts the sum, else 1")
    gradient: bool = Field(True, description="whether gradients flow through it")


class SampleFeeding(Options):
    """One position drawn from the prior."""

    kind: Literal["sample"] = "sample"


class PointerFeeding(Options):
    """The pointer of hard monotone attention."""

    kind: Literal["pointer"] = "pointer"


class NoFeeding(Options):
    """No context is fed back."""

    kind: Literal["none"] = "none"


# inference: alignments given the whole target, for a bound


class NoInference(Options):
    """None: the likelihood itself is trained."""

    kind: Literal["none"] = "none"


class PriorInference(Options):
    """The prior, which makes the bound Jensen's."""

    infers: ClassVar[bool] = True
    kind: Literal["prior"] = "prior"


class BiLSTM(Options):
    """An inference network of two bidirectional LSTMs."""

    infers: ClassVar[bool] = True
    kind: Literal["bilstm"] = "bilstm"
    units: Units | None = Field(None, description="of a direction; null: the encoder's")
    layers: Layers | None = Field(None, description="bidirectional layers; null: the encoder's")
    scale: bool = Field(True, description="divide scores by the root of its units")


# estimator: how a bound's expectation is computed


class Exact(Options):
    """Enumerated."""

    kind: Literal["exact"] = "exact"


class Reinforce(Options):
    """From one drawn position, the gradient by REINFORCE."""

    draws: ClassVar[bool] = True
    kind: Literal["reinforce"] = "reinforce"
    baseline: Literal["soft", "moving", "none"] = Field("soft", description="of the reward")
    decay: Share = Field(0.9, description="of the moving baseline, per step of training")
    expected: ScheduledShare = Field(0.0, description="share of symbols that read the expected context in training")
    entropy: ScheduledWeight = Field(0.0, description="weight of the entropy bonus in training")


class Gumbel(Options):
    """From a relaxed draw."""

    draws: ClassVar[bool] = True
    kind: Literal["gumbel"] = "gumbel"
    temperature: ScheduledTemperature = Field(0.5, description="of Gumbel-Softmax")


# copying: whether symbols of the source can be written as they are


class NoCopying(Options):
    """All symbols are generated from the vocabulary."""

    kind: Literal["none"] = "none"


class PointerGenerator(Options):
    """A mixture of generating a symbol and copying one of the source."""

    copies: ClassVar[bool] = True
    kind: Literal["pointer"] = "pointer"


# architecture: what the model is built of


class Recurrent(Options):
    """Encoder and decoder of LSTMs with attention."""

    kind: Literal["recurrent"] = "recurrent"


class TransformerOptions(Options):
    """Attention in place of recurrences."""

    has_components: ClassVar[bool] = False
    kind: Literal["transformer"] = "transformer"
    heads: Units = Field(4, description="of each attention; the units are divided among them")
    feedforward: Units | None = Field(None, description="units of the layer between; null: four times the embedding's")


class AgreementOptions(Options):
    """A recurrent model trained with one of the opposite direction."""

    kind: Literal["agreement"] = "agreement"
    weight: Weight = Field(1.0, description="of the trace, in nats")


Kinds = dict[str, type[Options]]

SCORES: Kinds = {
    "general": General, "dot": Dot, "concat": Concat, "mlp": Mlp, "location": Location, "structural": Structural,
    "coverage": Coverage, "none": NoScore,
}  # fmt: skip
WINDOWS: Kinds = {"none": NoWindow, "monotonic": Monotonic, "predictive": Predictive}
DISTRIBUTIONS: Kinds = {"softmax": Softmax, "sparsemax": Sparsemax, "fusedmax": Fusedmax}
COUPLINGS: Kinds = {
    "none": NoCoupling, "proximity": Proximity, "monotone": Monotone, "chain": Chain, "pointer": PointerCoupling,
}  # fmt: skip
LATENTS: Kinds = {"none": NoLatent, "acvi": Acvi, "ved": Ved}
MARGINALIZATIONS: Kinds = {"input": Input, "output": Output, "bound": Bound, "none": NoAttention}
INPUT_FEEDINGS: Kinds = {
    "prior": PriorFeeding, "posterior": PosteriorFeeding, "sample": SampleFeeding,
    "pointer": PointerFeeding, "none": NoFeeding,
}  # fmt: skip
INFERENCES: Kinds = {"none": NoInference, "prior": PriorInference, "bilstm": BiLSTM}
ESTIMATORS: Kinds = {"exact": Exact, "reinforce": Reinforce, "gumbel": Gumbel}
COPYINGS: Kinds = {"none": NoCopying, "pointer": PointerGenerator}
ARCHITECTURES: Kinds = {"recurrent": Recurrent, "transformer": TransformerOptions, "agreement": AgreementOptions}

COMPONENTS: dict[str, Kinds] = {
    "architecture": ARCHITECTURES, "score": SCORES, "window": WINDOWS, "distribution": DISTRIBUTIONS,
    "coupling": COUPLINGS, "latent": LATENTS, "marginalization": MARGINALIZATIONS, "input_feeding": INPUT_FEEDINGS,
    "inference": INFERENCES, "estimator": ESTIMATORS, "copying": COPYINGS,
}  # fmt: skip
"""Component to its kinds, by the names that YAML writes."""

MODULES = {
    "architecture": "pam.models.build", "score": "pam.models.scores", "window": "pam.models.windows",
    "distribution": "pam.models.distributions", "coupling": "pam.models.couplings", "latent": "pam.models.latents",
    "marginalization": "pam.models.marginalization", "input_feeding": "pam.models.input_feeding",
    "inference": "pam.models.variational", "estimator": "pam.models.variational", "copying": "pam.models.copying",
}  # fmt: skip
"""Component to the module with the classes that compute it."""


def implementation_of(component: str, options: Options) -> str:
    """Where what computes a kind is, as `package.module:Class`; of an architecture, the function that builds it, which
    has the kind's name."""
    name = options.kind if component == "architecture" else type(options).__name__.removesuffix("Options")
    return options.implementation or f"{MODULES[component]}:{name}"


def register(component: str, options: type[Options]) -> None:
    """Adds a kind of a component, such as `score`, from a package of one's own.

    The default of `options.kind` is the kind's name, and `options.implementation` names the class that computes it;
    neither may import torch. A UserError says: no such component or implementation, or a kind that there is already.
    """
    kinds = COMPONENTS.get(component)
    if kinds is None:
        raise unknown("component", component, list(COMPONENTS))
    kind = options.model_fields["kind"].default
    module, _, name = (options.implementation or "").partition(":")
    if not isinstance(kind, str) or not name.isidentifier() or find_spec(module) is None:
        raise UserError(
            f"{options.__name__} of {options.__module__} is no kind of {component}",
            hint="give `kind` a default, and `implementation` a `package.module:Class` that exists",
        )
    known = kinds.setdefault(kind, options)
    if (known.__module__, known.__name__) != (options.__module__, options.__name__):
        raise UserError(f"there is a {component} `{kind}` already", hint="choose another name")
