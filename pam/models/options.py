"""What a model is made of and which options each part takes, without importing torch.

Each question about a model (`score`, `coupling`, ...) has one dictionary here, from the names that a
YAML file may write to the class of their options. The class of the same name that computes the
answer is in the module of the question, `pam.models.scores.General` for `options.General`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pam.io import Strict

LARGEST, DEEPEST = 65_536, 100
"""Units and layers of the largest network: what is more was written by mistake."""

Units = Annotated[int, Field(ge=1, le=LARGEST)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Temperature = Annotated[float, Field(ge=1e-3, le=1e3)]
Samples = Annotated[int, Field(ge=1, le=1000)]


class Options(Strict):
    """The options of one answer; its `kind` is the name that YAML writes."""

    kind: str
    implementation: ClassVar[str | None] = None
    """`package.module:Class` of a component from elsewhere; None: the one of this package."""


# score: how well a source position fits the decoder's state


class General(Options):
    """Bilinear score."""

    kind: Literal["general"] = "general"
    scale: bool = Field(False, description="divide by the root of the decoder's units")


class Dot(Options):
    """Dot product of decoder and encoder state."""

    kind: Literal["dot"] = "dot"
    scale: bool = Field(False, description="divide by the root of the number of units")


class Mlp(Options):
    """Perceptron with one hidden layer."""

    kind: Literal["mlp"] = "mlp"
    units: Units | None = Field(None, description="of the hidden layer; null: the decoder's")


class Concat(Mlp):
    """Perceptron over both states, one after the other: the same function as `mlp`."""

    kind: Literal["concat"] = "concat"  # type: ignore[assignment]


class Location(Options):
    """Score from the decoder's state alone."""

    kind: Literal["location"] = "location"
    longest: Units = Field(100, description="source positions that have a score")


class Structural(Mlp):
    """`mlp` with features of position, previous alignment and fertility."""

    kind: Literal["structural"] = "structural"  # type: ignore[assignment]
    place: bool = Field(True, description="whether positions and lengths are features")
    markov: Units | None = Field(1, description="half width of the Markov window; null: none")
    fertility: Units | None = Field(1, description="half width of local fertility; null: none")
    global_fertility: Weight = Field(0.0, description="weight of the Gaussian of fertility")
    least_variance: Weight = Field(0.0, description="of that Gaussian")


class NoScore(Options):
    """Every position fits alike."""

    kind: Literal["none"] = "none"


# window: the source positions that a step considers at all


class NoWindow(Options):
    """All positions."""

    kind: Literal["none"] = "none"


class Monotonic(Options):
    """Local attention, local-m."""

    kind: Literal["monotonic"] = "monotonic"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


class Predictive(Options):
    """Local attention, local-p."""

    kind: Literal["predictive"] = "predictive"
    width: Units | None = Field(10, description="positions on each side; null: no bound")


# distribution: scores to probabilities of positions


class Softmax(Options):
    """Softmax."""

    kind: Literal["softmax"] = "softmax"


class Sparsemax(Options):
    """The nearest point of the simplex."""

    kind: Literal["sparsemax"] = "sparsemax"


class Fusedmax(Options):
    """Sparsemax after total variation denoising."""

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
    temperature: Temperature = Field(0.5, description="of Gumbel-Softmax")
    last: Share = Field(0.1, description="share of the training, at its end, with one component")
    weight: Weight = Field(1.0, description="of the divergence")


class Ved(Options):
    """One Gaussian vector for the sentence."""

    kind: Literal["ved"] = "ved"
    size: Units = Field(100, description="its dimensions")
    samples: Samples = Field(1, description="draws over which the objective is averaged")
    weight: Weight = Field(1.0, description="of the divergence")


# marginalization: where the position is summed out


class Input(Options):
    """At the input: soft attention."""

    kind: Literal["input"] = "input"


class Output(Options):
    """At the output: joint attention."""

    kind: Literal["output"] = "output"
    top_k: Units | None = Field(None, description="positions summed over; null: all")


class Bound(Options):
    """At the output, trained by a variational bound."""

    kind: Literal["bound"] = "bound"
    top_k: Units | None = Field(None, description="positions of the likelihood; null: all")
    q_top_k: Units | None = Field(None, description="positions of the bound; null: all")
    weight: Weight = Field(1.0, description="of the divergence")


