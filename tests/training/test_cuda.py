"""Trainings on a CUDA device; skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pam.cli import main
from pam.experiments.run_config import RunConfig
from pam.models.attention_model import AttentionModel
from pam.runtime.devices import use_precision
from pam.training.distributed import ProcessGroup
from pam.training.graphs import CudaRecorder, StepGraphs, is_out_of_memory
from pam.training.preemption import Stop, Stopped
from tests.models.tiny import NAMED
from tests.training import small
from tests.training.runs import record_of
from tests.training.trainers import Result, trained, trainer, without_dropout

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """Take products in float32: in TF32, cuDNN's own choice, a device differs from a CPU by 1e-3.

    What a test of a precision chooses does not last longer than the test.
    """
    use_precision("float32", device=CUDA)
    yield
    use_precision("float32", device=CUDA)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_a_training_learns_in_every_precision(data: Path, tmp_path: Path, precision: str) -> None:
    run = small.run(
        "postr-joint", epochs=15, precision=precision, state_every_s=60.0, learning_rate=0.01
    )
    small.write_run(tmp_path, run)

    files = ["--run", str(tmp_path), "--data", str(data)]
    assert main(["train", *files, "--code", "x", "--device", "cuda"]) == 0

    record = record_of(tmp_path)
    assert record["hardware"]["gpu"] == torch.cuda.get_device_name()
    assert 0 < record["gpu_s"] <= record["wall_s"]

    history = (tmp_path / "history.csv").read_text(encoding="utf-8").splitlines()
    column = history[0].split(",").index("train_loss")
    first = float(history[1].split(",")[column])
    last = float(history[-1].split(",")[column])

    assert last < 0.8 * first


def test_a_training_that_was_stopped_goes_on_to_nearly_the_same_result(
    data: Path, tmp_path: Path
) -> None:
    """Nearly: sums of a GPU are not always taken in the same order."""
    run = small.run("soft", epochs=2, batch_size=30, state_every_s=60.0)

    def on_cuda(out: Path, stop: Stop | None = None) -> dict[str, torch.Tensor]:
        training = trainer(run, data, out, stop=stop, group=ProcessGroup(device=CUDA))
        training.model.cuda()
        return training.run()[0]

    whole = on_cuda(tmp_path / "whole")
    calls = count(1)
    with pytest.raises(Stopped):
        on_cuda(tmp_path / "again", Stop(lambda: next(calls) >= 3))
    weights = on_cuda(tmp_path / "again")
    for name, value in whole.items():
        torch.testing.assert_close(weights[name].cpu(), value.cpu(), rtol=1e-3, atol=1e-4, msg=name)


# Steps that are replayed as CUDA graphs.


def replayed(run: RunConfig, data: Path, out: Path, stop: Stop | None = None) -> Result:
    return trainer(run, data, out, stop=stop, group=ProcessGroup(device=CUDA)).run()


@pytest.mark.parametrize("name", NAMED)
def test_every_model_that_need_not_wait_is_replayed(
    name: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each recorded shape agrees with the plain step, else no step is replayed."""
    caplog.set_level("INFO")
    _, progress = replayed(
        small.run(name, epochs=2, cuda_graphs="auto", select="loss"), data, tmp_path
    )
    waits = "fusedmax" in caplog.text

    assert progress.replayed_steps == (0 if waits else 8), caplog.text


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_replayed_steps_learn_what_those_of_the_cpu_do(
    optimizer: str, data: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"epochs": 2, "select": "loss", "optimizer": optimizer}
    run = without_dropout(small.run("postr-joint", cuda_graphs="auto", **settings))
    on_cuda = replayed(run, data, tmp_path / "replayed")
    on_cpu = trained(without_dropout(small.run("postr-joint", **settings)), data, tmp_path / "cpu")

    assert on_cuda[1].replayed_steps == 8

    for mine, plain in zip(on_cuda[1].history, on_cpu[1].history, strict=True):
        assert mine["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-3)


def test_replays_draw_by_the_seed_alone(data: Path, tmp_path: Path) -> None:
    training = trainer(small.run(), data, tmp_path)
    model = training.model.cuda().train()
    rate = torch.tensor(0.0, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=True)
    graphs = StepGraphs(model, optimizer, clip=5.0, rows=15, recorder=CudaRecorder(CUDA))
    batch = training.train.batch(np.arange(15))
    losses = []
    for seed in (1, 2, 1, 2):
        assert graphs.step(batch, 100, seed)
        losses.append(graphs.read().loss)

    assert losses[0] == pytest.approx(losses[2], rel=1e-6)
    assert losses[1] == pytest.approx(losses[3], rel=1e-6)
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)


