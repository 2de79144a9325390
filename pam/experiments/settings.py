"""Sections of settings: the network, its training, decoding, and the resources of jobs.

An experiment, its tasks and its models may each set them; `pam.experiments.plan` says which one
wins.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pam.experiments.keys import NAME, key
from pam.experiments.parsing import Strict, refused
from pam.models.options import DEEPEST, LARGEST
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


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


# Keys of a model that hold overrides, each by its own key.
OVERRIDES = ("network", "training", "decoding")
SECTIONS: dict[str, type[Strict]] = {
    "network": Network,
    "training": Training,
    "decoding": Decoding,
}