class NoAttention(Options):
    """The source reaches the output through the decoder's state alone."""

    kind: Literal["none"] = "none"


# input_feeding: the alignment that is fed to the next state


class PriorFeeding(Options):
    """The prior."""

    kind: Literal["prior"] = "prior"


class PosteriorFeeding(Options):
    """The posterior."""

    kind: Literal["posterior"] = "posterior"
    mix: Share | None = Field(
        None, description="share of the posterior; null: 1/2 where the sum is cut, else 1"
    )
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

    kind: Literal["prior"] = "prior"


class BiLSTM(Options):
    """An inference network of two bidirectional LSTMs."""

    kind: Literal["bilstm"] = "bilstm"
    units: Units | None = Field(None, description="of a direction; null: the encoder's")
    layers: Annotated[int, Field(ge=1, le=DEEPEST)] | None = Field(
        None, description="bidirectional layers; null: the encoder's"
    )
    scale: bool = Field(False, description="divide scores by the root of its units")


# estimator: how a bound's expectation is computed


class Exact(Options):
    """Enumerated."""

    kind: Literal["exact"] = "exact"


class Reinforce(Options):
    """From one drawn position, the gradient by REINFORCE."""

    kind: Literal["reinforce"] = "reinforce"
    baseline: Literal["soft", "moving", "none"] = Field("soft", description="of the reward")
    decay: Share = Field(0.9, description="of the moving baseline, per step of training")


class Gumbel(Options):
    """From a relaxed draw."""

    kind: Literal["gumbel"] = "gumbel"
    temperature: Temperature = Field(0.5, description="of Gumbel-Softmax")


# architecture: what the model is built of


class Recurrent(Options):
    """Encoder and decoder of LSTMs with attention."""

    kind: Literal["recurrent"] = "recurrent"


class TransformerOptions(Options):
    """Attention in place of recurrences."""

    kind: Literal["transformer"] = "transformer"
    heads: Units = Field(4, description="of each attention; the units are divided among them")
    feedforward: Units | None = Field(
        None, description="units of the layer between; null: four times the embedding's"
    )


class AgreementOptions(Options):
    """A recurrent model trained with one of the opposite direction."""

    kind: Literal["agreement"] = "agreement"
    weight: Weight = Field(1.0, description="of the trace, in nats")


SCORES = {
    "general": General, "dot": Dot, "concat": Concat, "mlp": Mlp, "location": Location,
    "structural": Structural, "none": NoScore,
}  # fmt: skip
WINDOWS = {"none": NoWindow, "monotonic": Monotonic, "predictive": Predictive}
DISTRIBUTIONS = {"softmax": Softmax, "sparsemax": Sparsemax, "fusedmax": Fusedmax}
COUPLINGS = {
    "none": NoCoupling, "proximity": Proximity, "monotone": Monotone, "chain": Chain,
    "pointer": PointerCoupling,
}  # fmt: skip
LATENTS = {"none": NoLatent, "acvi": Acvi, "ved": Ved}
MARGINALIZATIONS = {"input": Input, "output": Output, "bound": Bound, "none": NoAttention}
INPUT_FEEDINGS = {
    "prior": PriorFeeding, "posterior": PosteriorFeeding, "sample": SampleFeeding,
    "pointer": PointerFeeding, "none": NoFeeding,
}  # fmt: skip
INFERENCES = {"none": NoInference, "prior": PriorInference, "bilstm": BiLSTM}
ESTIMATORS = {"exact": Exact, "reinforce": Reinforce, "gumbel": Gumbel}
ARCHITECTURES = {
    "recurrent": Recurrent, "transformer": TransformerOptions, "agreement": AgreementOptions,
}  # fmt: skip

COMPONENTS: dict[str, dict[str, type[Options]]] = {
    "architecture": {**ARCHITECTURES},
    "score": {**SCORES},
    "window": {**WINDOWS},
    "distribution": {**DISTRIBUTIONS},
    "coupling": {**COUPLINGS},
    "latent": {**LATENTS},
    "marginalization": {**MARGINALIZATIONS},
    "input_feeding": {**INPUT_FEEDINGS},
    "inference": {**INFERENCES},
    "estimator": {**ESTIMATORS},
}
"""Question to its answers, by the names that YAML writes."""
