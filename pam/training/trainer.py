"""The training loop and its evaluation.

It knows batches, likelihoods and time, not which model it trains.
"""

from __future__ import annotations

import logging
import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pam.config import Decoding, Phase, RunConfig
from pam.data.dataset import Batch, Examples, Rows
from pam.data.vocabulary import EOS, strip
from pam.decoding.search import search
from pam.io import UserError
from pam.models.model import Model
from pam.runtime import processor
from pam.runtime.devices import Stopwatch, enough_for, use_precision
from pam.training.checkpoint import CheckpointTimer, Progress, StateFolder, Weights, pack, unpack
from pam.training.distributed import ProcessGroup, step_seed
from pam.training.graphs import CudaRecorder, Recorder, StepGraphs
from pam.training.learning_rate import learning_rate
from pam.training.logging import Reporter
from pam.training.preemption import Stop, Stopped

HINT = "lower `training.batch_size`, or raise `training.accumulate`, which cuts a batch into parts"
EVAL_METRICS = ("token_accuracy", "objective", "positions")
log = logging.getLogger(__name__)


class Objective(nn.Module):
    """The loss as a module, whose forward pass is what torch can share out; `bf16`: large products
    are in bfloat16.

    Processes that share it (`shared`) each wait for a gradient of every weight, also of those that
    are not used.
    """

    def __init__(self, model: Model, bf16: bool, shared: bool) -> None:
        super().__init__()
        self.model, self.shared = model, shared
        model.use_bf16(bf16)

    def forward(self, batch: Batch | None) -> Tensor:
        """() minus the objective, log p or a bound, summed over the batch's tokens, in nats; 0
        without a batch.
        """
        loss = torch.zeros(())
        if batch is None or self.shared:
            # With a gradient of zero for every weight.
            loss = torch.stack([value.sum() * 0 for value in self.parameters()]).sum()
        if batch is not None:
            loss = (
                loss
                - self.model.objective(batch.source, batch.lengths, batch.target)[batch.mask].sum()
            )
        return loss


