"""From a configuration to a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from pam.config import ModelConfig, Network
from pam.models import options
from pam.models.agreement import Agreement
from pam.models.aligned_transformer import AlignedDecoder, AlignedEncoder, AlignedTransformer
from pam.models.interfaces import Sizes
from pam.models.lstm import Decoder, Encoder
from pam.models.model import Model
from pam.models.readout import Readout
from pam.models.seq2seq import Seq2Seq
from pam.models.transformer import Shape, Transformer


def build(
    components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0
) -> Model:
    """Makes a model with fresh weights, for so many source and target symbols, or for sources of
    `vectors` of so many units; that its components fit together is checked when an experiment is
    read
    (`pam.models.fitting`).
    """
    architecture = implementation(components.architecture)
    # What reads symbols alone need not know of vectors.
    given = {"vectors": vectors} if vectors else {}
    model: Model = architecture(components, network, source, target, **given)
    if network.initial_range is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, -network.initial_range, network.initial_range)
    return model


def implementation(chosen: options.Options) -> Callable[..., Any]:
    """Import what makes a kind: from this package, or from a package of one's own."""
    module, _, name = chosen.implementation.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return made


def recurrent(
    components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0
) -> Seq2Seq:
    """Encoder and decoder of LSTMs with attention."""
    values = network.encoder * (2 if network.encoder_reads == "both" else 1)
    encoding = network.embedding, network.encoder, network.encoder_layers, network.dropout
    sizes = Sizes(network.decoder, values, *encoding, source, target)
    parts = parts_of(components, sizes)
    encoder = Encoder(source, *encoding, network.encoder_reads, vectors)
    final = 0 if network.decoder_start == "zeros" else values
    decoding = network.decoder, network.decoder_layers, final, network.dropout
    decoder = Decoder(target, network.embedding, values, *decoding)
    return Seq2Seq(encoder=encoder, decoder=decoder, readout=Readout(sizes, target), **parts)


def parts_of(components: ModelConfig, sizes: Sizes) -> dict[str, Any]:
    """Make every component of `options.PARTS`, in their order."""
    parts: dict[str, Any] = {}
    for component in options.PARTS:
        chosen = getattr(components, component)
        parts[component] = implementation(chosen)(chosen, sizes)
    return parts


def transformer(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Attention in place of recurrences, of `network.embedding` units."""
    return Transformer(shape_of(components, network), source, target)


def shape_of(components: ModelConfig, network: Network) -> Shape:
    """Sizes of a Transformer of `network.embedding` units."""
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
    """A Transformer of `network.embedding` units, whose alignment head is made of components."""
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
    return AlignedTransformer(
        encoder=AlignedEncoder(shape, source),
        decoder=AlignedDecoder(shape, target, feeds=parts["input_feeding"].feeds),
        readout=Readout(sizes, target),
        **parts,
    )


def agreement(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Both directions, alike but for their vocabularies."""
    chosen = components.architecture
    assert isinstance(chosen, options.AgreementOptions)
    ahead = recurrent(components, network, source, target)
    return Agreement(ahead, recurrent(components, network, target, source), chosen.weight)


def parameters_of(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
