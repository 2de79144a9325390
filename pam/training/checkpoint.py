"""The complete state of a training, saved and restored."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pam.io import UserError, clear_parts
from pam.locking import waited_for
from pam.models.saved import load_tensors, save_tensors

# What of a training is tensors: weights, those kept and averaged, the optimizer's.

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
    model: nn.Module, optimizer: torch.optim.Optimizer, best: Weights, recent: list[Weights]
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
        for slot, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{slot}.{name}"] = value
    return tensors


def unpack(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> tuple[Weights, list[Weights]]:
    """Gives model and optimizer back what `pack` took; returns `best` and `recent`."""
    model.load_state_dict(_under("model.", tensors))
    names = dict(model.named_parameters())
    for key, value in _under("optimizer.", tensors).items():
        slot, name = key.split(".", 1)
        optimizer.state[names[name]][slot] = value.to(device)
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


# The complete state of a training, from which it goes on bit by bit as if never stopped.

FORMAT = "pam-state-1"
CURRENT, PREVIOUS = "state.safetensors", "previous.safetensors"
SPARE = f"{PREVIOUS}.new"
log = logging.getLogger(__name__)


@dataclass
class Progress:
    """Where a training stands, apart from tensors.

    Attributes:
        epoch: the current one, from 0; batch: batches of it already done.
        loss, tokens, examples: sums over this epoch so far, loss in nats.
        first: loss of the very first batch in nats per token, before anything was learned.
        history: one row per finished epoch, as in history.csv.
        best: the row of the epoch whose weights are kept.
        wall_s, cpu_s, gpu_s: spent so far, by all processes that worked on this training.
        resumed: how often it went on from a saved state.
    """

    epoch: int = 0
    batch: int = 0
    loss: float = 0.0
    tokens: int = 0
    examples: int = 0
    first: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    resumed: int = 0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the state folder for one process, after waiting for another one that trains there.

    Raises:
        UserError: see `pam.locking.take`.
    """
    with waited_for(folder / "lock", log.warning):
        clear_parts(folder)
        (folder / SPARE).unlink(missing_ok=True)
        yield


class StateFolder:
    """States of one training, the newest and the one before.

    Args:
        folder: where they are.
        key: what the training is: configuration, data and code. A state with another key is of
            another training and is not gone on from.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.key = key

    def save(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        """Writes a state aside, then renames; the state before stays as a reserve."""
        current = self.folder / CURRENT
        notes = {"format": FORMAT, "key": self.key, "progress": json.dumps(asdict(progress))}
        if current.is_file():
            # A link, then a rename over it: at every moment a whole state has a name.
            spare = self.folder / SPARE
            spare.unlink(missing_ok=True)
            os.link(current, spare)
            spare.replace(self.folder / PREVIOUS)
        save_tensors(current, tensors, notes)

    def load(self) -> tuple[dict[str, Tensor], Progress] | None:
        """The newest whole state of this training, or None to start anew."""
        for name in (CURRENT, PREVIOUS):
            path = self.folder / name
            if not path.is_file():
                continue
            try:
                tensors, notes = load_tensors(path)
                if notes.get("format") != FORMAT:
                    raise UserError("not a training state", file=path)
                if notes.get("key") != self.key:
                    log.info("%s is of another configuration, data or code: starting anew", path)
                    return None
                return tensors, Progress(**json.loads(notes["progress"]))
            except (UserError, KeyError, TypeError, ValueError) as error:
                log.warning("%s: not usable (%s), passed over", path, error)
        return None

    def clear(self) -> None:
        """Removes the states; the training is over and its outputs are written."""
        for name in (CURRENT, PREVIOUS):
            (self.folder / name).unlink(missing_ok=True)
