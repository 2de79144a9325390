"""From a configuration to a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models import options
from pam.models.agreement import Agreement, RecurrentAgreement, TransformerAgreement
from pam.models.aligned_transformer import AlignedDecoder, AlignedEncoder, AlignedTransformer
from pam.models.attention_model import AttentionModel
from pam.models.head import AttentionHead
from pam.models.interfaces import Sizes
from pam.models.lstm import Decoder, Encoder
from pam.models.model import Model
from pam.models.readout import LogLinearReadout, Readout, ResidualReadout
from pam.models.seq2seq import Seq2Seq
from pam.models.transformer import Shape, Transformer

A = TypeVar("A", bound=Agreement)

TRANSFORMER_READOUTS = {"residual": ResidualReadout, "log-linear": LogLinearReadout}


def build(
    components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0
) -> Model:
    """Make a model with fresh weights.

    That the components fit together is checked when an experiment is read (`pam.models.fitting`).

    Args:
        components: the kinds of components, with their options.
        network: the sizes of the network.
        source: number of source symbols.
        target: number of target symbols.
        vectors: units of each vector where sources are vectors; 0: sources are symbols.
    """
    make = implementation(components.architecture)
    if vectors:
        model: Model = make(components, network, source, target, vectors=vectors)
    else:
        # Architectures for symbols alone have no such parameter.
        model = make(components, network, source, target)

    # Weight matrices and embeddings; biases keep torch's initialization.
    if network.initial_range is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, -network.initial_range, network.initial_range)
    return model


def implementation(chosen: options.Options) -> Callable[..., Any]:
    """Import the class or function that makes a kind, from this package or from a plugin."""
    module, _, name = chosen.implementation.partition(":")
    make: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return make


def recurrent(
    components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0
) -> Seq2Seq:
    """Make an encoder and a decoder of LSTMs with attention; arguments as in `build`."""
    values = network.encoder
    if network.encoder_reads == "both":
        values = 2 * network.encoder

    sizes = Sizes(
        query=network.decoder,
        values=values,
        embedding=network.embedding,
        direction=network.encoder,
        layers=network.encoder_layers,
        rate=network.dropout,
        source=source,
        target=target,
    )

    parts = parts_of(components, sizes)
    encoder = Encoder(
        vocabulary=source,
        embedding=network.embedding,
        hidden=network.encoder,
        layers=network.encoder_layers,
        rate=network.dropout,
        reads=network.encoder_reads,
        vectors=vectors,
    )

    decoder = Decoder(
        vocabulary=target,
        embedding=network.embedding,
        context=values,
        hidden=network.decoder,
        layers=network.decoder_layers,
        final=0 if network.decoder_start == "zeros" else values,
        rate=network.dropout,
    )

    head = AttentionHead(readout=Readout(sizes, target), **parts)
    return Seq2Seq(encoder, decoder, head, label_smoothing_of(components))


def label_smoothing_of(components: ModelConfig) -> float:
    """Return the share of label smoothing in the objective; plugins need not have the option."""
    chosen = components.architecture
    if not isinstance(chosen, options.LabelSmoothed):
        return 0.0
    return chosen.label_smoothing


def parts_of(components: ModelConfig, sizes: Sizes) -> dict[str, Any]:
    """Make every component, in the order of `options.PARTS`: that of the draws of their weights."""
    parts: dict[str, Any] = {}
    for component in options.PARTS:
        chosen = getattr(components, component)
        parts[component] = implementation(chosen)(chosen, sizes)
    return parts


def transformer(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Make a Transformer of `network.embedding` units; arguments as in `build`."""
    chosen = components.architecture
    assert isinstance(chosen, options.TransformerOptions)

    return Transformer(
        shape=shape_of(components, network),
        source=source,
        target=target,
        feature_kinds=chosen.feature_kinds,
        label_smoothing=chosen.label_smoothing,
    )


def shape_of(components: ModelConfig, network: Network) -> Shape:
    """Return the sizes of a Transformer of `network.embedding` units."""
    chosen = components.architecture
    assert isinstance(chosen, options.MultiHeadOptions)

    return Shape(
        units=network.embedding,
        heads=chosen.heads,
        feedforward=chosen.feedforward or 4 * network.embedding,
        encoder_layers=network.encoder_layers,
        decoder_layers=network.decoder_layers,
        dropout=network.dropout,
    )


def aligned_transformer(
    components: ModelConfig, network: Network, source: int, target: int
) -> AlignedTransformer:
    """Make a Transformer of `network.embedding` units with an alignment head of components.

    Arguments are as in `build`.
    """
    shape = shape_of(components, network)
    sizes = Sizes(
        query=shape.units,
        values=shape.units,
        embedding=shape.units,
        direction=shape.units,
        layers=shape.encoder_layers,
        rate=shape.dropout,
        source=source,
        target=target,
    )
    parts = parts_of(components, sizes)
    chosen = components.architecture
    assert isinstance(chosen, options.AlignmentHeadOptions)

    decoder = AlignedDecoder(
        shape=shape,
        vocabulary=target,
        feeds=parts["input_feeding"].feeds,
        attends=chosen.source_attention,
    )
    encoder = AlignedEncoder(shape, source, chosen.feature_kinds)
    readout = TRANSFORMER_READOUTS[chosen.readout](sizes, target)
    head = AttentionHead(readout=readout, **parts)
    return AlignedTransformer(encoder, decoder, head, label_smoothing_of(components))


def recurrent_agreement(
    components: ModelConfig, network: Network, source: int, target: int
) -> RecurrentAgreement:
    """Make two recurrent models of opposite directions; arguments as in `build`."""
    return _both_directions(RecurrentAgreement, recurrent, components, network, source, target)


def transformer_agreement(
    components: ModelConfig, network: Network, source: int, target: int
) -> TransformerAgreement:
    """Make two Transformers of opposite directions, with alignment heads."""
    return _both_directions(
        TransformerAgreement, aligned_transformer, components, network, source, target
    )


def _both_directions(
    kind: type[A],
    make: Callable[[ModelConfig, Network, int, int], AttentionModel],
    components: ModelConfig,
    network: Network,
    source: int,
    target: int,
) -> A:
    """Make a model of each direction by `make`, and let them agree; arguments as in `build`."""
    chosen = components.architecture
    assert isinstance(chosen, options.Agreeing)

    ahead = make(components, network, source, target)
    back = make(components, network, target, source)
    return kind(ahead, back, chosen.weight, chosen.of == "posterior")


def parameters_of(model: nn.Module) -> int:
    """Return the number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
