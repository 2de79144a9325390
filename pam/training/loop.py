"""The training loop. It knows batches, likelihoods and time, not which model it trains."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pam.config import Cell
from pam.data.batches import Batch, Examples
from pam.errors import UserError
from pam.fast.teacher import token_log_probs
from pam.models.seq2seq import Seq2Seq
from pam.training.evaluate import evaluate
from pam.training.progress import Reporter
from pam.training.record import Stopwatch
from pam.training.schedule import learning_rate
from pam.training.state import Progress, StateFolder, generator_states, restore_generators

log = logging.getLogger(__name__)


@dataclass
class Trainer:
    """One training from its first step, or from a saved state, to its last epoch.

    Attributes:
        cell: the resolved configuration.
        model: on `device`, with fresh weights.
        train, dev: examples; the weights kept are those of the epoch that is best on `dev`.
        states: where the complete state is kept.
        reporter: told of steps and epochs.
    """

    cell: Cell
    model: Seq2Seq
    train: Examples
    dev: Examples
    states: StateFolder
    reporter: Reporter
    device: torch.device

    def run(self) -> tuple[dict[str, Tensor], Progress]:
        """Trains.

        Returns:
            The weights kept, and how it went.

        Raises:
            UserError: the loss is no number, or grows without end.
        """
        training = self.cell.training
        self.optimiser = _optimiser(self.model, self.cell)
        self.best: dict[str, Tensor] = {}
        self.progress = Progress()
        self._resume()
        self.watch, self.saved_at = Stopwatch(self.device), time.monotonic()
        with self.reporter.open(training.epochs, self._batches_per_epoch(), self.progress):
            while self.progress.epoch < training.epochs:
                self._epoch()
        return self.best, self.progress

    def _batches_per_epoch(self) -> int:
        return math.ceil(len(self.train) / self.cell.training.batch_size)

    def _remaining(self) -> Iterator[Batch]:
        """Batches of this epoch that are still to be done."""
        order = self.train.shuffled(
            self.cell.training.batch_size, self.cell.seed, self.progress.epoch
        )
        for rows in order[self.progress.batch :]:
            yield self.train.batch(rows).to(self.device)

    def _epoch(self) -> None:
        progress, training = self.progress, self.cell.training
        for batch in self._remaining():
            self._step(batch)
            progress.batch += 1
            self.reporter.step(progress)
            due = time.monotonic() - self.saved_at >= training.state_every_s
            if due and progress.batch < self._batches_per_epoch():
                self._save()
        row = self._finish_epoch()
        self.reporter.epoch(row)
        progress.history.append(row)
        self._keep_if_best(row)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.loss, progress.tokens, progress.examples = 0.0, 0, 0
        self._save()

    def _step(self, batch: Batch) -> None:
        progress, training = self.progress, self.cell.training
        per_epoch = self._batches_per_epoch()
        step = progress.epoch * per_epoch + progress.batch
        rate = learning_rate(training, step, training.epochs * per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.model.train()
        self.optimiser.zero_grad()
        log_probs = token_log_probs(self.model, batch.source, batch.lengths, batch.target)
        total = -log_probs[batch.mask].sum()
        tokens = int(batch.mask.sum())
        (total / tokens).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        loss = float(total.detach())
        if not (math.isfinite(loss) and math.isfinite(float(norm))):
            raise UserError(
                f"the loss is no longer a number (epoch {progress.epoch + 1}, batch "
                f"{progress.batch + 1}: loss {loss}, gradient norm {float(norm)})",
                remedy="lower `training.learning_rate` or `training.clip`",
            )
        self.optimiser.step()
        if progress.first is None:
            progress.first = loss / tokens
        progress.loss += loss
        progress.tokens += tokens
        progress.examples += len(batch.rows)

    def _finish_epoch(self) -> dict[str, Any]:
        progress, training = self.progress, self.cell.training
        actions = self.cell.choices.targets == "actions"
        dev = evaluate(self.model, self.dev, self.cell.decoding, self.device, actions)
        self._clock()
        done = progress.history[-1]["examples"] if progress.history else 0
        per_epoch = self._batches_per_epoch()
        step = (progress.epoch + 1) * per_epoch
        row = {
            "epoch": progress.epoch + 1,
            "step": step,
            "examples": done + progress.examples,
            "learning_rate": learning_rate(training, step - 1, training.epochs * per_epoch),
            "train_loss": progress.loss / progress.tokens,
            "dev_loss": dev["loss"],
            "dev_accuracy": dev["accuracy"],
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
        }
        self._check(row)
        return row

    def _check(self, row: dict[str, Any]) -> None:
        """Stops a training that has gone astray, also if only its last steps have."""
        first, limit = self.progress.first, self.cell.training.divergence
        assert first is not None
        for name, loss in (("training", row["train_loss"]), ("development", row["dev_loss"])):
            # Written so that a loss that is no number fails too.
            if not loss <= limit * first:
                raise UserError(
                    f"training diverges: {name} loss {loss:.4g} in epoch {row['epoch']}, "
                    f"{first:.4g} in the first batch",
                    remedy="lower `training.learning_rate`, or raise `training.divergence`",
                )

    def _keep_if_best(self, row: dict[str, Any]) -> None:
        """On equal terms the later epoch is kept: its learning rate is the lower one."""
        best = self.progress.best or row
        better = {
            "accuracy": row["dev_accuracy"] >= best["dev_accuracy"],
            "loss": row["dev_loss"] <= best["dev_loss"],
            "last": True,
        }
        if better[self.cell.training.select]:
            self.progress.best = row
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    def _clock(self) -> None:
        wall, cpu, gpu = self.watch.lap()
        self.progress.wall_s += wall
        self.progress.cpu_s += cpu
        self.progress.gpu_s += gpu

    def _save(self) -> None:
        self._clock()
        self.saved_at = time.monotonic()
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors |= generator_states(self.device)
        names = dict(self.model.named_parameters())
        for name, parameter in names.items():
            for slot, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser.{slot}.{name}"] = value
        self.states.save(tensors, self.progress)

    def _resume(self) -> None:
        found = self.states.load()
        if found is None:
            return
        tensors, self.progress = found
        self.progress.resumed += 1
        self.model.load_state_dict(_under("model.", tensors))
        self.best = _under("best.", tensors)
        restore_generators(tensors, self.device)
        names = dict(self.model.named_parameters())
        for key, value in _under("optimiser.", tensors).items():
            slot, name = key.split(".", 1)
            # Adam's step counter stays on the CPU unless the optimiser is fused or capturable.
            moved = value.to(self.device)
            self.optimiser.state[names[name]][slot] = moved
        log.info(
            "going on from epoch %d, batch %d", self.progress.epoch + 1, self.progress.batch + 1
        )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _optimiser(model: Seq2Seq, cell: Cell) -> torch.optim.Optimizer:
    training = cell.training
    if training.optimiser == "sgd":
        return torch.optim.SGD(model.parameters(), lr=training.learning_rate, fused=True)
    return torch.optim.Adam(model.parameters(), lr=training.learning_rate, fused=True)
