"""The complete state of a training, saved and restored, and the results of a finished one."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from pam.models.checkpoint import load_tensors, save_tensors
from pam.runtime.errors import UserError, storage_error
from pam.runtime.files import (
    atomic_write,
    read_json,
    remove_leftovers,
    sha256_of,
    whole_files,
    write_json,
)
from pam.runtime.locks import waited_for
from pam.training.more_epochs import LAST

FORMAT = "pam-state-1"
CURRENT = "state.safetensors"
PREVIOUS = "previous.safetensors"
SPARE = f"{PREVIOUS}.new"
FINISHED = "finished.json"
REPLACED = "replaced"  # folder of the results of the training before, which was another one
SAVING_SHARE = 0.05  # of the time of a training: the part that saving within an epoch may take
log = logging.getLogger(__name__)

Weights = dict[str, Tensor]  # as a module's `state_dict`


@dataclass
class Progress:
    """The progress of a training, apart from tensors."""

    epoch: int = 0  # the current one
    batch: int = 0  # batches of it already done
    loss: float = 0.0  # in nats; this and the next two are sums over this epoch so far
    tokens: int = 0
    examples: int = 0
    # of the very first batch, in nats per token, before anything was learned
    first_loss: float | None = None
    # one row per finished epoch, as in history.csv
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None  # the row of the epoch whose weights are the results
    # this and the next two: spent so far, by all processes that worked on this training
    wall_s: float = 0.0
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    resumed: int = 0  # how often it went on from a saved state
    # the library of float32 products on its CPU; see `devices.use_precision`
    products: str | None = None
    replayed_steps: int = 0  # steps that were replayed as CUDA graphs
    replayed_shapes: int = 0  # how often a step was recorded for them
    replayed_tokens: int = 0  # target tokens of these steps
    replayed_places: int = 0  # the same with those of padding
    # the precisions of large products, one after another
    precisions: list[str] = field(default_factory=list)

    def steps(self, per_epoch: int) -> int:
        """Return the steps done so far, where a whole epoch has `per_epoch` steps."""
        return self.epoch * per_epoch + self.batch


def pack(
    model: nn.Module, optimizer: torch.optim.Optimizer, best: Weights, recent: list[Weights]
) -> dict[str, Tensor]:
    """Return all tensors of a training by name.

    `recent` are the weights of epochs that a later mean will hold, the oldest first.
    """
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, weights in enumerate(recent):
        tensors |= {f"recent{index}.{name}": value for name, value in weights.items()}

    for name, parameter in model.named_parameters():
        for slot, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{slot}.{name}"] = value
    return tensors


def unpack(
    tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Weights, list[Weights]]:
    """Load what `pack` returned into model and optimizer; return `best` and `recent`."""

    def under(prefix: str) -> Weights:
        return {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }

    model.load_state_dict(under("model."))
    for key, value in under("optimizer.").items():
        slot, name = key.split(".", 1)
        parameter = model.get_parameter(name)
        optimizer.state[parameter][slot] = value.to(parameter.device)

    recent: list[Weights] = []
    while weights := under(f"recent{len(recent)}."):
        recent.append(weights)
    return under("best."), recent


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the state folder for one process, after waiting for another one that trains there."""
    with waited_for(folder / "lock", log.warning):
        remove_leftovers(folder)
        (folder / SPARE).unlink(missing_ok=True)
        yield


