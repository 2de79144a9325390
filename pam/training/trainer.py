"""The training loop and its evaluation.

It knows batches, likelihoods and time, not which model it trains.
"""

from __future__ import annotations

import logging
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pam.data.dataset import Batch, Examples, Rows
from pam.data.lengths import PairLengths, following
from pam.data.vocabulary import EOS, strip
from pam.decoding.hypotheses import Output
from pam.decoding.search import search
from pam.experiments.run_config import RunConfig
from pam.experiments.settings import Decoding, Phase
from pam.models.attention_model import AttentionModel
from pam.models.guide import Guide
from pam.models.model import Model
from pam.runtime import processor, torch_internals
from pam.runtime.devices import Stopwatch, enough_for, use_precision
from pam.runtime.errors import UserError
from pam.training.checkpoint import CheckpointTimer, Progress, StateFolder, Weights, pack, unpack
from pam.training.distributed import ProcessGroup, step_seed
from pam.training.graphs import CudaRecorder, Recorder, StepGraphs
from pam.training.guided import GivenLinks
from pam.training.learning_rate import learning_rate
from pam.training.logging import Reporter
from pam.training.preemption import Stop, Stopped

HINT = "lower `training.batch_size`, or raise `training.accumulate`, which cuts a batch into parts"
EVAL_METRICS = ("token_accuracy", "objective", "positions")
log = logging.getLogger(__name__)


class Objective(nn.Module):
    """The loss as a module, so that torch can share out its forward pass over processes.

    With `bf16`, large products are in bfloat16. Processes that share the module (`shared`) each
    wait for a gradient of every weight, also of the weights that are not used.
    """

    def __init__(self, model: Model, bf16: bool, shared: bool) -> None:
        super().__init__()
        self.model = model
        self.shared = shared
        model.use_bf16(bf16)

    def forward(self, batch: Batch | None, guide: Guide | None = None) -> Tensor:
        """Compute minus the objective, (), summed over the batch's tokens, in nats.

        The objective is log p or a bound, less the cost of given links if there is a `guide`.
        Without a batch the loss is 0.
        """
        loss = torch.zeros(())
        if batch is None or self.shared:
            # With a gradient of zero for every weight.
            loss = torch.stack([value.sum() * 0 for value in self.parameters()]).sum()

        if batch is not None:
            tensors = (batch.source, batch.lengths, batch.target)
            if guide is None:
                objective = self.model.objective(*tensors)
            else:
                assert isinstance(self.model, AttentionModel)
                objective = self.model.objective(*tensors, guide)
            loss = loss - objective[batch.mask].sum()
        return loss


