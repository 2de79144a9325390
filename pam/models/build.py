"""From a configuration to a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from pam.config import ModelConfig, Network
from pam.models import options
from pam.models.agreement import Agreement
from pam.models.copying import COPYINGS
from pam.models.couplings import COUPLINGS
from pam.models.distributions import DISTRIBUTIONS
from pam.models.input_feeding import INPUT_FEEDINGS
from pam.models.interfaces import Sizes
from pam.models.latents import LATENTS
from pam.models.lstm import Decoder, Encoder
from pam.models.marginalization import MARGINALIZATIONS
from pam.models.model import Model
from pam.models.readout import Readout
from pam.models.scores import SCORES
from pam.models.seq2seq import Seq2Seq
from pam.models.transformer import Shape, Transformer
from pam.models.variational import ESTIMATORS, INFERENCES
from pam.models.windows import WINDOWS

COMPONENTS: dict[str, Mapping[str, Callable[..., nn.Module]]] = {
    "score": SCORES, "window": WINDOWS, "distribution": DISTRIBUTIONS, "coupling": COUPLINGS, "latent": LATENTS,
    "marginalization": MARGINALIZATIONS, "input_feeding": INPUT_FEEDINGS, "inference": INFERENCES,
    "estimator": ESTIMATORS, "copying": COPYINGS,
}  # fmt: skip
"""Question to its answers, by the names that YAML writes; their options are in `options`."""


def build(components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0) -> Model:
    """Makes a model with fresh weights, for so many source and target symbols, or for sources of `vectors` of so many
    units; that its components fit together is checked when an experiment is read (`pam.models.fitting`)."""
    architecture = implementation(ARCHITECTURES, components.architecture)
    # What reads symbols alone need not know of vectors.
    given = {"vectors": vectors} if vectors else {}
    model: Model = architecture(components, network, source, target, **given)
    if network.initial_range is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, -network.initial_range, network.initial_range)
    return model


def implementation(kinds: Mapping[str, Callable[..., Any]], chosen: options.Options) -> Callable[..., Any]:
    """What makes a kind: of this package, or of a package of one's own."""
    if chosen.implementation is None:
        return kinds[chosen.kind]
    module, _, name = chosen.implementation.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return made


def recurrent(components: ModelConfig, network: Network, source: int, target: int, vectors: int = 0) -> Seq2Seq:
    """Encoder and decoder of LSTMs with attention."""
    values = network.encoder * (2 if network.encoder_reads == "both" else 1)
    encoding = network.embedding, network.encoder, network.encoder_layers, network.dropout
    sizes = Sizes(network.decoder, values, *encoding, source, target)
    parts: dict[str, Any] = {}
    for question, kinds in COMPONENTS.items():
        chosen = getattr(components, question)
        parts[question] = implementation(kinds, chosen)(chosen, sizes)
    encoder = Encoder(source, *encoding, network.encoder_reads, vectors)
    final = 0 if network.decoder_start == "zeros" else values
    decoding = network.decoder, network.decoder_layers, final, network.dropout
    decoder = Decoder(target, network.embedding, values, *decoding)
    return Seq2Seq(encoder=encoder, decoder=decoder, readout=Readout(sizes, target), **parts)


def transformer(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Attention in place of recurrences, of `network.embedding` units."""
    chosen, units = components.architecture, network.embedding
    assert isinstance(chosen, options.TransformerOptions)
    layers = network.encoder_layers, network.decoder_layers
    shape = Shape(units, chosen.heads, chosen.feedforward or 4 * units, *layers, network.dropout)
    return Transformer(shape, source, target)


def agreement(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Both directions, alike but for their vocabularies."""
    chosen = components.architecture
    assert isinstance(chosen, options.AgreementOptions)
    ahead = recurrent(components, network, source, target)
    return Agreement(ahead, recurrent(components, network, target, source), chosen.weight)


ARCHITECTURES: dict[str, Callable[..., Model]] = {
    "recurrent": recurrent, "transformer": transformer, "agreement": agreement,
}  # fmt: skip


def parameters_of(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
