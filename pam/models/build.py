"""From a YAML of components to a model."""

from __future__ import annotations

from torch import nn

from pam import plugins
from pam.answers import check_options
from pam.config import ModelConfig, Network, kind_of
from pam.models.model import Model


def build(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Makes a model by the module of `pam.models.architectures` that its components name.

    Args:
        components: the model's answers.
        network: sizes of encoder and decoder.
        source: number of source symbols.
        target: number of target symbols.

    Raises:
        UserError: a choice that does not exist, or components that do not fit together.
    """
    kind, options = kind_of(components.architecture)
    architecture = plugins.load("pam.models.architectures", "architecture", kind)
    check_options("architecture", kind, options)
    model: Model = architecture.build(components, network, source, target, **options)
    if network.initial_range is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, -network.initial_range, network.initial_range)
    return model


def parameters_of(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
