"""The log-linear output layer: normalizers of all states and positions by one product."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pam.models.kernels import log_linear
from pam.models.kernels.hidden_layers import IDENTITY
from pam.models.kernels.log_linear import log_linear_likelihoods
from pam.models.kernels.positions import gold_log_probs_plain

ROWS, STEPS, POSITIONS, UNITS, SYMBOLS = 5, 4, 3, 6, 11


@pytest.fixture
def inputs() -> tuple[list[Tensor], Tensor]:
    """Views, queries, weight and bias, whose gradient is asked for, and the symbols."""
    torch.manual_seed(1)
    shapes = [(ROWS, POSITIONS, UNITS), (ROWS, STEPS, UNITS), (SYMBOLS, UNITS), (SYMBOLS,)]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    return tensors, torch.randint(SYMBOLS, (ROWS, STEPS))


def plain(tensors: list[Tensor], symbols: Tensor) -> Tensor:
    """Take a softmax for each state and position."""
    views, queries, weight, bias = tensors
    steps = [
        gold_log_probs_plain(views, queries[:, t], weight, bias, symbols[:, t], IDENTITY)
        for t in range(STEPS)
    ]
    return torch.stack(steps, 1)


@pytest.mark.parametrize("piece_bytes", [1, 1 << 24], ids=["sentence by sentence", "at once"])
def test_likelihoods_and_gradients_are_those_of_a_softmax_per_position(
    inputs: tuple[list[Tensor], Tensor], piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_linear, "PIECE", piece_bytes)
    tensors, symbols = inputs
    weights = torch.randn(ROWS, STEPS, POSITIONS, dtype=torch.float64)

    log_likelihoods = log_linear_likelihoods(*tensors, symbols)
    expected = plain(tensors, symbols)
    torch.testing.assert_close(log_likelihoods, expected, rtol=1e-12, atol=1e-12)

    gradients = torch.autograd.grad((log_likelihoods * weights).sum(), tensors)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), tensors)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-11, atol=1e-11)


def test_state_and_position_without_a_common_symbol_have_finite_gradients() -> None:
    far = 400.0
    views = torch.tensor([[[far, 0.0]]], requires_grad=True)
    queries = torch.tensor([[[0.0, far]]], requires_grad=True)
    weight = torch.eye(2, requires_grad=True)
    bias = torch.zeros(2, requires_grad=True)

    log_likelihood = log_linear_likelihoods(views, queries, weight, bias, torch.tensor([[0]]))
    gradients = torch.autograd.grad(log_likelihood.sum(), [views, queries, weight, bias])

    assert log_likelihood.item() <= 0
    assert all(gradient.isfinite().all() for gradient in gradients)
