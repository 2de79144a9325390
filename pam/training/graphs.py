"""Training steps that are recorded once for each shape of a batch, and replayed: CUDA graphs.

A step of a recurrent model is hundreds of small kernels for every target position, and a GPU waits
for the processor to launch them. A graph launches all kernels of a step at once: forward and
backward pass, clipping and optimizer. It replays the same kernels on the same addresses, so nothing
in a step may depend on the value of a tensor: batches are padded to few shapes
(`pam.data.buckets`), models take them whole (`Compute.static`), and numbers that change from step
to step are tensors on the device.
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
from pam.runtime import torch_internals

READ_EVERY = 20  # steps after which the device is asked for the loss and the norm of gradients
COMPARISONS = 2  # so many steps of a shape are compared with plain ones
# relative difference of a replayed step's loss and norm from the plain step's, at most
TOLERANCE = 1e-4
# The same for the step that all weights take. A gradient that is zero but for rounding moves its
# weight by a whole step of Adam in either direction, so that a few weights may differ.
STEP_TOLERANCE = 0.1

Work = Callable[[], None]
Shape = tuple[object, ...]
log = logging.getLogger(__name__)


class GraphsFailedError(Exception):
    """Steps cannot be recorded, or a replayed step differs from the plain one; it says why."""


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
    def copy(self, values: Tensor, destination: Tensor) -> None:
        """Copy values of the host to the device without waiting."""


class CudaRecorder(Recorder):
    """Records work as CUDA graphs, which share one pool of memory.

    Work that cannot be recorded leaves the device as it was: it does plain work on the same stream
    as before, and draws.
    """

    capturable = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        # Torch's allocator may refer to a graph whose recording failed for as long as it lives.
        self.failed: list[torch.cuda.CUDAGraph] = []

    def run(self, work: Work) -> None:
        # On the stream that records: what autograd notes of weights belongs to the stream of its
        # first use.
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                work()
        finally:
            current.wait_stream(self.stream)

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                _same_stream(self.device),
                _no_collection(),
                torch.cuda.graph(graph, pool=self.pool, stream=self.stream),
            ):
                work()
        except BaseException:
            self.failed.append(graph)
            graph.reset()
            torch_internals.renew_generator(self.device)
            raise
        return graph.replay

    def free(self) -> None:
        # The memory of a pool is freed when the last of its graphs has gone.
        gc.collect()
        self.pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()

    def copy(self, values: Tensor, destination: Tensor) -> None:
        destination.copy_(values.pin_memory(), non_blocking=True)


class PlainRecorder(Recorder):
    """Records nothing: to replay work is to do it.

    It is for devices without graphs, in tests and benchmarks.
    """

    def run(self, work: Work) -> None:
        work()

    def record(self, work: Work) -> Work:
        return work

    def free(self) -> None:
        pass

    def copy(self, values: Tensor, destination: Tensor) -> None:
        destination.copy_(values)


@contextmanager
def _same_stream(device: torch.device) -> Iterator[None]:
    """Return to the current stream at the end of this context.

    `torch.cuda.graph` stays on its own where a recording cannot be ended.
    """
    current = torch.cuda.current_stream(device)
    try:
        yield
    finally:
        torch.cuda.set_stream(current)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from freeing tensors of the device.

    Nothing may be freed while work is recorded. What is garbage by then, such as the graph of
    autograd of an earlier step in a cycle, is freed before.
    """
    gc.collect()
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
    """The inputs of steps of one shape, at the same addresses each time."""

    source: Tensor  # (B, m) ids, or (B, m, units) vectors
    lengths: Tensor  # (B,)
    target: Tensor  # (B, T)
    scale: Tensor  # () of the loss, whose gradient is taken

    @classmethod
    def like(cls, batch: Batch, device: torch.device) -> Inputs:
        """Make room on the device for batches of this shape."""
        return cls(
            source=torch.zeros(batch.source.shape, dtype=batch.source.dtype, device=device),
            lengths=torch.zeros(batch.lengths.shape, dtype=batch.lengths.dtype, device=device),
            target=torch.zeros(batch.target.shape, dtype=batch.target.dtype, device=device),
            scale=torch.zeros((), device=device),
        )


@dataclass(frozen=True)
class RecordedStep:
    """A step of one shape that can be replayed."""

    inputs: Inputs
    replay: Work
    comparisons: int  # so many of its steps agreed with plain ones


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step."""

    loss: float
    norm: float  # of the gradient
    weights: list[Tensor]  # after the step

    @property
    def is_finite(self) -> bool:
        """True if loss and norm are numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


