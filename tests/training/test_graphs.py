"""Steps that are recorded and replayed, on a CPU, where a recording is the work itself."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from pam.experiments.run_config import RunConfig
from pam.models.model import Model
from pam.runtime import torch_internals
from pam.runtime.errors import UserError
from pam.training import graphs as training_graphs
from pam.training.distributed import ProcessGroup
from pam.training.graphs import CudaRecorder, PlainRecorder, Recorder, Work
from pam.training.preemption import Stop, Stopped
from tests.training import small
from tests.training.trainers import Result, trained, trainer, without_dropout

SHORT: dict[str, Any] = {"epochs": 1, "select": "loss", "state_every_s": 60.0}


@pytest.fixture
def narrow_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each length be a bucket, so that small batches have many shapes."""
    monkeypatch.setattr(training_graphs, "pad_to_bucket", lambda batch, rows: batch)


class StandIn(PlainRecorder):
    """Counts what is done; `errors` are raised in place of recordings."""

    def __init__(self, errors: Iterator[BaseException | None] | None = None) -> None:
        self.errors = errors
        self.runs = self.records = self.replays = self.frees = 0

    def run(self, work: Work) -> None:
        self.runs += 1
        work()

    def record(self, work: Work) -> Work:
        if self.errors is not None:
            error = next(self.errors)
            if error is not None:
                raise error

        self.records += 1

        def replay() -> None:
            self.replays += 1
            work()

        return replay

    def free(self) -> None:
        self.frees += 1


def replayed(
    run: RunConfig, data: Path, out: Path, recorder: Recorder, stop: Stop | None = None
) -> Result:
    return trainer(run, data, out, stop=stop, recorder=recorder).run()


def config(model: str = "soft", **training: Any) -> RunConfig:
    return small.run(model, cuda_graphs="auto", **training)


def assert_same_weights(actual: Result, expected: Result, **tolerance: float) -> None:
    for name, value in expected[0].items():
        torch.testing.assert_close(actual[0][name], value, msg=name, **tolerance)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("model", ["soft", "postr-joint"])