@dataclass
class Trainer:
    """One training from its first step, or from a saved state, to its last epoch.

    The processes of its `group` do the same steps, each with its part of every batch. Only the main
    process writes.
    """

    config: RunConfig
    model: Model  # on the group's device, with fresh weights, the same in each process
    train: Examples
    dev: Examples  # the resulting weights are those of the epoch that is best on them
    states: StateFolder  # where the complete state is saved
    reporter: Reporter
    group: ProcessGroup = field(default_factory=ProcessGroup)
    stop: Stop = field(default_factory=Stop)  # checked after each step
    # records steps; None: a recorder for CUDA devices, where steps can be recorded
    recorder: Recorder | None = None
    given_links: GivenLinks | None = None  # of the training examples, by which attention is guided

    def __post_init__(self) -> None:
        training = self.config.training

        recorder = self._choose_recorder()
        self.optimizer = self._make_optimizer(recorder)
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

        pairs = PairLengths(self.train.source_lengths, self.train.target_lengths)
        self.decoding = following(self.config.decoding, pairs)

        self.progress = Progress()
        self.best: Weights = {}
        self.recent: list[Weights] = []

        self.steps_per_epoch = math.ceil(len(self.train) / training.batch_size)
        steps = training.epochs * self.steps_per_epoch
        self.total_steps = min(steps, training.max_steps or steps)

    # The whole run.

    def run(self) -> tuple[Weights, Progress]:
        """Train; return the resulting weights, and how the training went.

        A UserError says that the loss is no number or grows without end, or that memory does not
        suffice; Stopped, that it stopped on request and has saved its state.
        """
        self._resume()
        precision, reason = self._choose_precision()
        self.progress.products = use_precision(precision, self.progress.products, self.group.device)

        self.objective: nn.Module = Objective(
            self.model,
            bf16=precision == "bf16",
            shared=self.group.size > 1,
        )
        if self.group.size > 1:
            # Gradients are the mean over processes after each backward pass.
            self.objective = DistributedDataParallel(self.objective, gradient_as_bucket_view=True)

        self.stopwatch = Stopwatch(self.group.device)
        self.timer = CheckpointTimer(self.config.training.state_every_s)
        progress = self.progress
        with self.reporter.open(
            per_epoch=self.steps_per_epoch,
            steps=self.total_steps,
            progress=progress,
            precision=f"{precision}{reason}",
            may_end_sooner=self.config.training.patience is not None,
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

    def _resume(self) -> None:
        """Load the saved state, if there is one."""
        saved = self.states.load()
        if saved is None:
            return

        tensors, self.progress = saved
        self.progress.resumed += 1
        self.best, self.recent = unpack(tensors, self.model, self.optimizer)
        log.info(f"resuming from epoch {self.progress.epoch + 1}, batch {self.progress.batch + 1}")

    def _make_optimizer(self, recorder: Recorder | None) -> torch.optim.Optimizer:
        """Build the optimizer; its learning rate is a tensor where steps are recorded."""
        training = self.config.training
        settings: dict[str, Any] = {"lr": training.learning_rate, "fused": True}
        if recorder is not None:
            settings["lr"] = torch.tensor(training.learning_rate, device=self.group.device)

        if training.optimizer == "sgd":
            return torch.optim.SGD(self.model.parameters(), **settings)

        if recorder is not None and recorder.capturable:
            settings["capturable"] = True
        beta1, beta2 = training.adam_betas
        return torch.optim.Adam(self.model.parameters(), betas=(beta1, beta2), **settings)

    def _choose_recorder(self) -> Recorder | None:
        """Choose how steps are recorded; None if they are not.

        The log says why, if the training asks for recorded steps and cannot have them.
        """
        training = self.config.training
        if training.cuda_graphs == "off":
            return None

        reasons = self.model.waiting_parts()
        if self.group.size > 1:
            reasons.append("several processes share the training")
        if self.given_links is not None:
            reasons.append("`training.guided` gives links of words")
        if training.accumulate > 1:
            reasons.append("`training.accumulate` cuts batches into parts")
        if not torch_internals.can_record_steps():
            oldest = ".".join(map(str, torch_internals.OLDEST_WITH_GRAPHS))
            reasons.append(f"torch {torch.__version__} is older than {oldest}")
        if self.group.device.type != "cuda" and self.recorder is None:
            reasons.append("the device is a CPU")
        if reasons:
            log.info(f"no CUDA graphs: {'; '.join(dict.fromkeys(reasons))}")
            return None

        return self.recorder or CudaRecorder(self.group.device)

    def _choose_precision(self) -> tuple[str, str]:
        """Choose the precision of large products; return it, and the reason in words.

        It is what the training asks for where this machine has it. A training that goes on keeps to
        the precision in which it began; where that is not possible, it goes on in float32, with a
        warning. The choice is noted in the progress.
        """
        used_before = self.progress.precisions
        preferred: str = self.config.training.precision
        if used_before:
            preferred = used_before[-1]
        precision = processor.usable_precision(preferred, self.group.device)
        (is_usable,) = self.group.gather(float(precision != "float32"))
        if not all(is_usable):
            precision = "float32"

        reason = ""
        if preferred == "bf16" and self.group.device.type == "cpu":
            reason = f" ({processor.try_bfloat16().reason})"
        if used_before and precision != preferred:
            log.warning(
                f"this training began in {preferred}, which is not used here{reason}: it continues"
                f" in {precision}, so its results are not those of a training on one machine"
            )
        if precision != preferred or not used_before:
            used_before.append(precision)
        return precision, reason

    def _finished(self) -> bool:
        history = self.progress.history
        if not history:
            return False

        patience = self.config.training.patience
        best = min(history, key=lambda row: row["dev_loss"])
        if patience is not None and history[-1]["epoch"] - best["epoch"] >= patience:
            log.info(f"no lower development loss in {patience} epochs: the training ends")
            return True
        # the last steps may be done and not yet evaluated
        return bool(history[-1]["step"] >= self.total_steps)

    def _save(self) -> None:
        self._read_graphs()
        with self.timer.saving():
            if self.group.is_main:
                needed = self.config.training.average - 1
                recent = self.recent[-needed:] if needed else []
                self.states.save(pack(self.model, self.optimizer, self.best, recent), self.progress)

    # Learning from batches.

    @property
    def step(self) -> int:
        """The number of the current step, from 0."""
        return self.progress.steps(self.steps_per_epoch)

    def _examples(self) -> Examples:
        """Return the training examples as the phase of the current step cuts them."""
        return self.cut[self.config.training.phase(self.step).until]

    def _learning_rate(self, step: int) -> float:
        """Return the learning rate at a step of the current epoch.

        The epochs before it are in the progress, so that a resumed run has them too.
        """
        bounds: list[float] = []
        if self._watches_bound:
            bounds = [-row["dev_objective"] for row in self.progress.history]
        return learning_rate(self.config.training, step, self.total_steps, bounds)

    @property
    def _watches_bound(self) -> bool:
        return self.config.training.schedule == "plateau"

    def _train_epoch(self) -> None:
        """Do all batches of this epoch that are not done yet.

        The end of the run may cut the epoch short.
        """
        progress = self.progress
        order = self.train.shuffled(
            self.config.training.batch_size, self.config.seed, progress.epoch
        )
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
        """Learn from a batch; return the exit code of a process that is to stop, or 0."""
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
        """Learn from a batch by a recorded step; return whether that was possible."""
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
        """Add to the progress what replayed steps gave. A UserError says that it is no number."""
        if self.graphs is None:
            return
        progress = self.progress
        sums = self.graphs.read()
        if not sums.steps:
            return

        if not sums.are_finite:
            batches = f"batch {progress.batch}"
            if sums.steps > 1:
                batches = f"batches {progress.batch - sums.steps + 1} to {progress.batch}"
            raise _no_number(f"epoch {progress.epoch + 1}, {batches}", sums.loss, sums.norm)

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
        """Learn from a batch without a recorded step; return the same as `_step`."""
        progress = self.progress
        self.optimizer.zero_grad()
        # Each process takes every n-th row, so that long and short rows are mixed in its part as in
        # the batch. Of a batch with too few rows a part is empty.
        loss_of_part = self._backward(rows[self.group.rank :: self.group.size], units)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.training.clip))
        losses, exit_codes = self._gather(loss_of_part, self.stop.exit_code())
        loss = sum(losses)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise _no_number(f"epoch {progress.epoch + 1}, batch {progress.batch + 1}", loss, norm)

        self.optimizer.step()

        if progress.first_loss is None:
            progress.first_loss = loss / tokens
        progress.loss += loss
        progress.tokens += tokens
        progress.examples += len(rows)
        return int(max(exit_codes))

    def _backward(self, rows: Rows, units: int) -> float:
        """Add the gradient of `rows`, this process's part of a batch of so many `units`.

        Returns their loss, a sum.
        """
        self.model.train()
        # Torch averages gradients over processes, but the sum over the units of all is needed.
        scale = self.group.size / units
        count = min(self.config.training.accumulate, len(rows))
        parts = np.array_split(rows, count) if count else [rows]

        loss = 0.0
        for index, part in enumerate(parts, start=1):
            batch: Batch | None = None
            guide: Guide | None = None
            if len(part):
                batch = self._examples().batch(part)
                if self.given_links is not None:
                    guide = self.given_links.of_batch(batch).to(self.group.device)
                batch = batch.to(self.group.device)

            # Processes exchange their gradients with the last part alone.
            exchange: AbstractContextManager[None] = nullcontext()
            if index < len(parts) and isinstance(self.objective, DistributedDataParallel):
                exchange = self.objective.no_sync()
            with exchange:
                total = self.objective(batch, guide)
                (total * scale).backward()
            loss += float(total.detach())
        return loss

    def _gather(self, *values: float) -> list[tuple[float, ...]]:
        """Gather values of all processes, and add up the time spent since the last call."""
        spent = self.stopwatch.restart()
        *gathered, cpu_seconds, gpu_seconds = self.group.gather(
            *values, spent["cpu_s"], spent["gpu_s"]
        )
        self.progress.wall_s += spent["wall_s"]
        self.progress.cpu_s += sum(cpu_seconds)
        self.progress.gpu_s += sum(gpu_seconds)
        return gathered

    # The end of an epoch.

    def _finish_epoch(self) -> None:
        """Evaluate, add a row to the history, keep weights that are the best, save a state."""
        progress = self.progress
        weights, dev_scores = self._evaluate()
        self._gather()

        row = self._history_row(dev_scores)
        self._check_divergence(row)
        self.reporter.epoch(row)
        progress.history.append(row)
        if self._is_best(row):
            progress.best = row
            self.best = _clone(weights)

        if progress.batch == self.steps_per_epoch:
            progress.epoch += 1
            progress.batch = 0
        progress.loss = 0.0
        progress.tokens = 0
        progress.examples = 0
        self._save()

    def _history_row(self, dev_scores: dict[str, float]) -> dict[str, Any]:
        """Return the history's row of the current epoch, which is over."""
        progress = self.progress
        before = progress.history[-1] if progress.history else {"examples": 0, "tokens": 0}
        return {
            "epoch": progress.epoch + 1,
            "step": self.step,
            "examples": before["examples"] + progress.examples,
            "tokens": before["tokens"] + progress.tokens,
            "learning_rate": self._learning_rate(self.step - 1),
            "train_loss": progress.loss / progress.tokens,
            **{f"dev_{name}": dev_scores.get(name) for name in ("loss", "accuracy", *EVAL_METRICS)},
            "wall_s": progress.wall_s,
            "cpu_s": progress.cpu_s,
        }

    def _is_best(self, row: dict[str, Any]) -> bool:
        """Check whether an epoch is at least as good as the best one before it.

        On equal terms the later epoch is the best: its learning rate is the lower one.
        """
        best = self.progress.best or row
        select = self.config.training.select
        if select == "loss":
            return bool(row["dev_loss"] <= best["dev_loss"])
        if select == "accuracy":
            return bool(row["dev_accuracy"] >= best["dev_accuracy"])
        return select == "last"

    def _evaluate(self) -> tuple[Weights, dict[str, float]]:
        """Return the weights that may be the best, and their scores on `dev`.

        The weights are a mean over the last `training.average` epochs.
        """
        training = self.config.training
        # as it was, if the training was stopped in between
        self.model.progress(self.step - 1, self.total_steps)

        current = self.model.state_dict()
        mean = current
        recent = self.recent
        if training.average > 1:
            current = _clone(current)
            recent = [*recent, current][-training.average :]
            mean = {
                name: torch.stack([weights[name] for weights in recent]).mean(0) for name in current
            }
            self.model.load_state_dict(mean)

        torch.manual_seed(step_seed(self.config.seed, self.step, self.group.rank))
        try:
            scores = evaluate(
                self.model,
                self.dev,
                self.decoding,
                self.group,
                self.stop,
                actions=self.config.components.targets == "actions",
                accuracy=training.select == "accuracy",
                eval_metrics=training.eval_metrics,
                objective=self._watches_bound,
            )
        finally:
            if training.average > 1:
                self.model.load_state_dict(current)

        # Not before: a training that is stopped in an evaluation does it once more.
        self.recent = recent
        return mean, scores

    def _check_divergence(self, row: dict[str, Any]) -> None:
        """Raise a UserError if the training diverges, also if only its last steps do."""
        first_loss = self.progress.first_loss
        limit = self.config.training.divergence
        assert first_loss is not None
        for name, loss in (("training", row["train_loss"]), ("development", row["dev_loss"])):
            # Written so that a loss that is no number fails too.
            if not loss <= limit * first_loss:
                context = f"in epoch {row['epoch']}, {first_loss:.4g} in the first batch"
                hint = "lower `training.learning_rate`, or raise `training.divergence`"
                raise UserError(f"training diverges: {name} loss {loss:.4g} {context}", hint=hint)


