"""The log-linear output layer: normalizers of all states and positions by one product."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pam.models.kernels import log_linear, search_layer
from pam.models.kernels.hidden_layers import IDENTITY
from pam.models.kernels.log_linear import (
    PositionLogits,
    log_linear_likelihoods,
    log_linear_mixture,
)
from pam.models.kernels.positions import gold_log_probs_plain
from pam.models.kernels.search_layer import (
    SearchedMixture,
    SearchLayer,
    position_logits,
)

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


def test_mixtures_of_all_symbols_and_gradients_are_those_of_a_softmax_per_position(
    inputs: tuple[list[Tensor], Tensor],
) -> None:
    tensors, _ = inputs
    views, queries, weight, bias = tensors
    log_weights = torch.randn(ROWS, STEPS, POSITIONS, dtype=torch.float64, requires_grad=True)
    given = [*tensors, log_weights]

    weights = log_weights.softmax(2)
    mixture = log_linear_mixture(PositionLogits.of(views, weight), queries, weights, weight, bias)
    assert mixture is not None
    hidden = queries[:, :, None] + views[:, None]
    by_position = (hidden @ weight.t() + bias).softmax(3)
    expected = (log_weights.softmax(2)[..., None] * by_position).sum(2)
    torch.testing.assert_close(mixture.log_probs(), expected.log(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mixture.probs(), expected, rtol=1e-12, atol=1e-12)

    shares = torch.randn(ROWS, STEPS, SYMBOLS, dtype=torch.float64)
    gradients = torch.autograd.grad((mixture.log_probs() * shares).sum(), given)
    expected_gradients = torch.autograd.grad((expected.log() * shares).sum(), given)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-11, atol=1e-11)


BEAM = 2


@pytest.mark.parametrize("far", [1.0, 80.0], ids=["near", "far apart"])
def test_a_search_sums_the_softmaxes_of_positions(far: float) -> None:
    """Far apart, a state and a position allow no symbol in common that float32 could show."""
    torch.manual_seed(2)
    views = torch.randn(ROWS, POSITIONS, UNITS)
    query = torch.randn(ROWS * BEAM, UNITS)
    views[0, 0] = far * torch.eye(UNITS)[0]
    query[0] = far * torch.eye(UNITS)[1]
    weight = torch.randn(SYMBOLS, UNITS)
    layer = SearchLayer(weight, torch.randn(SYMBOLS), BEAM, hidden_layer=IDENTITY)
    kept = torch.rand(len(query), POSITIONS) < 0.7
    kept[:, 0] = True
    sentences = torch.arange(len(query)) // BEAM
    rows = (views, query, torch.rand(len(query), POSITIONS), kept, sentences, layer)

    added = position_logits(views, layer)
    assert added is not None
    mixture = SearchedMixture(*rows, added)
    expected = SearchedMixture(*rows)
    torch.testing.assert_close(mixture.sums, expected.sums)

    chosen = torch.tensor([3, 0, 7])
    symbols = torch.tensor([1, 4, 10])
    mask = kept[chosen]
    torch.testing.assert_close(
        mixture.log_likelihood(chosen, symbols)[mask],
        expected.log_likelihood(chosen, symbols)[mask],
    )
    torch.testing.assert_close(mixture.log_probs(), expected.log_probs())


def test_a_search_whose_logits_are_not_added_or_too_many_takes_softmaxes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = torch.randn(ROWS, POSITIONS, UNITS)
    weight = torch.randn(SYMBOLS, UNITS)
    assert position_logits(views, SearchLayer(weight, torch.zeros(SYMBOLS))) is None

    monkeypatch.setattr(search_layer, "ADDED", 4 * ROWS * POSITIONS * SYMBOLS - 1)
    layer = SearchLayer(weight, torch.zeros(SYMBOLS), hidden_layer=IDENTITY)
    assert position_logits(views, layer) is None