@dataclass
class Trainer:
    """One training from its first step, or from a saved state, to its last epoch.

    The processes of its `group` do the same steps, each with its part of every batch; the main one
    alone writes.
    """

    config: RunConfig
    model: Model  # on the group's device, with fresh weights, the same in each process
    train: Examples
    dev: Examples  # the resulting weights are those of the epoch that is best on them
    states: StateFolder  # where the complete state is saved
    reporter: Reporter
    group: ProcessGroup = field(default_factory=ProcessGroup)
    stop: Stop = field(default_factory=Stop)  # checked after each step
    recorder: Recorder | None = (
        None  # of steps; None: that of a CUDA device, where they can be recorded
    )

    def __post_init__(self) -> None:
        training = self.config.training
        recorder = self._choose_recorder()
        given: dict[str, Any] = {"lr": training.learning_rate, "fused": True}
        if recorder is not None:
            given["lr"] = torch.tensor(training.learning_rate, device=self.group.device)
        if recorder is not None and recorder.capturable and training.optimizer == "adam":
            given["capturable"] = True
        self.optimizer: torch.optim.Optimizer
        if training.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.model.parameters(), **given)
        else:
            first, second = training.adam_betas
            self.optimizer = torch.optim.Adam(
                self.model.parameters(), betas=(first, second), **given
            )
        self.graphs: StepGraphs | None = None
        if recorder is not None:
            self.graphs = StepGraphs(
                model=self.model,
                optimizer=self.optimizer,
                clip=training.clip,
                rows=min(training.batch_size, len(self.train)),
                recorder=recorder,
            )
        phases = training.phases or [Phase()]
        self.cut = {phase.until: self.train.cut(phase.source, phase.target) for phase in phases}
        self.dev = self.dev.cut(phases[-1].source, phases[-1].target)
        self.progress = Progress()
        self.best: Weights = {}
        self.recent: list[Weights] = []
        self.steps_per_epoch = math.ceil(len(self.train) / training.batch_size)
        steps = training.epochs * self.steps_per_epoch
        self.total_steps = min(steps, training.max_steps or steps)

    def run(self) -> tuple[Weights, Progress]:
        """Trains; the resulting weights, and how it went.

        A UserError says that the loss is no number or grows without end, or that memory does not
        suffice; Stopped, that it stopped on request and has saved its state.
        """
        training = self.config.training
        if found := self.states.load():
            tensors, self.progress = found
            self.progress.resumed += 1
            self.best, self.recent = unpack(tensors, self.model, self.optimizer)
            log.info(
                f"going on from epoch {self.progress.epoch + 1}, batch {self.progress.batch + 1}"
            )
        precision, reason = self._choose_precision()
        self.progress.products = use_precision(precision, self.progress.products, self.group.device)
        self.objective: nn.Module = Objective(self.model, precision == "bf16", self.group.size > 1)
        if (
            self.group.size > 1
        ):  # then gradients are the mean over processes after each backward pass
            self.objective = DistributedDataParallel(self.objective, gradient_as_bucket_view=True)
        self.stopwatch = Stopwatch(self.group.device)
        self.timer = CheckpointTimer(training.state_every_s)
        progress = self.progress
        with self.reporter.open(
            self.steps_per_epoch, self.total_steps, progress, f"{precision}{reason}"
        ):
            try:
                while not self._finished():
                    self._train_epoch()
                    self._finish_epoch()
            except Stopped:
                self._save()
                done = f"batch {progress.batch} of {self.steps_per_epoch}"
                log.info(f"stopped in epoch {progress.epoch + 1} after {done}; the state is saved")
                self.group.gather(0.0)  # waits until all processes are here
                raise
            finally:
                # Before the group goes: a process whose last reference to it is torch's for
                # gradients may hang at its end, as the group then waits for its threads with the
                # interpreter's lock held.
                del self.objective
        return self.best, progress

    def _choose_recorder(self) -> Recorder | None:
        """Choose how steps are recorded; None: they are not, and the log says why if they should
        be.
        """
        training = self.config.training
        if training.cuda_graphs == "off":
            return None

        reasons = self.model.waiting_parts()
        if self.group.size > 1:
            reasons.append("several processes share the training")
        if training.accumulate > 1:
            reasons.append("`training.accumulate` cuts batches into parts")
        if self.group.device.type != "cuda" and self.recorder is None:
            reasons.append("the device is a CPU")
        if reasons:
            log.info(f"no CUDA graphs: {'; '.join(dict.fromkeys(reasons))}")
            return None

        return self.recorder or CudaRecorder(self.group.device)

    def _choose_precision(self) -> tuple[str, str]:
        """Choose the precision of large products and note it in the progress; return it, and the
        reason in words.

        It is what the training asks for where this machine has it. A training that goes on keeps to
        the precision in which it began; where that is not possible, it goes on in float32, with a
        warning.
        """
        asked = self.config.training.precision
        used_before = self.progress.precisions
        wanted = used_before[-1] if used_before else asked
        precision = processor.usable_precision(wanted, self.group.device)
        (usable_by_each,) = self.group.gather(float(precision != "float32"))
        if not all(usable_by_each):
            precision = "float32"

        reason = (
            f" ({processor.try_bfloat16().reason})"
            if wanted == "bf16" and self.group.device.type == "cpu"
            else ""
        )
        if used_before and precision != wanted:
            log.warning(
                f"this training began in {wanted}, which is not used here{reason}: it goes on in"
                f" {precision}, so its results are not those of a training on one machine"
            )
        if precision != wanted or not used_before:
            used_before.append(precision)
        return precision, reason

    @property
    def step(self) -> int:
        return self.progress.steps(self.steps_per_epoch)

    def _examples(self) -> Examples:
        """What is learned from at the current step, as its phase cuts it."""
        return self.cut[self.config.training.phase(self.step).until]

    def _learning_rate(self, step: int) -> float:
        """That of a step of the current epoch; what came before it is in the progress, so that a
        resumed run has it.
        """
        bounds = (
            [-row["dev_objective"] for row in self.progress.history] if self._watches_bound else []
        )
        return learning_rate(self.config.training, step, self.total_steps, bounds)

    @property
    def _watches_bound(self) -> bool:
        return self.config.training.schedule == "plateau"

    def _finished(self) -> bool:
        patience, history = self.config.training.patience, self.progress.history
        if not history:
            return False
        best = min(history, key=lambda row: row["dev_loss"])
        if patience is not None and history[-1]["epoch"] - best["epoch"] >= patience:
            log.info(f"no lower development loss in {patience} epochs: the training ends")
            return True
        # the last steps may be done and not yet evaluated
        return bool(history[-1]["step"] >= self.total_steps)

    def _train_epoch(self) -> None:
        """All batches of this epoch that are not done yet; the end of the run may cut it short."""
        progress, batch_size = self.progress, self.config.training.batch_size
        order = self.train.shuffled(batch_size, self.config.seed, progress.epoch)
        end = min(self.steps_per_epoch, self.total_steps - progress.epoch * self.steps_per_epoch)
        for rows in order[progress.batch : end]:
            with enough_for(f"a training step of {len(rows)} examples", HINT):
                exit_code = self._step(rows)
            progress.batch += 1
            if self.graphs is not None and (self.graphs.is_due or progress.first_loss is None):
                self._read_graphs()
            self.reporter.step(progress)
            if exit_code:
                raise Stopped(exit_code)
            if self.timer.due() and progress.batch < end:
                self._save()
        self._read_graphs()

    def _step(self, rows: Rows) -> int:
        """Learns from a batch; returns the exit code of a process that is to stop, or 0."""
        training = self.config.training
        # What is drawn depends on the step alone, here and in an evaluation, so that a resumed run
        # draws the same.
        seed = step_seed(self.config.seed, self.step, self.group.rank)
        torch.manual_seed(seed)
        self._set_learning_rate(self._learning_rate(self.step))
        self.model.progress(self.step, self.total_steps)
        tokens = int(self._examples().target_lengths[rows].sum())
        units = tokens if training.normalize == "tokens" else len(rows)
        if self._replay_step(rows, units, seed):
            (exit_codes,) = self._gather(self.stop.exit_code())
            return int(max(exit_codes))

        return self._plain_step(rows, units, tokens)

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _replay_step(self, rows: Rows, units: int, seed: int) -> bool:
        """Learns from a batch by a recorded step; whether it did."""
        if self.graphs is None or self.graphs.reason is not None:
            return False
        self.model.train()
        is_done = self.graphs.step(self._examples().batch(rows), units, seed)
        if not is_done:
            self._read_graphs()  # while all that is to be read is before this batch
            # what was drawn for a step that does not count is drawn once more
            torch.manual_seed(seed)
        return is_done

    def _read_graphs(self) -> None:
        """Adds to the progress what replayed steps gave. A UserError says that it is no number."""
        if self.graphs is None:
            return
        progress, graphs = self.progress, self.graphs
        sums = graphs.read()
        if not sums.steps:
            return

        if not sums.are_finite:
            place = f"epoch {progress.epoch + 1}, batch {progress.batch}"
            if sums.steps > 1:
                place = (
                    f"epoch {progress.epoch + 1}, batches {progress.batch - sums.steps + 1} to"
                    f" {progress.batch}"
                )
            raise _no_number(place, sums.loss, sums.norm)
        if progress.first_loss is None:
            progress.first_loss = sums.loss / sums.tokens
        progress.loss += sums.loss
        progress.tokens += sums.tokens
        progress.examples += sums.examples
        progress.replayed_steps += sums.steps
        progress.replayed_tokens += sums.tokens
        progress.replayed_places += sums.places
        progress.replayed_shapes += sums.shapes

    def _plain_step(self, rows: Rows, units: int, tokens: int) -> int:
        """Learns from a batch at once; the same result as of `_step`."""
        progress, training = self.progress, self.config.training
        self.optimizer.zero_grad()
        # Long and short rows are mixed in each part as in the batch; of one that is too small a
        # part is empty.
        own_loss = self._backward(rows[self.group.rank :: self.group.size], units)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), training.clip))
        losses, exit_codes = self._gather(own_loss, self.stop.exit_code())
        loss = sum(losses)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise _no_number(f"epoch {progress.epoch + 1}, batch {progress.batch + 1}", loss, norm)
        self.optimizer.step()
        if progress.first_loss is None:
            progress.first_loss = loss / tokens
        progress.loss, progress.tokens = progress.loss + loss, progress.tokens + tokens
        progress.examples += len(rows)
        return int(max(exit_codes))

    def _backward(self, rows: Rows, units: int) -> float:
        """Adds the gradient of `rows`, this process's part of a batch of so many `units`; returns
        their loss, a sum.
        """
        self.model.train()
        # Gradients are averaged over processes, though it is their sum that counts, over the units
        # of all.
        scale, loss = self.group.size / units, 0.0
        count = min(self.config.training.accumulate, len(rows))
        parts = np.array_split(rows, count) if count else [rows]
        for index, part in enumerate(parts, start=1):
            batch = self._examples().batch(part).to(self.group.device) if len(part) else None
            objective, more = self.objective, index < len(parts)
            with (
                objective.no_sync()
                if more and isinstance(objective, DistributedDataParallel)
                else nullcontext()
            ):
                total = objective(batch)
                (total * scale).backward()
            loss += float(total.detach())
        return loss

    def _gather(self, *values: float) -> list[tuple[float, ...]]:
        """Values of all processes; adds up the time that they have spent since the last call."""
        spent = self.stopwatch.restart()
        *gathered, cpus, gpus = self.group.gather(*values, spent["cpu_s"], spent["gpu_s"])
        self.progress.wall_s += spent["wall_s"]
        self.progress.cpu_s += sum(cpus)
        self.progress.gpu_s += sum(gpus)
        return gathered

    def _finish_epoch(self) -> None:
        """Evaluates, adds a row to the history, keeps weights that are the best, saves a state."""
        progress = self.progress
        weights, dev = self._evaluate()
        self._gather()
        before = progress.history[-1] if progress.history else {"examples": 0, "tokens": 0}
        row: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "step": self.step,
            "examples": before["examples"] + progress.examples,
            "tokens": before["tokens"] + progress.tokens,
            "learning_rate": self._learning_rate(self.step - 1),
            "train_loss": progress.loss / progress.tokens,
            **{f"dev_{name}": dev.get(name) for name in ("loss", "accuracy", *EVAL_METRICS)},
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
        }
        self._check_divergence(row)
        self.reporter.epoch(row)
        progress.history.append(row)
        # On equal terms the later epoch is the best: its learning rate is the lower one.
        best, select = progress.best or row, self.config.training.select
        better = row["dev_loss"] <= best["dev_loss"] if select == "loss" else select == "last"
        if better or (select == "accuracy" and row["dev_accuracy"] >= best["dev_accuracy"]):
            progress.best, self.best = row, _clone(weights)
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.loss, progress.tokens, progress.examples = 0.0, 0, 0
        self._save()

    def _evaluate(self) -> tuple[Weights, dict[str, float]]:
        """Weights that may be the best, a mean over the last epochs, and their scores on `dev`."""
        config, average = self.config, self.config.training.average
        # as it was, if the training was stopped in between
        self.model.progress(self.step - 1, self.total_steps)
        mean = own = self.model.state_dict()
        recent = self.recent
        if average > 1:
            own = _clone(own)
            recent = [*recent, own][-average:]
            mean = {name: torch.stack([one[name] for one in recent]).mean(0) for name in own}
            self.model.load_state_dict(mean)
        torch.manual_seed(step_seed(config.seed, self.step, self.group.rank))
        try:
            actions, accuracy = (
                config.components.targets == "actions",
                config.training.select == "accuracy",
            )
            wanted = {
                "actions": actions,
                "accuracy": accuracy,
                "eval_metrics": config.training.eval_metrics,
            }
            wanted["objective"] = self._watches_bound
            measured = evaluate(
                self.model, self.dev, config.decoding, self.group, self.stop, **wanted
            )
        finally:
            if average > 1:
                self.model.load_state_dict(own)
        # Not before: a training that is stopped in an evaluation does it once more.
        self.recent = recent
        return mean, measured

    def _check_divergence(self, row: dict[str, Any]) -> None:
        """Stops a training that diverges, also if only its last steps do, by a UserError."""
        first, limit = self.progress.first_loss, self.config.training.divergence
        assert first is not None
        for name, loss in (("training", row["train_loss"]), ("development", row["dev_loss"])):
            # Written so that a loss that is no number fails too.
            if not loss <= limit * first:
                place = f"in epoch {row['epoch']}, {first:.4g} in the first batch"
                hint = "lower `training.learning_rate`, or raise `training.divergence`"
                raise UserError(f"training diverges: {name} loss {loss:.4g} {place}", hint=hint)

    def _save(self) -> None:
        self._read_graphs()
        with self.timer.saving():
            if self.group.is_main:
                needed = self.config.training.average - 1
                recent = self.recent[-needed:] if needed else []
                self.states.save(pack(self.model, self.optimizer, self.best, recent), self.progress)


