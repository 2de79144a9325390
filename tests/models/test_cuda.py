"""A CUDA device computes what the CPU computes; skipped where there is none."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.experiments.settings import Decoding
from pam.models.kernels import output_layer, positions
from pam.models.kernels.positions import PositionLikelihood, gold_log_probs_plain
from pam.models.seq2seq import Seq2Seq
from tests.decoding import varied
from tests.decoding.best import assert_same, decode
from tests.models import tiny
from tests.models.gradients import cells_over_steps, drawn, values_and_gradients

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
DRAWING = ("acvi", "ved", "variational-sample", "variational-gumbel", "hard")
"""Models whose objective draws: the generators of both devices differ."""


@pytest.fixture(params=[output_layer.WHOLE, 0], ids=["whole", "picked"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test where all pairs of a step are computed, and where some are picked.

    The sizes of vocabularies decide between the two.
    """
    monkeypatch.setattr(output_layer, "WHOLE", request.param)
    monkeypatch.setattr(output_layer, "PICKING", 0)


def twins(name: str) -> tuple[Seq2Seq, Seq2Seq]:
    """Make a model on the CPU, and the same on CUDA, in float64."""
    first, second = (tiny.model(tiny.components(name)) for _ in range(2))
    return first, second.cuda()


def gradients(model: Seq2Seq, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.sum().backward()
    return {
        name: part.grad.cpu() for name, part in model.named_parameters() if part.grad is not None
    }


def on_cuda(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(part.cuda() for part in parts)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", tiny.NAMED)
def test_likelihoods_and_gradients_are_those_of_the_cpu(name: str) -> None:
    cpu, cuda = twins(name)
    batch = tiny.batch()
    with torch.backends.cudnn.flags(enabled=False):  # its LSTM has gradients in training alone
        actual = cuda.log_likelihood(*on_cuda(batch))
    expected = cpu.log_likelihood(*batch)

    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(gradients(cuda, actual), gradients(cpu, expected))

    forced = [
        model.teacher_force(*inputs).log_probs.cpu()
        for model, inputs in ((cpu, batch), (cuda, on_cuda(batch)))
    ]
    torch.testing.assert_close(*forced)


@pytest.mark.parametrize("name", [name for name in tiny.NAMED if name not in DRAWING])
def test_objectives_are_those_of_the_cpu(name: str) -> None:
    cpu, cuda = twins(name)
    batch = tiny.batch()
    actual = cuda.train().objective(*on_cuda(batch))
    expected = cpu.train().objective(*batch)

    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(gradients(cuda, actual), gradients(cpu, expected))


@pytest.mark.parametrize("name", DRAWING)
def test_objectives_that_draw_have_a_gradient(name: str) -> None:
    _, cuda = twins(name)
    cuda_gradients = gradients(cuda, cuda.train().objective(*on_cuda(tiny.batch())))
    assert all(part.isfinite().all() for part in cuda_gradients.values())
    assert sum(bool(part.any()) for part in cuda_gradients.values()) > 5


@pytest.mark.parametrize("name", [name for name in tiny.NAMED if name not in DRAWING])
def test_static_objectives_are_those_of_the_cpu(name: str) -> None:
    cpu, cuda = twins(name)
    batch = tiny.batch()
    with cuda.computing(static=True):
        actual = cuda.train().objective(*on_cuda(batch))
        grads = gradients(cuda, actual)

    expected = cpu.train().objective(*batch)
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(grads, gradients(cpu, expected))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", tiny.NAMED)
def test_outputs_are_those_of_the_cpu(name: str, beam: int) -> None:
    decoding: Any = Decoding(beam=beam, max_ratio=1.0, max_extra=4)
    actions = varied.ACTIONS[name]
    expected = decode(varied.model(name), varied.SOURCES, decoding, actions)

    for output, expected_output in zip(
        decode(varied.model(name).cuda(), varied.SOURCES, decoding, actions), expected, strict=True
    ):
        assert_same(output, expected_output)


def same(kernel: Any, twin: Any, *inputs: Tensor) -> None:
    """Check that a kernel on CUDA has the values and gradients of its plain twin on the CPU."""
    actual, actual_gradients = values_and_gradients(kernel, on_cuda(inputs))
    expected, expected_gradients = values_and_gradients(twin, inputs)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        [part.cpu() for part in actual_gradients], expected_gradients, rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("shared", [False, True])
def test_the_fused_cell_is_the_plain_one_over_steps_that_lose_rows(shared: bool) -> None:
    kernel, twin, *inputs = cells_over_steps(shared)
    same(partial(kernel, False), twin, *inputs)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("chunk", [output_layer.CHUNK, 1])
def test_likelihoods_of_positions_are_the_plain_ones(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a probability is rounded to zero."""
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    monkeypatch.setattr(positions, "STORED_ON_CUDA", chunk)
    views = drawn(4, 5, 3)
    weight = drawn(6, 3) * 400
    bias = drawn(6)
    query = drawn(4, 3)
    symbols = torch.arange(4)
    kept = torch.ones(4, 5, dtype=torch.bool)

    def kernel(views: Tensor, weight: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        return PositionLikelihood(views, weight, bias)(query, symbols.cuda(), kept.cuda())

    def twin(views: Tensor, weight: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        return gold_log_probs_plain(views, query, weight, bias, symbols)

    assert float(twin(views, weight, bias, query).min()) < -200

    same(kernel, twin, views, weight, bias, query)
