"""Training steps that are recorded once for each shape of a batch, and replayed: CUDA graphs.

A step of a recurrent model is hundreds of small kernels for every target position, and a GPU waits
for the processor to launch them. A graph launches all kernels of a step at once: forward and
backward pass, clipping and optimizer. It replays the same kernels on the same addresses, so nothing
in a step may depend on the value of a tensor: batches are padded to few shapes
(`pam.data.buckets`), models take them whole (`Model.static`), and numbers that change from step to
step are tensors on the device.
"""

from __future__ import annotations

import gc
import logging
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pam.data.buckets import pad_to_bucket
from pam.data.dataset import Batch
from pam.data.vocabulary import PAD
from pam.models.model import Model

READ_EVERY = 20  # steps after which the device is asked for the loss and the norm of gradients
TOLERANCE = (
    1e-4  # relative difference of a replayed step's loss and norm from the plain one's, at most
)
Work = Callable[[], None]
Shape = tuple[object, ...]
log = logging.getLogger(__name__)


class GraphsFailedError(Exception):
    """Steps cannot be recorded, or a replayed one is not the plain one; it says why."""


# How work is recorded.


class Recorder(ABC):
    """Records work on a device, to do it again."""

    capturable = False  # whether an optimizer has to be told that its steps are recorded

    @abstractmethod
    def run(self, work: Work) -> None:
        """Do the work, as it is done before it is recorded."""

    @abstractmethod
    def record(self, work: Work) -> Work:
        """Record the work without doing it; return what does it again."""

    @abstractmethod
    def free(self) -> None:
        """Free the memory of all that was recorded, which is not used again."""

    @abstractmethod
    def copy(self, values: Tensor, place: Tensor) -> None:
        """Copy values of the host without waiting."""


class CudaRecorder(Recorder):
    """Records work as CUDA graphs, which share one pool of memory."""

    capturable = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def run(self, work: Work) -> None:
        # On the stream that records: what autograd notes of weights belongs to the stream of its
        # first use.
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            work()
        current.wait_stream(self.stream)

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        with _no_collection(), torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            work()
        return graph.replay

    def free(self) -> None:
        # The memory of a pool is freed when the last of its graphs has gone.
        gc.collect()
        self.pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()

    def copy(self, values: Tensor, place: Tensor) -> None:
        place.copy_(values.pin_memory(), non_blocking=True)


class PlainRecorder(Recorder):
    """Records nothing: to replay work is to do it. It is for devices without graphs, in tests and
    benches.
    """

    def run(self, work: Work) -> None:
        work()

    def record(self, work: Work) -> Work:
        return work

    def free(self) -> None:
        pass

    def copy(self, values: Tensor, place: Tensor) -> None:
        place.copy_(values)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from freeing what lies on the device: nothing may be freed while work is
    recorded.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# Steps.


@dataclass(frozen=True)
class Inputs:
    """What a step of one shape reads, at the same addresses each time."""

    source: Tensor  # (B, m) ids, or (B, m, units) vectors
    lengths: Tensor  # (B,)
    target: Tensor  # (B, T)
    scale: Tensor  # () of the loss, whose gradient is taken

    @classmethod
    def like(cls, batch: Batch, device: torch.device) -> Inputs:
        """Make place for batches of this shape."""
        source, lengths, target = (
            torch.zeros(part.shape, dtype=part.dtype, device=device)
            for part in (batch.source, batch.lengths, batch.target)
        )
        return cls(source, lengths, target, torch.zeros((), device=device))


@dataclass(frozen=True)
class RecordedStep:
    """A step of one shape that can be replayed."""

    inputs: Inputs
    replay: Work