def _no_number(place: str, loss: float, norm: float) -> UserError:
    message = f"the loss is no longer a number ({place}: loss {loss}, gradient norm {norm})"
    return UserError(message, hint="lower `training.learning_rate` or `training.clip`")


def _clone(weights: Weights) -> Weights:
    """The same numbers in tensors of their own."""
    return {name: value.clone() for name, value in weights.items()}


@torch.no_grad()
def evaluate(
    model: Model,
    examples: Examples,
    decoding: Decoding,
    group: ProcessGroup,
    stop: Stop,
    *,
    actions: bool = False,
    accuracy: bool = True,
    eval_metrics: bool = False,
    objective: bool = False,
) -> dict[str, float]:
    """Teacher-forced loss and exact-match accuracy by greedy search; the group shares the batches.

    Returns `loss` in nats per target token, end symbol included; with `accuracy`, that of whole
    outputs from 0 to 1; and with `eval_metrics`, `token_accuracy`, how often the most probable next
    symbol is the target's, `objective`, what training maximizes, be it log p or a bound, in nats
    per target token, and `positions`, how many are summed over for a token; with `objective`, that
    one of these. What an objective draws comes from torch's generator. Stopped is raised if a
    process is to stop.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})
    loss, tokens, matches, metrics = 0.0, 0, 0, torch.zeros(3, dtype=torch.float64)
    for batch in islice(examples.in_order(decoding.batch_size), group.rank, None, group.size):
        if stop.exit_code():
            break
        work = f"the evaluation of {len(batch.rows)} examples side by side"
        with enough_for(work, "lower `decoding.batch_size`"):
            batch = batch.to(group.device)
            given = batch.source, batch.lengths, batch.target
            loss -= float(model.log_likelihood(*given).double()[batch.mask].sum())
            tokens += int(batch.mask.sum())
            if accuracy:
                outputs = search(model, batch.source, batch.lengths, greedy, actions)
                for row, output in zip(batch.rows.tolist(), outputs, strict=True):
                    target = strip(examples.targets[row].tolist())
                    matches += output.complete and [*strip(output.symbols), EOS] == target
            if eval_metrics or objective:
                parts = [
                    torch.zeros_like(batch.mask),
                    model.objective(*given),
                    torch.zeros_like(batch.mask),
                ]
                if eval_metrics:
                    forced = model.teacher_force(*given)
                    parts[0], parts[2] = forced.correct, forced.positions
                metrics += torch.stack([part.double()[batch.mask].sum() for part in parts]).cpu()
    *sums, codes = group.gather(loss, tokens, matches, *metrics.tolist(), stop.exit_code())
    if any(codes):
        raise Stopped(int(max(codes)))
    all_loss, all_tokens, all_matches, *all_metrics = map(sum, sums)
    measured = {"loss": all_loss / all_tokens}
    if accuracy:
        measured["accuracy"] = all_matches / len(examples)
    wanted = EVAL_METRICS if eval_metrics else ("objective",) if objective else ()
    found = dict(zip(EVAL_METRICS, all_metrics, strict=True))
    return measured | {name: found[name] / all_tokens for name in wanted}