def _no_number(batches: str, loss: float, norm: float) -> UserError:
    message = f"the loss is no longer a number ({batches}: loss {loss}, gradient norm {norm})"
    return UserError(message, hint="lower `training.learning_rate` or `training.clip`")


def _clone(weights: Weights) -> Weights:
    """Copy the numbers into tensors of their own."""
    return {name: value.clone() for name, value in weights.items()}


# Evaluation.


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
    """Measure teacher-forced loss and exact-match accuracy of greedy search.

    The processes of the group share the batches. What an objective draws comes from torch's
    generator. Stopped is raised if a process is to stop.

    Args:
        actions: whether the model writes pointer actions.
        accuracy: whether to search.
        eval_metrics: whether to measure all of `EVAL_METRICS`.
        objective: whether to measure the objective, also without the other metrics.

    Returns:
        `loss` in nats per target token, end symbol included. `accuracy` of whole outputs, from 0
        to 1. `token_accuracy`, how often the most probable next symbol is the target's.
        `objective`, what training maximizes, be it log p or a bound, in nats per target token.
        `positions`, how many are summed over for a token.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})

    # On the device, for whose sum the processor waits but once.
    loss = torch.zeros((), dtype=torch.float64, device=group.device)
    tokens = 0
    matches = 0
    metrics = torch.zeros(len(EVAL_METRICS), dtype=torch.float64)
    for batch in islice(examples.in_order(decoding.batch_size), group.rank, None, group.size):
        if stop.exit_code():
            break

        work = f"the evaluation of {len(batch.rows)} examples side by side"
        with enough_for(work, "lower `decoding.batch_size`"):
            tokens += int(batch.mask.sum())
            batch = batch.to(group.device)
            log_likelihood = model.log_likelihood(batch.source, batch.lengths, batch.target)
            loss -= torch.where(batch.mask, log_likelihood.double(), 0.0).sum()
            if accuracy:
                outputs = search(model, batch.source, batch.lengths, greedy, actions)
                for row, output in zip(batch.rows.tolist(), outputs, strict=True):
                    matches += _is_match(output, examples.targets[row].tolist())
            if eval_metrics or objective:
                metrics += _sum_metrics(model, batch, eval_metrics)

    *sums, exit_codes = group.gather(
        float(loss), tokens, matches, *metrics.tolist(), stop.exit_code()
    )
    if any(exit_codes):
        raise Stopped(int(max(exit_codes)))

    all_loss, all_tokens, all_matches, *all_metrics = map(sum, sums)
    scores = {"loss": all_loss / all_tokens}
    if accuracy:
        scores["accuracy"] = all_matches / len(examples)
    for name, total in zip(EVAL_METRICS, all_metrics, strict=True):
        if eval_metrics or (objective and name == "objective"):
            scores[name] = total / all_tokens
    return scores


def _is_match(output: Output, target: list[int]) -> bool:
    """Check whether an output is the whole target, its end symbol included."""
    return output.complete and [*strip(output.symbols), EOS] == strip(target)


def _sum_metrics(model: Model, batch: Batch, eval_metrics: bool) -> Tensor:
    """Sum each of `EVAL_METRICS` over a batch's tokens: (3,), on the CPU.

    Without `eval_metrics` only the objective is measured, and the others are 0.
    """
    objective = model.objective(batch.source, batch.lengths, batch.target)
    correct = torch.zeros_like(batch.mask)
    positions = torch.zeros_like(batch.mask)
    if eval_metrics:
        forced = model.teacher_force(batch.source, batch.lengths, batch.target)
        correct = forced.correct
        positions = forced.positions

    values_by_metric = (correct, objective, positions)
    return torch.stack([values.double()[batch.mask].sum() for values in values_by_metric]).cpu()