@dataclass(frozen=True)
class Sums:
    """What several steps gave."""

    loss: float = 0.0  # in nats
    norm: float = 0.0  # of gradients; no number if one of them was none
    steps: int = 0
    tokens: int = 0  # of targets
    places: int = 0  # the same with those of padding
    examples: int = 0
    shapes: int = 0  # how often a step was recorded

    @property
    def are_finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class StepGraphs:
    """The steps of one training, recorded for each shape and replayed.

    A new shape's first step is done plainly too, from the same weights and the same seed: loss and
    norm of the gradient have to agree. Else, and where recording fails, steps are not recorded any
    more.

    Args:
        model: whose objective is maximized, on the device.
        optimizer: with a learning rate that is a tensor, so that it can change.
        clip: the largest norm of the gradient.
        rows: rows of each batch, those of padding included.
    """

    def __init__(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        clip: float,
        rows: int,
        recorder: Recorder,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.clip = clip
        self.rows = rows
        self.recorder = recorder
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        model.hold_schedules(self.device)

        # the least recently used one first
        self.recorded: OrderedDict[Shape, RecordedStep] = OrderedDict()
        self.reason: str | None = None  # why steps are not recorded any more

        self.loss, self.norm = self._numbers()  # of the last step
        self.loss_sum, self.norm_sum = self._numbers()  # of the steps that were not read yet
        self.unread = Sums()

    def _numbers(self) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        return loss, torch.zeros_like(loss)

    @property
    def is_due(self) -> bool:
        """Whether so many steps were done that their sums should be read."""
        return self.unread.steps >= READ_EVERY

    def step(self, batch: Batch, units: int, seed: int) -> bool:
        """Learn from a batch, of which the loss is divided by so many `units`.

        Learning rate and schedules are set before. What is drawn depends on the seed alone. Returns
        whether the step was done; else weights and all else are as before, and it is left to
        others.
        """
        if self.reason is not None:
            return False

        tokens = int(batch.mask.sum())
        padded = pad_to_bucket(batch, self.rows)
        shape = (*padded.source.shape, *padded.target.shape, *self.model.settings)
        try:
            recorded = self.recorded.get(shape)
            if recorded is None:
                is_done = self._record(shape, padded, 1 / units, seed)
            else:
                self._fill(recorded.inputs, padded, 1 / units)
                torch.manual_seed(seed)
                recorded.replay()
                is_done = True
        except GraphsFailedError as error:
            self.reason = str(error)
            self.recorded.clear()
            self.recorder.free()
            log.warning(f"no CUDA graphs from here on: {self.reason}")
            return False

        if is_done:
            self.recorded.move_to_end(shape)
            self.unread = Sums(
                steps=self.unread.steps + 1,
                tokens=self.unread.tokens + tokens,
                places=self.unread.places + padded.target.numel(),
                examples=self.unread.examples + len(batch.target),
                shapes=self.unread.shapes + (recorded is None),
            )
        return is_done

    def read(self) -> Sums:
        """Wait for the device; return what the steps since the last call gave."""
        if not self.unread.steps:
            return Sums()

        sums = replace(self.unread, loss=float(self.loss_sum), norm=float(self.norm_sum))
        self.loss_sum.zero_()
        self.norm_sum.zero_()
        self.unread = Sums()
        return sums

    def _fill(self, inputs: Inputs, batch: Batch, scale: float) -> None:
        self.recorder.copy(batch.source, inputs.source)
        self.recorder.copy(batch.lengths, inputs.lengths)
        self.recorder.copy(batch.target, inputs.target)
        inputs.scale.fill_(scale)

    def _work(self, inputs: Inputs) -> Work:
        """The step of one shape."""

        def work() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with self.model.static_steps():
                values = self.model.objective(inputs.source, inputs.lengths, inputs.target)
            loss = -torch.where(inputs.target != PAD, values, 0.0).sum()
            (loss * inputs.scale).backward()
            norm = nn.utils.clip_grad_norm_(self.parameters, self.clip)
            self.optimizer.step()

            self.loss.copy_(loss.detach())
            self.norm.copy_(norm)
            self.loss_sum.add_(self.loss)
            self.norm_sum.add_(self.norm)

        return work

    def _record(self, shape: Shape, batch: Batch, scale: float, seed: int) -> bool:
        """Record the step of a shape and do it once; the older half of the shapes is dropped, as
        often as it takes, where memory is short. Returns whether it was done: a loss that is no
        number is left to the plain step.
        """
        while True:
            before: Snapshot | None = None
            try:
                before = Snapshot(self)
                inputs = Inputs.like(batch, self.device)
                self._fill(inputs, batch, scale)
                return self._compared(shape, inputs, before, seed)
            except (MemoryError, RuntimeError) as error:
                if before is not None:
                    before.restore()
                if not is_out_of_memory(error):
                    raise GraphsFailedError(
                        f"a step could not be recorded ({_first_line(error)})"
                    ) from error
                if not self.recorded:
                    raise GraphsFailedError(
                        "there is not enough memory to record a step"
                    ) from error
                dropped = [*self.recorded][: (len(self.recorded) + 1) // 2]

            for old in dropped:
                del self.recorded[old]
            log.info(f"memory is short: {len(dropped)} of the recorded steps are dropped")
            self.recorder.free()

    def _compared(self, shape: Shape, inputs: Inputs, before: Snapshot, seed: int) -> bool:
        """Do the step of a shape plainly, then as it is recorded, from the same weights and seed;
        keep the latter's result if they agree.
        """
        work = self._work(inputs)
        torch.manual_seed(seed)
        self.recorder.run(work)
        plain = float(self.loss), float(self.norm)
        before.restore()
        if not all(map(math.isfinite, plain)):
            return False

        replay = self.recorder.record(work)
        torch.manual_seed(seed)
        replay()
        replayed = float(self.loss), float(self.norm)
        if not all(map(_agree, plain, replayed)):
            before.restore()
            values = f"loss {replayed[0]:.6g} and gradient norm {replayed[1]:.6g}"
            raise GraphsFailedError(
                f"a replayed step has {values}, the plain one {plain[0]:.6g} and {plain[1]:.6g}"
            )
        self.recorded[shape] = RecordedStep(inputs, replay)
        return True


class Snapshot:
    """All that a step changes, as it was before."""

    def __init__(self, graphs: StepGraphs) -> None:
        self.optimizer = graphs.optimizer
        changed = [*graphs.model.state_dict().values(), graphs.loss_sum, graphs.norm_sum]
        self.before = [(place, place.clone()) for place in [*changed, *self._state()]]
        self.known = {id(place) for place, _ in self.before}

    def _state(self) -> list[Tensor]:
        slots = [value for state in self.optimizer.state.values() for value in state.values()]
        return [value for value in slots if isinstance(value, Tensor)]

    @torch.no_grad()
    def restore(self) -> None:
        for place, value in self.before:
            place.copy_(value)
        # An optimizer makes its state at its first step, of zeros.
        for place in self._state():
            if id(place) not in self.known:
                place.zero_()


def _agree(plain: float, replayed: float) -> bool:
    return abs(plain - replayed) <= TOLERANCE * abs(plain)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory was short: recording that is broken off has an error of its own on top."""
    while error is not None:
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