def test_replayed_steps_learn_what_plain_ones_do(
    model: str, optimizer: str, data: Path, tmp_path: Path
) -> None:
    recorder = StandIn()
    settings: dict[str, Any] = {
        **SHORT,
        "epochs": 2,
        "optimizer": optimizer,
        "normalize": "sentences",
    }
    run = without_dropout(config(model, **settings))
    by_replays = replayed(run, data, tmp_path / "replayed", recorder)
    by_plain_steps = trained(without_dropout(small.run(model, **settings)), data, tmp_path)

    assert_same_weights(by_replays, by_plain_steps, rtol=1e-3, atol=1e-5)

    for mine, plain in zip(by_replays[1].history, by_plain_steps[1].history, strict=True):
        assert (mine["tokens"], mine["examples"]) == (plain["tokens"], plain["examples"])
        assert mine["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-5)

    assert by_replays[1].first_loss == pytest.approx(by_plain_steps[1].first_loss, rel=1e-6)
    assert by_replays[1].replayed_steps == 8


def test_each_shape_is_recorded_once_and_compared_with_two_plain_steps(
    data: Path, tmp_path: Path
) -> None:
    recorder = StandIn()
    _, progress = replayed(config(**SHORT | {"epochs": 2}), data, tmp_path, recorder)
    assert recorder.records == progress.replayed_shapes
    assert recorder.runs == 2 * recorder.records
    assert recorder.records < recorder.replays == progress.replayed_steps == 8
    assert progress.replayed_tokens < progress.replayed_places


def test_a_step_that_is_compared_counts_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain steps before it leave nothing behind.

    It would change weights, the state of the optimizer and the averages of an estimator.
    """
    run = config("hard", **SHORT)
    estimator = {"kind": "reinforce", "baseline": "moving"}
    components = run.components.model_dump() | {"estimator": estimator}
    run = RunConfig.model_validate(run.model_dump() | {"components": components})
    run = without_dropout(run)
    compared = replayed(run, data, tmp_path / "compared", StandIn())

    class Blind(StandIn):
        """Plain steps are not done: there is nothing to leave."""

        def run(self, work: Work) -> None:
            pass

    monkeypatch.setattr(training_graphs, "_difference", lambda *outcomes: None)
    not_compared = replayed(run, data, tmp_path / "blind", Blind())
    assert_same_weights(compared, not_compared, rtol=0.0, atol=0.0)


def test_a_replayed_step_that_differs_turns_graphs_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:

    class Wrong(StandIn):
        def record(self, work: Work) -> Work:
            def replay() -> None:
                work()
                assert training.graphs is not None
                training.graphs.loss.mul_(1.001)

            return replay

    training = trainer(
        without_dropout(config(**SHORT)), data, tmp_path / "replayed", recorder=Wrong()
    )
    result = training.run()
    expected = trained(without_dropout(small.run(**SHORT)), data, tmp_path)

    assert_same_weights(result, expected, rtol=1e-4, atol=1e-6)
    assert result[1].replayed_steps == 0

    (message,) = (record.message for record in caplog.records if "no CUDA graphs" in record.message)
    assert "a replayed step has loss" in message


def test_a_replayed_step_that_moves_weights_otherwise_turns_graphs_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Loss and norm are those from before the weights move, so they do not tell."""

    class Lame(StandIn):
        def record(self, work: Work) -> Work:
            def replay() -> None:
                before = [weight.detach().clone() for weight in weights]
                work()
                with torch.no_grad():
                    for weight, value in zip(weights, before, strict=True):
                        weight.copy_(value)

            return replay

    run = without_dropout(config(**SHORT))
    training = trainer(run, data, tmp_path / "replayed", recorder=Lame())
    weights = list(training.model.parameters())
    result = training.run()
    expected = trained(without_dropout(small.run(**SHORT)), data, tmp_path)

    assert_same_weights(result, expected, rtol=1e-4, atol=1e-6)
    assert result[1].replayed_steps == 0
    assert "a replayed step has weights" in caplog.text


def test_a_recorded_step_that_keeps_its_first_batch_turns_graphs_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that was recorded cannot tell; the next one of its shape does."""

    class Stuck(StandIn):
        def record(self, work: Work) -> Work:
            assert training.graphs is not None
            first: list[torch.Tensor] = []

            def replay() -> None:
                target = filled[-1].target
                if not first:
                    first.append(target.clone())
                target.copy_(first[0])
                work()

            return replay

    training = trainer(without_dropout(config(**SHORT)), data, tmp_path, recorder=Stuck())
    assert training.graphs is not None
    filled: list[Any] = []
    fill = training.graphs._fill

    def noted(inputs: Any, *others: Any) -> None:
        filled.append(inputs)
        fill(inputs, *others)

    training.graphs._fill = noted  # type: ignore[method-assign]
    _, progress = training.run()

    assert progress.replayed_steps == 1
    assert progress.history[-1]["examples"] == 60
    assert "a replayed step has loss" in caplog.text


def test_a_step_that_cannot_be_recorded_turns_graphs_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, narrow_buckets: None
) -> None:
    # The first shape is recorded, the second one is not.
    errors = iter([None, RuntimeError("operation not permitted\nwhen stream is capturing")])
    run = without_dropout(config(**SHORT))
    result = replayed(run, data, tmp_path / "replayed", StandIn(errors))
    expected = trained(without_dropout(small.run(**SHORT)), data, tmp_path)

    assert_same_weights(result, expected, rtol=1e-3, atol=1e-5)
    assert 0 < result[1].replayed_steps < 4
    assert result[1].history[-1]["examples"] == 60

    (message,) = (record.message for record in caplog.records if "no CUDA graphs" in record.message)
    assert message.endswith("a step could not be recorded (operation not permitted)")


def test_the_log_has_the_error_that_broke_a_recording_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To end a broken recording raises another one, which says nothing of its cause."""
    error = RuntimeError("failed due to a previous error during capture")
    error.__context__ = RuntimeError("operation not permitted")
    replayed(config(**SHORT), data, tmp_path, StandIn(iter([error])))
    assert "(operation not permitted)" in caplog.text


@pytest.mark.parametrize(
    "short",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        # where a graph is made ready, or cuBLAS
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_all_shapes_are_dropped_with_their_memory_where_it_is_short(
    short: RuntimeError, data: Path, tmp_path: Path, narrow_buckets: None
) -> None:
    """They share a pool, which is free when its last graph has gone, and the last gradients."""

    class Watched(StandIn):
        def free(self) -> None:
            super().free()
            assert training.graphs is not None
            assert not training.graphs.recorded
            assert all(weight.grad is None for weight in training.model.parameters())

    # Memory is short at the third recording.
    recorder = Watched(short if number == 2 else None for number in count())
    run = config(**SHORT | {"batch_size": 10})
    training = trainer(run, data, tmp_path, recorder=recorder)
    _, progress = training.run()

    assert recorder.frees == 1
    assert progress.replayed_steps == 6
    assert progress.replayed_shapes == recorder.records


def test_memory_that_holds_no_recorded_step_turns_graphs_off(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    errors = (torch.OutOfMemoryError("CUDA out of memory") for _ in count())
    _, progress = replayed(config(**SHORT), data, tmp_path, StandIn(errors))
    assert progress.replayed_steps == 0
    assert "not enough memory to record a step" in caplog.text


def test_losses_are_read_late_and_before_a_state_is_saved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = training_graphs.StepGraphs.read

    def noted(self: training_graphs.StepGraphs) -> training_graphs.Sums:
        sums = plain(self)
        if sums.steps:
            read.append(sums.steps)
        return sums

    monkeypatch.setattr(training_graphs.StepGraphs, "read", noted)
    monkeypatch.setattr(training_graphs, "READ_EVERY", 5)
    run = config(**SHORT | {"epochs": 2, "batch_size": 5})
    _, progress = replayed(run, data, tmp_path, StandIn())

    assert read == [1, 5, 5, 1, 5, 5, 2]
    assert progress.history[-1]["examples"] == 120


def test_a_loss_that_is_no_number_is_found_late_with_its_batches(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count(1)
    plain = Model.computing

    def spoiled(self: Model, **changes: bool) -> Any:
        # Each recorded shape takes two of the calls for each of its first two steps.
        if "static" in changes and next(calls) == 10:
            with torch.no_grad():
                next(self.parameters()).fill_(torch.nan)
        return plain(self, **changes)

    monkeypatch.setattr(Model, "computing", spoiled)
    with pytest.raises(
        UserError, match=r"no longer a number \(epoch 1, batches \d+ to 12: loss nan"
    ):
        replayed(config(**SHORT | {"batch_size": 5}), data, tmp_path, StandIn())


@pytest.mark.parametrize("model", ["soft", "variational-gumbel"])
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(
    model: str, data: Path, tmp_path: Path
) -> None:
    """Also with dropout and noise: a step's draws depend on seed and step alone."""
    run = config(model, epochs=2, select="loss")
    whole = replayed(run, data, tmp_path / "whole", StandIn())
    calls = count(1)
    with pytest.raises(Stopped):
        replayed(run, data, tmp_path / "again", StandIn(), Stop(lambda: next(calls) >= 3))
    again = replayed(run, data, tmp_path / "again", StandIn())

    assert_same_weights(again, whole, rtol=0.0, atol=0.0)
    assert again[1].replayed_steps == whole[1].replayed_steps == 8
    assert [row["train_loss"] for row in again[1].history] == pytest.approx(
        [row["train_loss"] for row in whole[1].history], rel=1e-12
    )


def test_a_schedule_that_jumps_has_steps_recorded_anew(data: Path, tmp_path: Path) -> None:
    latent = {"kind": "acvi", "last": 0.5, "weight": {"kind": "linear", "first": 0.1, "last": 1.0}}
    run = config("acvi", **SHORT)
    components = run.components.model_dump() | {"latent": latent}
    run = RunConfig.model_validate(run.model_dump() | {"components": components})
    training = trainer(run, data, tmp_path, recorder=StandIn())
    training.run()

    assert training.graphs is not None

    shapes = [shape[:4] for shape in training.graphs.recorded]
    assert len(set(shapes)) < len(shapes)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"accumulate": 2}, "`training.accumulate` cuts batches into parts"),
        ({"components": "sparse"}, "fusedmax asks after each round"),
        ({"group": ProcessGroup(0, 2)}, "several processes share the training"),
        ({"recorder": None}, "the device is a CPU"),
        ({"torch": "2.10.1"}, "torch 2.10.1 is older than 2.11"),
    ],
)
def test_the_log_says_why_steps_are_not_recorded(
    settings: dict[str, Any],
    reason: str,
    data: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    settings = dict(settings)
    monkeypatch.setattr(torch, "__version__", settings.pop("torch", torch.__version__))
    recorder = settings.pop("recorder", StandIn())
    group = settings.pop("group", None)
    run = config(settings.pop("components", "soft"), **settings)
    training = trainer(run, data, tmp_path, group=group, recorder=recorder)

    assert training.graphs is None
    assert reason in caplog.text


def test_graphs_that_are_off_are_not_looked_for(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    training = trainer(small.run(), data, tmp_path, recorder=StandIn())
    assert training.graphs is None
    assert "CUDA" not in caplog.text


# The recorder of a CUDA device, on a device that is made up.


class Device:
    """What the recorder asks of `torch.cuda`; recordings end with `error`, if there is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
        self.error = error
        self.stream = "the main stream"
        self.generators = [torch.Generator()]
        self.renewed = 0
        self.resets = 0
        self.is_collecting = True
        self.freed_before = False
        self.garbage = lambda: True

        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "the recorder's stream")
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.stream)
        monkeypatch.setattr(torch.cuda, "set_stream", self.set_stream)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: self)
        monkeypatch.setattr(torch.cuda, "graph", self.graph)
        monkeypatch.setattr(torch_internals, "renew_generator", self.renew_generator)

    def set_stream(self, stream: str) -> None:
        self.stream = stream

    def renew_generator(self, device: torch.device) -> None:
        # Torch refuses that while the stream is recorded.
        assert self.stream == "the main stream"
        self.renewed += 1

    def reset(self) -> None:
        self.resets += 1

    def replay(self) -> None:
        pass

    def graph(self, graph: Device, pool: Any, stream: str) -> Any:
        """Return the context in which work is recorded, as torch 2.13 has it."""
        device = self

        class Recording:
            def __enter__(self) -> None:
                device.is_collecting = gc.isenabled()
                device.freed_before = device.garbage() is None
                device.stream = stream

            def __exit__(self, *error: object) -> None:
                if device.error is not None:
                    raise device.error
                device.stream = "the main stream"

        return Recording()


@pytest.mark.parametrize("fails", ["at its end", "in its work", "not"])
def test_a_recording_leaves_the_device_as_it_was(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain steps go on in the stream of before, and what draws can draw."""
    error = RuntimeError("failed due to a previous error during capture")
    device = Device(monkeypatch, error=None if fails == "not" else error)
    recorder = CudaRecorder(torch.device("cuda", 0))

    def work() -> None:
        if fails == "in its work":
            raise RuntimeError("operation not permitted")

    if fails == "not":
        recorder.record(work)
    else:
        with pytest.raises(RuntimeError, match="previous error"):
            recorder.record(work)

    assert device.stream == "the main stream"
    assert device.renewed == device.resets == (0 if fails == "not" else 1)
    assert gc.isenabled()


def test_what_is_garbage_is_freed_before_a_recording_and_nothing_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    device = Device(monkeypatch, error=None)
    device.garbage = weakref.ref(Cycle())
    CudaRecorder(torch.device("cuda", 0)).record(lambda: None)

    assert device.freed_before
    assert not device.is_collecting
