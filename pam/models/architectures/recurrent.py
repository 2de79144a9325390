"""Encoder and decoder of LSTMs, with one answer to each question of `pam.models`.

The answer `kind` to the question `coupling` is the module `pam.models.couplings.kind`, and so on:
a new answer is a new file, found by its name.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from pam import plugins
from pam.answers import check_options
from pam.config import Choice, ModelConfig, Network, kind_of
from pam.io import UserError
from pam.models.decoder import Recurrence
from pam.models.encoder import Encoder
from pam.models.readout import Readout
from pam.models.seq2seq import Seq2Seq
from pam.models.sizes import Sizes

QUESTIONS = (
    *("score", "window", "distribution", "coupling", "latent"),
    *("marginalization", "input_feeding", "inference", "estimator"),
)
"""The questions of a model's file that components answer."""


def component(question: str, choice: Choice, sizes: Sizes) -> nn.Module:
    """Makes the component that answers `question`.

    Raises:
        UserError: an unknown kind, or an option that the kind does not have.
    """
    kind, options = kind_of(choice)
    made = plugins.load(f"pam.models.{question}s", question, kind).COMPONENT
    check_options(question, kind, options)
    component: nn.Module = made(sizes, **options)
    return component


def build(components: ModelConfig, network: Network, source: int, target: int) -> Seq2Seq:
    """Makes a model.

    Args:
        components: the model's answers.
        network: sizes of encoder and decoder.
        source: number of source symbols.
        target: number of target symbols.

    Raises:
        UserError: a choice that does not exist, or components that do not fit together.
    """
    values = network.encoder * (2 if network.encoder_reads == "both" else 1)
    sizes = Sizes(
        query=network.decoder,
        values=values,
        embedding=network.embedding,
        direction=network.encoder,
        layers=network.encoder_layers,
        rate=network.dropout,
    )
    parts: dict[str, Any] = {
        question: component(question, getattr(components, question), sizes)
        for question in QUESTIONS
    }
    _check_fit(components, parts)
    return Seq2Seq(
        encoder=Encoder(
            source,
            network.embedding,
            network.encoder,
            network.encoder_layers,
            network.dropout,
            network.encoder_reads,
        ),
        recurrence=Recurrence(
            target,
            network.embedding,
            context=values,
            hidden=network.decoder,
            layers=network.decoder_layers,
            final=values,
            rate=network.dropout,
        ),
        readout=Readout(sizes, target),
        feedback=parts.pop("input_feeding"),
        **parts,
    )


def _check_fit(components: ModelConfig, parts: dict[str, Any]) -> None:
    marginal, feedback, inference = parts["marginalization"], parts["input_feeding"], parts["inference"]
    if feedback.needs_positions and not marginal.gives_positions:
        raise UserError(
            f"model {components.label}: the posterior needs p(y | s, h_a) of each position",
            hint="use `marginalization: output` with `input_feeding: posterior`",
        )
    if marginal.needs_inference != inference.infers:
        raise UserError(
            f"model {components.label}: a bound and an inference network need each other",
            hint="use `marginalization: bound` with `inference: bilstm` or `prior`, or neither",
        )
    if parts["estimator"].draws and not marginal.needs_inference:
        raise UserError(
            f"model {components.label}: only a bound has an expectation to estimate",
            hint="use `marginalization: bound`, or leave `estimator` out",
        )
    pointers = {kind_of(components.coupling)[0], kind_of(components.input_feeding)[0]}
    if "pointer" in pointers and (len(pointers) > 1 or components.targets != "actions"):
        raise UserError(
            f"model {components.label}: a pointer is both coupling and feedback, over actions",
            hint="use `coupling: pointer`, `input_feeding: pointer`, `targets: actions` together",
        )
