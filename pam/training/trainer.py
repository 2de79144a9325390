"""The training loop. It knows batches, likelihoods and time, not which model it trains."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pam.config import RunConfig
from pam.data.dataset import Batch, Examples, Rows
from pam.fast.teacher import token_objective
from pam.io import UserError
from pam.models.model import Model
from pam.training.checkpoint import Progress, StateFolder, Weights, copied, mean, pack, unpack
from pam.training.devices import enough_for, use_precision
from pam.training.distributed import ProcessGroup, stream, unsynchronized
from pam.training.evaluate import evaluate
from pam.training.logging import Reporter, Stopwatch
from pam.training.preemption import CheckpointTimer, Stop, Stopped
from pam.training.schedule import learning_rate

HINT = "lower `training.batch_size`, or raise `training.accumulate`, which cuts a batch into parts"
log = logging.getLogger(__name__)


class Objective(nn.Module):
    """What is minimized, as a module, whose forward pass is what torch can share out.

    Args:
        narrow: whether large products are taken in bfloat16.
        shared: whether several processes share it. Each then waits for a gradient of every weight,
            also of those that a model has and does not use.
    """

    def __init__(self, model: Model, narrow: bool, shared: bool) -> None:
        super().__init__()
        self.model, self.narrow, self.shared = model, narrow, shared

    def forward(self, batch: Batch | None) -> Tensor:
        """Summed over the batch's tokens, in nats; no batch has none, and gradients of zero."""
        if batch is None:
            return self._nothing()
        given = batch.source, batch.lengths, batch.target
        total = -token_objective(self.model, *given, narrow=self.narrow)[batch.mask].sum()
        return total + self._nothing() if self.shared else total

    def _nothing(self) -> Tensor:
        """Zero, with a gradient of zero for every weight."""
        return torch.stack([value.sum() * 0 for value in self.parameters()]).sum()


