"""What of a training is tensors: weights, those kept and averaged, the optimiser's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]
"""Name to tensor, as a module's `state_dict` has them."""


def copied(weights: Weights) -> Weights:
    """The same numbers in tensors of their own."""
    return {name: value.clone() for name, value in weights.items()}


def mean(several: list[Weights]) -> Weights:
    """The mean of each tensor; of a single set, that set."""
    if len(several) == 1:
        return several[0]
    return {name: torch.stack([one[name] for one in several]).mean(0) for name in several[0]}


def pack(
    model: nn.Module, optimiser: torch.optim.Optimizer, best: Weights, recent: list[Weights]
) -> dict[str, Tensor]:
    """All of it under names of one level.

    Args:
        best: weights of the best epoch.
        recent: weights of epochs that a later mean will hold, the oldest first.
    """
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for place, weights in enumerate(recent):
        tensors |= {f"recent{place}.{name}": value for name, value in weights.items()}
    for name, parameter in model.named_parameters():
        for slot, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{slot}.{name}"] = value
    return tensors


def unpack(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    device: torch.device,
) -> tuple[Weights, list[Weights]]:
    """Gives model and optimiser back what `pack` took; returns `best` and `recent`."""
    model.load_state_dict(_under("model.", tensors))
    names = dict(model.named_parameters())
    for key, value in _under("optimiser.", tensors).items():
        slot, name = key.split(".", 1)
        optimiser.state[names[name]][slot] = value.to(device)
    recent: list[Weights] = []
    while weights := _under(f"recent{len(recent)}.", tensors):
        recent.append(weights)
    return _under("best.", tensors), recent


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
