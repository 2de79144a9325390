"""The training loop. It knows batches, likelihoods and time, not which model it trains."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pam.config import Cell
from pam.data.batches import Batch, Examples
from pam.errors import UserError
from pam.fast.teacher import token_objective
from pam.models.seq2seq import Seq2Seq
from pam.training.devices import use_precision
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
        use_precision(self.cell.training.precision)
        self.optimiser = _optimiser(self.model, self.cell)
        self.best: dict[str, Tensor] = {}
        self.recent: list[dict[str, Tensor]] = []
        self.progress = Progress()
        self._resume()
        self.watch, self.saved_at = Stopwatch(self.device), time.monotonic()
        with self.reporter.open(self._per_epoch(), self._steps(), self.progress):
            while not self._finished():
                self._epoch()
        return self.best, self.progress

    def _per_epoch(self) -> int:
        """Steps of a whole epoch."""
        return math.ceil(len(self.train) / self.cell.training.batch_size)

    def _steps(self) -> int:
        """Steps of the whole run."""
        training = self.cell.training
        steps = training.epochs * self._per_epoch()
        return steps if training.max_steps is None else min(steps, training.max_steps)

    def _done(self) -> int:
        """Steps done so far."""
        return self.progress.epoch * self._per_epoch() + self.progress.batch

    def _finished(self) -> bool:
        patience, history = self.cell.training.patience, self.progress.history
        if patience is not None and history:
            best = min(history, key=lambda row: row["dev_loss"])
            if history[-1]["epoch"] - best["epoch"] >= patience:
                log.info("no lower development loss in %d epochs: the training ends", patience)
                return True
        return self._done() >= self._steps()

    def _remaining(self) -> Iterator[list[Batch]]:
        """Batches of this epoch that are still to be done, each in its parts."""
        training = self.cell.training
        order = self.train.shuffled(training.batch_size, self.cell.seed, self.progress.epoch)
        left = self._steps() - self.progress.epoch * self._per_epoch()
        for rows in order[self.progress.batch : left]:
            parts = np.array_split(rows, min(training.accumulate, len(rows)))
            yield [self.train.batch(part).to(self.device) for part in parts]

    def _epoch(self) -> None:
        progress, training = self.progress, self.cell.training
        last = min(self._per_epoch(), self._steps() - progress.epoch * self._per_epoch())
        for parts in self._remaining():
            self._step(parts)
            progress.batch += 1
            self.reporter.step(progress)
            due = time.monotonic() - self.saved_at >= training.state_every_s
            if due and progress.batch < last:
                self._save()
        row = self._finish_epoch()
        self.reporter.epoch(row)
        progress.history.append(row)
        self._keep_if_best(row)
        if progress.batch == self._per_epoch():
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.loss, progress.tokens, progress.examples = 0.0, 0, 0
        self._save()

    def _step(self, parts: list[Batch]) -> None:
        progress, training = self.progress, self.cell.training
        rate = learning_rate(training, self._done(), self._steps())
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.model.train()
        self.optimiser.zero_grad()
        tokens, loss = sum(int(part.mask.sum()) for part in parts), 0.0
        for part in parts:
            total = self._loss(part)
            (total / tokens).backward()
            loss += float(total.detach())
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
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
        progress.examples += sum(len(part.rows) for part in parts)

    def _loss(self, batch: Batch) -> Tensor:
        """What is minimised, summed over the batch's tokens, in nats."""
        narrow = self.cell.training.precision == "bf16"
        given = batch.source, batch.lengths, batch.target
        return -token_objective(self.model, *given, narrow=narrow)[batch.mask].sum()

    def _finish_epoch(self) -> dict[str, Any]:
        progress = self.progress
        dev = self._evaluate()
        self._clock()
        before = progress.history[-1] if progress.history else {"examples": 0, "tokens": 0}
        row = {
            "epoch": progress.epoch + 1,
            "step": self._done(),
            "examples": before["examples"] + progress.examples,
            "tokens": before["tokens"] + progress.tokens,
            "learning_rate": learning_rate(self.cell.training, self._done() - 1, self._steps()),
            "train_loss": progress.loss / progress.tokens,
            "dev_loss": dev["loss"],
            "dev_accuracy": dev.get("accuracy"),
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
        }
        self._check(row)
        return row

    def _evaluate(self) -> dict[str, float]:
        """Development loss, and accuracy where it decides, of the weights that may be kept."""
        own = self._copy()
        self.recent = [*self.recent, own][-self.cell.training.average :]
        self.candidate = _mean(self.recent)
        self.model.load_state_dict(self.candidate)
        cell = self.cell
        dev = evaluate(
            self.model,
            self.dev,
            cell.decoding,
            self.device,
            actions=cell.choices.targets == "actions",
            outputs=cell.training.select == "accuracy",
        )
        self.model.load_state_dict(own)
        return dev

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

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
        best, select = self.progress.best or row, self.cell.training.select
        if (
            select == "last"
            or (select == "loss" and row["dev_loss"] <= best["dev_loss"])
            or (select == "accuracy" and row["dev_accuracy"] >= best["dev_accuracy"])
        ):
            self.progress.best = row
            # A copy, as one file does not hold a tensor under two names.
            self.best = {name: value.clone() for name, value in self.candidate.items()}

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
        for place, weights in enumerate(self._averaged()):
            tensors |= {f"recent{place}.{name}": value for name, value in weights.items()}
        tensors |= generator_states(self.device)
        names = dict(self.model.named_parameters())
        for name, parameter in names.items():
            for slot, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser.{slot}.{name}"] = value
        self.states.save(tensors, self.progress)

    def _averaged(self) -> list[dict[str, Tensor]]:
        """Weights of earlier epochs that the next candidate will be a mean of."""
        wanted = self.cell.training.average - 1
        return self.recent[-wanted:] if wanted else []

    def _resume(self) -> None:
        found = self.states.load()
        if found is None:
            return
        tensors, self.progress = found
        self.progress.resumed += 1
        self.model.load_state_dict(_under("model.", tensors))
        self.best = _under("best.", tensors)
        for place in range(self.cell.training.average - 1):
            weights = _under(f"recent{place}.", tensors)
            self.recent += [weights] if weights else []
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


def _mean(weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor; of a single set, that set."""
    if len(weights) == 1:
        return weights[0]
    return {name: torch.stack([one[name] for one in weights]).mean(0) for name in weights[0]}


def _optimiser(model: Seq2Seq, cell: Cell) -> torch.optim.Optimizer:
    training = cell.training
    if training.optimiser == "sgd":
        return torch.optim.SGD(model.parameters(), lr=training.learning_rate, fused=True)
    return torch.optim.Adam(model.parameters(), lr=training.learning_rate, fused=True)
