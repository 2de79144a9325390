"""From a configuration to a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from pam.config import ModelConfig, Network
from pam.models import options
from pam.models.agreement import Agreement
from pam.models.couplings import COUPLINGS
from pam.models.distributions import DISTRIBUTIONS
from pam.models.ensemble import Ensemble
from pam.models.input_feeding import INPUT_FEEDINGS
from pam.models.interfaces import Sizes
from pam.models.latents import LATENTS
from pam.models.lstm import Decoder, Encoder
from pam.models.marginalization import MARGINALIZATIONS
from pam.models.model import Model
from pam.models.readout import Readout
from pam.models.scores import SCORES
from pam.models.seq2seq import Seq2Seq
from pam.models.transformer import Transformer
from pam.models.variational import ESTIMATORS, INFERENCES
from pam.models.windows import WINDOWS

COMPONENTS: dict[str, Mapping[str, Callable[..., nn.Module]]] = {
    "score": SCORES,
    "window": WINDOWS,
    "distribution": DISTRIBUTIONS,
    "coupling": COUPLINGS,
    "latent": LATENTS,
    "marginalization": MARGINALIZATIONS,
    "input_feeding": INPUT_FEEDINGS,
    "inference": INFERENCES,
    "estimator": ESTIMATORS,
}
"""Question to its answers, by the names that YAML writes; their options are in `options`."""


def build(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Makes a model with fresh weights.

    Args:
        components: the model's components; that they fit together is checked when an experiment is read
            (`pam.models.fitting`).
        network: sizes of encoder and decoder; source, target: number of source and target symbols.
    """
    architecture = implementation(ARCHITECTURES, components.architecture)
    model: Model = architecture(components, network, source, target)
    if network.initial_range is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, -network.initial_range, network.initial_range)
    return model


def build_ensemble(members: list[tuple[ModelConfig, Network]], source: int, target: int) -> Model:
    """Makes the model whose distribution is the mean of its members'."""
    return Ensemble([build(*member, source, target) for member in members])


def implementation(kinds: Mapping[str, Callable[..., Any]], chosen: options.Options) -> Callable[..., Any]:
    """What makes a kind: of this package, or of a package of one's own."""
    if chosen.implementation is None:
        return kinds[chosen.kind]
    module, _, name = chosen.implementation.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return made


def recurrent(components: ModelConfig, network: Network, source: int, target: int) -> Seq2Seq:
    """Encoder and decoder of LSTMs with attention."""
    values = network.encoder * (2 if network.encoder_reads == "both" else 1)
    sizes = Sizes(
        query=network.decoder,
        values=values,
        embedding=network.embedding,
        direction=network.encoder,
        layers=network.encoder_layers,
        rate=network.dropout,
    )
    chosen = {question: getattr(components, question) for question in COMPONENTS}
    parts: dict[str, Any] = {
        question: implementation(kinds, chosen[question])(chosen[question], sizes)
        for question, kinds in COMPONENTS.items()
    }
    encoder = Encoder(
        source, network.embedding, network.encoder, network.encoder_layers, network.dropout, network.encoder_reads
    )
    decoder = Decoder(
        target,
        network.embedding,
        context=values,
        hidden=network.decoder,
        layers=network.decoder_layers,
        final=values,
        rate=network.dropout,
    )
    return Seq2Seq(encoder=encoder, decoder=decoder, readout=Readout(sizes, target), **parts)


def transformer(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Attention in place of recurrences."""
    chosen = components.architecture
    assert isinstance(chosen, options.TransformerOptions)
    return Transformer.build(chosen, network, source, target)


def agreement(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Both directions, alike but for their vocabularies."""
    chosen = components.architecture
    assert isinstance(chosen, options.AgreementOptions)
    ahead = recurrent(components, network, source, target)
    return Agreement(ahead, recurrent(components, network, target, source), chosen.weight)


ARCHITECTURES: dict[str, Callable[[ModelConfig, Network, int, int], Model]] = {
    "recurrent": recurrent,
    "transformer": transformer,
    "agreement": agreement,
}


def parameters_of(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
