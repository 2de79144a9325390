"""Trainings on a CUDA device; skipped where there is none."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch

from pam.cli import main
from pam.training.distributed import ProcessGroup
from pam.training.preemption import Stop, Stopped
from tests.training import small
from tests.training.runs import record_of
from tests.training.trainers import trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_a_training_learns_in_every_precision(data: Path, tmp_path: Path, precision: str) -> None:
    run = small.run("postr-joint", epochs=15, precision=precision, state_every_s=60.0, learning_rate=0.01)
    small.write_run(tmp_path, run)
    assert main(["train", "--run", str(tmp_path), "--data", str(data), "--code", "x", "--device", "cuda"]) == 0
    record = record_of(tmp_path)
    assert record["hardware"]["gpu"] == torch.cuda.get_device_name()
    assert 0 < record["gpu_s"] <= record["wall_s"]
    history = (tmp_path / "history.csv").read_text(encoding="utf-8").splitlines()
    column = history[0].split(",").index("train_loss")
    first, last = (float(line.split(",")[column]) for line in (history[1], history[-1]))
    assert last < 0.8 * first


def test_a_training_that_was_stopped_goes_on_to_nearly_the_same_result(data: Path, tmp_path: Path) -> None:
    """Nearly: sums of a GPU are not always taken in the same order."""
    run = small.run("soft", epochs=2, batch_size=30, state_every_s=60.0)

    def on_cuda(out: Path, stop: Stop | None = None) -> dict[str, torch.Tensor]:
        own = trainer(run, data, out, stop=stop, group=ProcessGroup(device=torch.device("cuda")))
        own.model.cuda()
        return own.run()[0]

    whole = on_cuda(tmp_path / "whole")
    calls = count(1)
    with pytest.raises(Stopped):
        on_cuda(tmp_path / "again", Stop(lambda: next(calls) >= 3))
    weights = on_cuda(tmp_path / "again")
    for name, value in whole.items():
        torch.testing.assert_close(weights[name].cpu(), value.cpu(), rtol=1e-3, atol=1e-4, msg=name)
