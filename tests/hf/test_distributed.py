"""`Trainer` in two processes takes the steps that one process would have taken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.hf.tiny import transformers

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def trained(folder: Path, processes: int, components: dict[str, Any]) -> dict[str, Any]:
    """Take two steps in so many processes; return losses, and weights before and after."""
    out = folder / f"{processes}.pt"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [
            *(*launch, "--nproc-per-node", str(processes)),
            *("-m", "tests.hf.two_steps", str(out), json.dumps(components)),
        ],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    result: dict[str, Any] = torch.load(out)
    return result


@pytest.mark.parametrize(
    "components",
    [{"coupling": "proximity"}, {"coupling": "monotone", "source_attention": False}],
    ids=["beside source attention", "alone"],
)
def test_two_processes_have_the_losses_and_gradients_of_one(
    tmp_path: Path, components: dict[str, Any]
) -> None:
    pytest.importorskip("accelerate", reason="the package accelerate is not installed")
    assert torch.distributed.is_gloo_available(), transformers.__version__
    one = trained(tmp_path, 1, components)
    two = trained(tmp_path, 2, components)

    assert two["losses"] == pytest.approx(one["losses"], rel=1e-4)
    # Each step of plain gradient descent takes off the gradient itself.
    moved = 0
    for name, before in one["before"].items():
        assert torch.equal(two["before"][name], before)
        gradients = [run["after"][name] - before for run in (one, two)]
        torch.testing.assert_close(gradients[1], gradients[0], msg=name)
        moved += int(gradients[0].any())
    assert moved > 20