@dataclass
class Trainer:
    """One training from its first step, or from a saved state, to its last epoch.

    Attributes:
        config: the resolved configuration.
        model: on the group's device, with fresh weights, the same in each process.
        train, dev: examples; the weights kept are those of the epoch that is best on `dev`.
        states: where the complete state is kept.
        reporter: told of steps and epochs.
        group: the processes that share the training. All do the same steps, each with its part of
            every batch; the first alone writes.
        stop: asked after each step whether to end.
    """

    config: RunConfig
    model: Model
    train: Examples
    dev: Examples
    states: StateFolder
    reporter: Reporter
    group: ProcessGroup = field(default_factory=ProcessGroup)
    stop: Stop = field(default_factory=Stop)

    def run(self) -> tuple[Weights, Progress]:
        """Trains.

        Returns:
            The weights kept, and how it went.

        Raises:
            UserError: the loss is no number, or grows without end; out of memory.
            Stopped: it was asked to end; its state is saved.
        """
        use_precision(self.config.training.precision)
        self.optimizer = _optimizer(self.model, self.config)
        self.best: Weights = {}
        self.recent: list[Weights] = []
        self.progress = Progress()
        self._resume()
        narrow = self.config.training.precision == "bf16"
        self.objective = self.group.synchronized(Objective(self.model, narrow, self.group.size > 1))
        self.watch, self.pace = (
            Stopwatch(self.group.device),
            CheckpointTimer(self.config.training.state_every_s),
        )
        with self.reporter.open(self._per_epoch(), self._steps(), self.progress):
            try:
                while not self._finished():
                    self._epoch()
            except Stopped:
                self._save()
                log.info(
                    "stopped in epoch %d after batch %d of %d; the state is saved",
                    *(self.progress.epoch + 1, self.progress.batch, self._per_epoch()),
                )
                self.group.barrier()
                raise
        return self.best, self.progress

    def _per_epoch(self) -> int:
        """Steps of a whole epoch."""
        return math.ceil(len(self.train) / self.config.training.batch_size)

    def _steps(self) -> int:
        """Steps of the whole run."""
        training = self.config.training
        steps = training.epochs * self._per_epoch()
        return steps if training.max_steps is None else min(steps, training.max_steps)

    def _done(self) -> int:
        """Steps done so far."""
        return self.progress.epoch * self._per_epoch() + self.progress.batch

    def _last(self) -> int:
        """Steps of this epoch; the end of the run may cut it short."""
        return min(self._per_epoch(), self._steps() - self.progress.epoch * self._per_epoch())

    def _finished(self) -> bool:
        patience, history = self.config.training.patience, self.progress.history
        if patience is not None and history:
            best = min(history, key=lambda row: row["dev_loss"])
            if history[-1]["epoch"] - best["epoch"] >= patience:
                log.info("no lower development loss in %d epochs: the training ends", patience)
                return True
        # Not the steps themselves, as the last ones may have been done and not yet evaluated.
        return bool(history) and history[-1]["step"] >= self._steps()

    def _epoch(self) -> None:
        progress, training = self.progress, self.config.training
        order = self.train.shuffled(training.batch_size, self.config.seed, progress.epoch)
        for rows in order[progress.batch : self._last()]:
            with enough_for(f"a training step of {len(rows)} examples", HINT):
                asked = self._step(rows)
            progress.batch += 1
            self.reporter.step(progress)
            if asked:
                raise Stopped(asked)
            if self.pace.due() and progress.batch < self._last():
                self._save()
        row = self._finish_epoch()
        self.reporter.epoch(row)
        progress.history.append(row)
        self._keep_if_best(row)
        if progress.batch == self._per_epoch():
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.loss, progress.tokens, progress.examples = 0.0, 0, 0
        self._save()

    def _step(self, rows: Rows) -> int:
        """Learns from a batch; returns the exit code of a process that was asked to end, or 0."""
        progress, training = self.progress, self.config.training
        torch.manual_seed(stream(self.config.seed, self._done(), self.group.rank))
        rate = learning_rate(training, self._done(), self._steps())
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.progress(self._done() / self._steps())
        self.optimizer.zero_grad()
        tokens = int(self.train.target_lengths[rows].sum())
        own = self._gradient(self.group.share(rows), tokens)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), training.clip))
        losses, asked = self._gather(own, self.stop.asked())
        loss = sum(losses)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(
                f"the loss is no longer a number (epoch {progress.epoch + 1}, batch "
                f"{progress.batch + 1}: loss {loss}, gradient norm {norm})",
                hint="lower `training.learning_rate` or `training.clip`",
            )
        self.optimizer.step()
        if progress.first is None:
            progress.first = loss / tokens
        progress.loss += loss
        progress.tokens += tokens
        progress.examples += len(rows)
        return int(max(asked))

    def _gradient(self, rows: Rows, tokens: int) -> float:
        """Adds this process's part of the gradient; returns its part of the loss, a sum.

        Args:
            tokens: of the batch in all processes, by which gradients are divided.
        """
        self.model.train()
        # Gradients are averaged over processes, though it is their sum that counts.
        scale, loss = self.group.size / tokens, 0.0
        parts: list[Batch | None] = [*self._parts(rows)] or [None]
        for part in parts[:-1]:
            with unsynchronized(self.objective):
                loss += self._pull(part, scale)
        return loss + self._pull(parts[-1], scale)

    def _parts(self, rows: Rows) -> Iterator[Batch]:
        count = min(self.config.training.accumulate, len(rows))
        for part in np.array_split(rows, count) if count else ():
            yield self.train.batch(part).to(self.group.device)

    def _pull(self, part: Batch | None, scale: float) -> float:
        total = self.objective(part)
        (total * scale).backward()
        return float(total.detach())

    def _gather(self, *values: float) -> list[tuple[float, ...]]:
        """Values of all processes; adds up the time that they have spent since the last call."""
        wall, cpu, gpu = self.watch.lap()
        *gathered, cpus, gpus = self.group.gather(*values, cpu, gpu)
        self.progress.wall_s += wall
        self.progress.cpu_s += sum(cpus)
        self.progress.gpu_s += sum(gpus)
        return gathered

    def _finish_epoch(self) -> dict[str, Any]:
        progress = self.progress
        dev = self._evaluate()
        self._gather()
        before = progress.history[-1] if progress.history else {"examples": 0, "tokens": 0}
        row = {
            "epoch": progress.epoch + 1,
            "step": self._done(),
            "examples": before["examples"] + progress.examples,
            "tokens": before["tokens"] + progress.tokens,
            "learning_rate": learning_rate(self.config.training, self._done() - 1, self._steps()),
            "train_loss": progress.loss / progress.tokens,
            "dev_loss": dev["loss"],
            "dev_accuracy": dev.get("accuracy"),
            "dev_token_accuracy": dev.get("token_accuracy"),
            "dev_objective": dev.get("objective"),
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
        }
        self._check(row)
        return row

    def _evaluate(self) -> dict[str, float]:
        """Development loss, and accuracy where it decides, of the weights that may be kept."""
        self.candidate = self.model.state_dict()
        if self.config.training.average == 1:
            return self._measure()
        own = copied(self.candidate)
        recent = [*self.recent, own][-self.config.training.average :]
        self.candidate = mean(recent)
        self.model.load_state_dict(self.candidate)
        try:
            measured = self._measure()
        finally:
            self.model.load_state_dict(own)
        self.recent = recent
        return measured

    def _measure(self) -> dict[str, float]:
        run = self.config
        # As before each step, so that a run that was stopped here draws the same.
        torch.manual_seed(stream(run.seed, self._done(), self.group.rank))
        return evaluate(
            self.model,
            self.dev,
            run.decoding,
            self.group,
            self.stop,
            actions=run.components.targets == "actions",
            outputs=run.training.select == "accuracy",
            eval_metrics=run.training.eval_metrics,
        )

    def _check(self, row: dict[str, Any]) -> None:
        """Stops a training that has gone astray, also if only its last steps have."""
        first, limit = self.progress.first, self.config.training.divergence
        assert first is not None
        for name, loss in (("training", row["train_loss"]), ("development", row["dev_loss"])):
            # Written so that a loss that is no number fails too.
            if not loss <= limit * first:
                raise UserError(
                    f"training diverges: {name} loss {loss:.4g} in epoch {row['epoch']}, "
                    f"{first:.4g} in the first batch",
                    hint="lower `training.learning_rate`, or raise `training.divergence`",
                )

    def _keep_if_best(self, row: dict[str, Any]) -> None:
        """On equal terms the later epoch is kept: its learning rate is the lower one."""
        best, select = self.progress.best or row, self.config.training.select
        if (
            select == "last"
            or (select == "loss" and row["dev_loss"] <= best["dev_loss"])
            or (select == "accuracy" and row["dev_accuracy"] >= best["dev_accuracy"])
        ):
            self.progress.best = row
            self.best = copied(self.candidate)

    def _save(self) -> None:
        with self.pace.saving():
            if self.group.is_main:
                wanted = self.config.training.average - 1
                recent = self.recent[-wanted:] if wanted else []
                tensors = pack(self.model, self.optimizer, self.best, recent)
                self.states.save(tensors, self.progress)

    def _resume(self) -> None:
        found = self.states.load()
        if found is None:
            return
        tensors, self.progress = found
        self.progress.resumed += 1
        self.best, self.recent = unpack(tensors, self.model, self.optimizer, self.group.device)
        log.info(
            "going on from epoch %d, batch %d", self.progress.epoch + 1, self.progress.batch + 1
        )


def _optimizer(model: Model, run: RunConfig) -> torch.optim.Optimizer:
    training = run.training
    if training.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=training.learning_rate, fused=True)
    return torch.optim.Adam(model.parameters(), lr=training.learning_rate, fused=True)
