"""The Transformer: attention in place of recurrences."""

from __future__ import annotations

from typing import Any

from pam.config import ModelConfig, Network
from pam.fingerprint import QUESTIONS
from pam.io import UserError
from pam.models.sizes import check_size
from pam.models.transformer import Shape, Transformer

ASKS = ()
"""No question about components: what a task's options say of them is not for it."""


def build(
    components: ModelConfig,
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
        UserError: sizes that do not fit, or components that only a recurrence has.
    """
    check_size("architecture option `heads`", heads)
    check_size("architecture option `feedforward`", feedforward, null="four times the embedding's")
    if network.embedding % (2 * heads):
        raise UserError(
            f"model {components.label}: {network.embedding} units do not divide into {heads} heads of "
            "an even size",
            hint="let `network.embedding` be a multiple of twice the `heads`",
        )
    if components.targets == "actions":
        raise UserError(
            f"model {components.label}: a Transformer has no pointer to move",
            hint="use `targets: symbols`",
        )
    shape = Shape(
        units=network.embedding,
        heads=heads,
        feedforward=feedforward or 4 * network.embedding,
        encoder_layers=network.encoder_layers,
        decoder_layers=network.decoder_layers,
        dropout=network.dropout,
    )
    _refuse(components)
    return Transformer(shape, source, target)


def _refuse(components: ModelConfig) -> None:
    """Choices that would change nothing are an error: they would be thought to."""
    unasked: dict[str, Any] = {
        name: getattr(components, name)
        for name in QUESTIONS
        if name != "architecture"
        and getattr(components, name) != ModelConfig.model_fields[name].default
    }
    for name, value in unasked.items():
        raise UserError(
            f"model {components.label}: a Transformer has no `{name}: {value}`",
            hint=f"leave out `{name}`, or `architecture: transformer`",
        )