@dataclass(frozen=True)
class Sums:
    """The sums over several steps."""

    loss: float = 0.0  # in nats
    norm: float = 0.0  # of gradients; not finite if one of them was not
    steps: int = 0
    tokens: int = 0  # of targets
    places: int = 0  # the same, with padding
    examples: int = 0
    shapes: int = 0  # how often a step was recorded

    @property
    def are_finite(self) -> bool:
        """True if all losses and norms were numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class StepGraphs:
    """The steps of one training, recorded for each shape and replayed.

    The first two steps of a shape are done plainly too, from the same weights and the same seed:
    the one that is recorded, and one of another batch and seed. Loss, norm of the gradient and
    the new weights have to agree. If they do not, or if recording fails, steps are not recorded any
    more.

    Args:
        model: on the device; its objective is maximized.
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

        # of the last step
        self.loss = self._zero()
        self.norm = self._zero()
        # of the steps that were not read yet
        self.loss_sum = self._zero()
        self.norm_sum = self._zero()
        self.unread = Sums()

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64, device=self.device)

    @property
    def is_due(self) -> bool:
        """True if so many steps were done that their sums should be read."""
        return self.unread.steps >= READ_EVERY

    def step(self, batch: Batch, units: int, seed: int) -> bool:
        """Learn from a batch, whose loss is divided by `units`; return whether that was possible.

        Learning rate and schedules are set before. What is drawn depends on the seed alone. If the
        step was not possible, everything is as before, and the caller has to do it plainly.
        """
        if self.reason is not None:
            return False

        tokens = int(batch.mask.sum())
        padded = pad_to_bucket(batch, self.rows)
        shape = (*padded.source.shape, *padded.target.shape, *self.model.settings)

        try:
            if self._comparisons(shape) < COMPARISONS:
                is_done = self._compare(shape, padded, 1 / units, seed)
            else:
                self._replay(self.recorded[shape], padded, 1 / units, seed)
                is_done = True
        except GraphsFailedError as error:
            self.reason = str(error)

        # Not before the error has gone, which holds all that the step had made.
        if self.reason is not None:
            self._drop_all()
            log.warning(f"no CUDA graphs from here on: {self.reason}")
            return False

        if is_done:
            self.recorded.move_to_end(shape)
            self.unread = Sums(
                steps=self.unread.steps + 1,
                tokens=self.unread.tokens + tokens,
                places=self.unread.places + padded.target.numel(),
                examples=self.unread.examples + len(batch.target),
                shapes=self.unread.shapes,
            )
        return is_done

    def read(self) -> Sums:
        """Wait for the device; return the sums over the steps since the last call."""
        if not self.unread.steps:
            return Sums()

        sums = replace(self.unread, loss=float(self.loss_sum), norm=float(self.norm_sum))
        self.loss_sum.zero_()
        self.norm_sum.zero_()
        self.unread = Sums()
        return sums

    def _comparisons(self, shape: Shape) -> int:
        recorded = self.recorded.get(shape)
        return recorded.comparisons if recorded is not None else 0

    def _replay(self, recorded: RecordedStep, batch: Batch, scale: float, seed: int) -> None:
        self._fill(recorded.inputs, batch, scale)
        torch.manual_seed(seed)
        recorded.replay()

    def _fill(self, inputs: Inputs, batch: Batch, scale: float) -> None:
        self.recorder.copy(batch.source, inputs.source)
        self.recorder.copy(batch.lengths, inputs.lengths)
        self.recorder.copy(batch.target, inputs.target)
        inputs.scale.fill_(scale)

    def _work(self, inputs: Inputs) -> Work:
        """Return the work of a step of one shape."""

        def work() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with self.model.computing(static=True):
                objective = self.model.objective(inputs.source, inputs.lengths, inputs.target)
            loss = -torch.where(inputs.target != PAD, objective, 0.0).sum()

            (loss * inputs.scale).backward()
            norm = nn.utils.clip_grad_norm_(self.parameters, self.clip)
            self.optimizer.step()

            self.loss.copy_(loss.detach())
            self.norm.copy_(norm)
            self.loss_sum.add_(self.loss)
            self.norm_sum.add_(self.norm)

        return work

    def _compare(self, shape: Shape, batch: Batch, scale: float, seed: int) -> bool:
        """Do the step of a shape plainly and replayed; return whether it was done.

        A shape that is new is recorded. Where memory is short, all that was recorded is dropped:
        its graphs share their memory, so that some of them hold nearly as much as all. A loss that
        is no number is left to the plain step.
        """
        while True:
            before: Snapshot | None = None
            try:
                before = Snapshot(self)
                if shape in self.recorded:
                    inputs = self.recorded[shape].inputs
                else:
                    inputs = Inputs.like(batch, self.device)
                self._fill(inputs, batch, scale)
                return self._replay_and_compare(shape, inputs, before, seed)
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

            log.info(f"memory is short: {len(self.recorded)} recorded steps are dropped")
            self._drop_all()

    def _replay_and_compare(
        self, shape: Shape, inputs: Inputs, before: Snapshot, seed: int
    ) -> bool:
        """Do the step of a shape plainly, then replay it, from the same weights and seed.

        The replayed step counts if the two agree.
        """
        work = self._work(inputs)
        torch.manual_seed(seed)
        self.recorder.run(work)
        plain = self._outcome()
        before.restore()
        if not plain.is_finite:
            return False

        moved = self._distance(plain.weights)
        recorded = self.recorded.get(shape)
        if recorded is None:
            recorded = RecordedStep(inputs, self.recorder.record(work), comparisons=0)

        torch.manual_seed(seed)
        recorded.replay()
        difference = _difference(plain, self._outcome(), moved, self._distance(plain.weights))
        if difference is not None:
            before.restore()
            raise GraphsFailedError(f"a replayed step has {difference}")

        if not recorded.comparisons:
            self.unread = replace(self.unread, shapes=self.unread.shapes + 1)
        self.recorded[shape] = replace(recorded, comparisons=recorded.comparisons + 1)
        return True

    def _outcome(self) -> Outcome:
        """Wait for the device; return the outcome of the last step."""
        weights = [parameter.detach().clone() for parameter in self.parameters]
        return Outcome(float(self.loss), float(self.norm), weights)

    @torch.no_grad()
    def _distance(self, weights: list[Tensor]) -> float:
        """Return the distance of the model's weights from others."""
        pairs = zip(self.parameters, weights, strict=True)
        squares = [(parameter - weight).double().square().sum() for parameter, weight in pairs]
        return float(torch.stack(squares).sum().sqrt())

    def _drop_all(self) -> None:
        """Drop all that was recorded, and free its memory."""
        self.recorded.clear()
        # The gradients of the last recorded step are in the memory that all graphs share.
        self.optimizer.zero_grad(set_to_none=True)
        self.recorder.free()