@dataclass(frozen=True)
class StateFolder:
    """States of one training, the newest and the one before."""

    folder: Path
    # what the training is, configuration, data and code: a state with another one is not resumed
    key: str
    # the same whatever the number of epochs, of a training whose steps do not depend on it; else
    # empty
    open_key: str = ""
    # the number of epochs: a state that has as many is not gone on from by its `open_key`
    epochs: int = 0

    def save(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        """Write a state as a whole; the state before is the reserve."""
        current = self.folder / CURRENT
        notes = {"format": FORMAT, "key": self.key, "progress": json.dumps(asdict(progress))}
        if self.open_key:
            notes["open_key"] = self.open_key

        if current.is_file():
            # A link, then a rename over it: at every moment a whole state has a name.
            spare = self.folder / SPARE
            spare.unlink(missing_ok=True)
            os.link(current, spare)
            spare.replace(self.folder / PREVIOUS)

        save_tensors(current, tensors, notes)

    def load(self) -> tuple[dict[str, Tensor], Progress] | None:
        """Return the newest whole state of this training, or None to start anew.

        It may be that of a training of another number of epochs, where that decides no step.
        """
        others = []
        for path in (self.folder / CURRENT, self.folder / PREVIOUS, self.folder / LAST):
            if not path.is_file():
                continue

            try:
                tensors, notes = load_tensors(path)
                if notes.get("format") != FORMAT:
                    raise UserError("not a training state", file=path)
                progress = Progress(**json.loads(notes["progress"]))
                if notes.get("key") != self.key and not self._may_follow(notes, progress):
                    others.append(path)
                    continue
                return tensors, progress
            except (UserError, KeyError, TypeError, ValueError) as error:
                log.warning("%s: not usable (%s), skipped", path, error)

        if others:
            log.info(
                "%s is of another configuration, data or code: starting from the first epoch",
                others[0],
            )
        return None

    def _may_follow(self, notes: dict[str, str], progress: Progress) -> bool:
        """Return whether this training begins as that of a state did, and has more epochs."""
        begins_alike = bool(self.open_key) and notes.get("open_key") == self.open_key
        return begins_alike and progress.epoch < self.epochs

    def clear(self) -> None:
        """Remove the states; the training is over and its results are written.

        The last one stays where more epochs may follow.
        """
        last = self.folder / LAST
        if not self.open_key:
            last.unlink(missing_ok=True)
        elif (self.folder / CURRENT).is_file():
            (self.folder / CURRENT).replace(last)

        for name in (CURRENT, PREVIOUS):
            (self.folder / name).unlink(missing_ok=True)


class CheckpointTimer:
    """The time from one saved state to the next: `every_s` seconds at least.

    It is more where saving would take more than its share of the time. With 0 a state is saved
    after every batch, however long that takes.
    """

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.saved_at = monotonic()
        self.took_s = 0.0  # to save the last state

    def due(self) -> bool:
        """Check whether it is time to save a state."""
        wait = 0.0
        if self.every_s:
            wait = max(self.every_s, self.took_s * (1 / SAVING_SHARE - 1))

        return monotonic() - self.saved_at >= wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure the time that the context takes to save a state."""
        start = monotonic()
        yield
        self.saved_at = monotonic()
        self.took_s = self.saved_at - start


@dataclass(frozen=True)
class Results:
    """The results of one training, by its `key`.

    They are written here as a whole, then published in a run's folder. A workflow that was killed
    while its training lived on deletes what the training published. It starts the training anew,
    which then finds its results here.
    """

    folder: Path
    key: str

    def whole(self) -> bool:
        """Check that the results of this training, and of no other, are here undamaged."""
        try:
            return bool(read_json(self.folder / FINISHED) == self._content())
        except UserError:
            return False

    def clear(self) -> None:
        """Remove what an unfinished training has left.

        Whole results of another training are kept in `replaced`.
        """
        if not self.folder.exists():
            return

        if self._is_of_another():
            replaced = self.folder.with_name(REPLACED)
            shutil.rmtree(replaced, ignore_errors=True)
            self.folder.rename(replaced)
            log.info(
                "the results of the earlier training, which was different, are kept in %s",
                replaced,
            )
        else:
            shutil.rmtree(self.folder)

    def take_back(self) -> None:
        """Restore results of this very training that were replaced.

        The present results are kept in their place.
        """
        replaced = Results(self.folder.with_name(REPLACED), self.key)
        if self.whole() or not replaced.whole():
            return

        aside = self.folder.with_name(f"{REPLACED}-before")
        shutil.rmtree(aside, ignore_errors=True)
        replaced.folder.rename(aside)
        self.clear()
        aside.rename(self.folder)

    def _is_of_another(self) -> bool:
        """Check whether the folder holds the results of a finished training with another key."""
        try:
            return bool(read_json(self.folder / FINISHED).get("key") != self.key)
        except (UserError, AttributeError):
            return False

    def complete(self) -> None:
        """Mark what is in the folder as whole."""
        write_json(self.folder / FINISHED, self._content())

    def publish(self, out: Path) -> None:
        """Put the results into `out`, each as a whole, as new as if just made.

        A UserError says that this is not possible.
        """
        try:
            for name in self._names():
                _link_or_copy(self.folder / name, out / name)
                # results older than the data that they were made from would be made again
                os.utime(out / name)
        except OSError as error:
            raise storage_error(error, out) from error

    def _names(self) -> list[str]:
        paths = [path.relative_to(self.folder) for path in whole_files(self.folder, below=True)]
        return sorted(str(path) for path in paths if path.name != FINISHED)

    def _content(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "files": {name: sha256_of(self.folder / name) for name in self._names()},
        }


def _link_or_copy(source: Path, target: Path) -> None:
    """Give one content two names, which takes no room; copy it where file systems differ."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and target.samefile(source):
        return

    with atomic_write(target) as temporary, open(source, "rb") as content:
        # The new link must not look like a leftover of a killed process while this one makes it, so
        # its content is locked.
        with suppress(OSError):
            fcntl.flock(content, fcntl.LOCK_SH)

        temporary.unlink()
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
