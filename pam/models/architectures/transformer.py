"""The Transformer: attention in place of recurrences."""

from __future__ import annotations

from typing import Any

from pam.config import ModelChoices, Network
from pam.errors import UserError
from pam.fingerprint import QUESTIONS
from pam.models.sizes import check_size
from pam.models.transformer import Shape, Transformer

ASKS = ()
"""No question about components: what a task's options say of them is not for it."""


def build(
    choices: ModelChoices,
    network: Network,
    source: int,
    target: int,
    heads: int = 4,
    feedforward: int | None = None,
) -> Transformer:
    """Makes a Transformer of `network.embedding` units, with the layers and the dropout of the
    network; its other sizes, and the questions about attention, are of no concern to it.

    Args:
        heads: of each attention; the units are divided among them.
        feedforward: units of the layer between; None: four times the embedding's.

    Raises:
        UserError: sizes that do not fit, or choices that only a recurrence has.
    """
    check_size("architecture option `heads`", heads)
    check_size("architecture option `feedforward`", feedforward, null="four times the embedding's")
    if network.embedding % (2 * heads):
        raise UserError(
            f"model {choices.label}: {network.embedding} units do not divide into {heads} heads of "
            "an even size",
            remedy="let `network.embedding` be a multiple of twice the `heads`",
        )
    if choices.targets == "actions":
        raise UserError(
            f"model {choices.label}: a Transformer has no pointer to move",
            remedy="use `targets: symbols`",
        )
    shape = Shape(
        units=network.embedding,
        heads=heads,
        feedforward=feedforward or 4 * network.embedding,
        encoder_layers=network.encoder_layers,
        decoder_layers=network.decoder_layers,
        dropout=network.dropout,
    )
    _refuse(choices)
    return Transformer(shape, source, target)


def _refuse(choices: ModelChoices) -> None:
    """Choices that would change nothing are an error: they would be thought to."""
    unasked: dict[str, Any] = {
        name: getattr(choices, name)
        for name in QUESTIONS
        if name != "architecture"
        and getattr(choices, name) != ModelChoices.model_fields[name].default
    }
    for name, value in unasked.items():
        raise UserError(
            f"model {choices.label}: a Transformer has no `{name}: {value}`",
            remedy=f"leave out `{name}`, or `architecture: transformer`",
        )