class Snapshot:
    """The values of all that a step changes, from before the step."""

    def __init__(self, graphs: StepGraphs) -> None:
        self.optimizer = graphs.optimizer
        tensors = [
            *graphs.model.state_dict().values(),
            graphs.loss_sum,
            graphs.norm_sum,
            *self._optimizer_state(),
        ]
        self.copies = [(tensor, tensor.clone()) for tensor in tensors]
        self.copied_ids = {id(tensor) for tensor in tensors}

    def _optimizer_state(self) -> list[Tensor]:
        slots = [value for state in self.optimizer.state.values() for value in state.values()]
        return [value for value in slots if isinstance(value, Tensor)]

    @torch.no_grad()
    def restore(self) -> None:
        """Set everything back to these values."""
        for tensor, value in self.copies:
            tensor.copy_(value)

        # An optimizer makes its state at its first step, of zeros.
        for tensor in self._optimizer_state():
            if id(tensor) not in self.copied_ids:
                tensor.zero_()


def _difference(plain: Outcome, replayed: Outcome, moved: float, apart: float) -> str | None:
    """Say in what a replayed step differs from the plain one; None if the two agree.

    Args:
        moved: how far the plain step moved the weights.
        apart: how far the weights of the two are from each other.
    """
    if not _agree(plain.loss, replayed.loss) or not _agree(plain.norm, replayed.norm):
        return (
            f"loss {replayed.loss:.6g} and gradient norm {replayed.norm:.6g}, the plain one"
            f" {plain.loss:.6g} and {plain.norm:.6g}"
        )
    if not apart <= STEP_TOLERANCE * moved:
        return f"weights that are {apart:.3g} from the plain one's, which moved by {moved:.3g}"
    return None


def _agree(plain: float, replayed: float) -> bool:
    return abs(plain - replayed) <= TOLERANCE * abs(plain)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it followed on.

    Recording that is broken off raises an error of its own on top of the first.
    """
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _first_line(error: BaseException) -> str:
    """Return the first line of the error with which it began."""
    *_, first = _chain(error)
    return (str(first).strip() or type(first).__name__).splitlines()[0]


def is_out_of_memory(error: BaseException) -> bool:
    """Check whether memory was short.

    What CUDA and its libraries say of that has no class of its own where a graph is made ready.
    """
    return any(
        isinstance(part, MemoryError | torch.OutOfMemoryError)
        or torch_internals.says_out_of_memory(part)
        for part in _chain(error)
    )