def test_a_replayed_training_that_was_stopped_goes_on_to_nearly_the_same_result(
    data: Path, tmp_path: Path
) -> None:
    run = small.run("soft", epochs=2, cuda_graphs="auto", state_every_s=60.0)
    whole = replayed(run, data, tmp_path / "whole")
    calls = count(1)
    with pytest.raises(Stopped):
        replayed(run, data, tmp_path / "again", Stop(lambda: next(calls) >= 3))
    again = replayed(run, data, tmp_path / "again")
    for name, value in whole[0].items():
        torch.testing.assert_close(
            again[0][name].cpu(), value.cpu(), rtol=1e-3, atol=1e-4, msg=name
        )


def waits(x: torch.Tensor) -> None:
    """Wait for the device, which cannot be recorded."""
    nn.functional.dropout(x * 2).sum().item()


def test_a_recording_that_fails_leaves_plain_work_as_it_was() -> None:
    """Also dropout, for which torch before 2.13 would take its generator as still recorded."""
    x = torch.ones(1000, device=CUDA)
    before = torch.cuda.current_stream()
    recorder = CudaRecorder(CUDA)
    recorder.run(lambda: waits(x))
    with pytest.raises(RuntimeError):
        recorder.record(lambda: waits(x))

    assert torch.cuda.current_stream() == before
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append(nn.functional.dropout(x).cpu())
    assert torch.equal(*draws)
    assert 300 < int((draws[0] == 0).sum()) < 700


def test_a_training_whose_steps_cannot_be_recorded_goes_on_plainly(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With dropout, to the same result as one that records nothing."""
    plain = replayed(small.run("soft", epochs=2, select="loss"), data, tmp_path / "plain")
    objective = AttentionModel.objective

    def waiting(self: AttentionModel, *inputs: torch.Tensor) -> torch.Tensor:
        values = objective(self, *inputs)
        if torch.cuda.is_current_stream_capturing():
            values.sum().item()
        return values

    monkeypatch.setattr(AttentionModel, "objective", waiting)
    run = small.run("soft", epochs=2, select="loss", cuda_graphs="auto")
    broken = replayed(run, data, tmp_path / "broken")

    assert broken[1].replayed_steps == 0
    assert "a step could not be recorded" in caplog.text
    for mine, expected in zip(broken[1].history, plain[1].history, strict=True):
        assert mine["train_loss"] == pytest.approx(expected["train_loss"], rel=1e-3)


def test_memory_that_is_short_while_a_step_is_recorded_is_freed_for_the_next() -> None:
    x = torch.ones(1000, device=CUDA)
    recorder = CudaRecorder(CUDA)
    free, _ = torch.cuda.mem_get_info()
    with pytest.raises(RuntimeError) as caught:
        recorder.record(lambda: torch.empty(2 * free, dtype=torch.uint8, device=CUDA))
    assert is_out_of_memory(caught.value)
    recorder.free()

    replay = recorder.record(lambda: x.add_(1))
    replay()
    assert float(x.sum()) == 2000


@pytest.mark.parametrize("has_cudnn", [True, False])
def test_an_lstm_is_replayed_forward_and_backward(has_cudnn: bool) -> None:
    """By cuDNN, as encoders have it, and by torch's own kernels."""
    torch.manual_seed(1)
    lstm = nn.LSTM(8, 8).to(CUDA)
    x = torch.zeros(6, 4, 8, device=CUDA)
    gradients = [torch.zeros_like(weight) for weight in lstm.parameters()]

    def work() -> None:
        lstm.zero_grad(set_to_none=True)
        lstm(x)[0].square().sum().backward()
        for weight, gradient in zip(lstm.parameters(), gradients, strict=True):
            assert weight.grad is not None
            gradient.copy_(weight.grad)

    with torch.backends.cudnn.flags(enabled=has_cudnn, allow_tf32=False):
        recorder = CudaRecorder(CUDA)
        recorder.run(work)
        replay = recorder.record(work)
        # Other values than those that were recorded.
        x.normal_()
        replay()
        actual = [gradient.clone() for gradient in gradients]
        recorder.run(work)

    torch.testing.assert_close(actual, gradients)
    assert all(bool(gradient.any()) for gradient in gradients)
