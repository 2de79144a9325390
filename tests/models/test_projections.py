"""Sparsemax and fusedmax against enumeration, optimality conditions and numerical gradients."""

from __future__ import annotations

import importlib
import sys

import entmax
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from pam.models import options
from pam.models.distributions import Entmax, Fusedmax, Projection, Sparsemax, denoise
from pam.models.logspace import ZERO
from tests.models import tiny
from tests.models.plain import nearest

WEIGHTS = (0.0, 0.05, 0.3, 1.0)


def fused(weight: float) -> Fusedmax:
    return Fusedmax(options.Fusedmax(weight=weight), tiny.SIZES)


def projections() -> list[Projection]:
    sparse = Sparsemax(options.Sparsemax(), tiny.SIZES)
    return [sparse, *(fused(weight) for weight in WEIGHTS)]


def rows(count: int, length: int, spread: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draw scores (count, length) and a mask of lengths from 1 to `length`, both included."""
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(count, length, generator=generator, dtype=torch.float64) * spread
    lengths = torch.randint(1, length + 1, (count, 1), generator=generator)
    lengths[0] = length
    return scores, torch.arange(length) < lengths


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("projection", projections(), ids=str)
def test_probabilities_are_the_minimum_over_all_supports_and_stretches(
    projection: Projection, length: int
) -> None:
    scores, mask = rows(4, length, spread=0.8)
    probabilities = projection.project(scores, mask)
    for row, row_scores, real in zip(probabilities, scores, mask, strict=True):
        size = int(real.sum())
        torch.testing.assert_close(
            row[:size], nearest(row_scores[:size], getattr(projection, "weight", 0))
        )
        assert (row[size:] == 0).all()


@pytest.mark.parametrize("spread", [0.3, 3.0])
@pytest.mark.parametrize("weight", [0.05, 0.5, 5.0])
def test_denoised_values_meet_the_optimality_conditions(weight: float, spread: float) -> None:
    """The sum of values - x up to t lies within +-weight, and at a bound where x jumps."""
    values, mask = rows(30, 120, spread)
    for row_values, real, x in zip(values, mask, denoise(values, mask, weight), strict=True):
        size = int(real.sum())
        row_values = row_values[:size]
        x = x[:size]
        dual = (row_values - x).cumsum(0)
        jumps = x[1:] - x[:-1]

        assert dual.abs().max() <= weight + 1e-8 and abs(dual[-1]) < 1e-8

        expected = -weight * jumps.sign()
        torch.testing.assert_close(dual[:-1][jumps != 0], expected[jumps != 0], atol=1e-8, rtol=0)

    assert (jumps == 0).any()  # equal to the last bit


@pytest.mark.parametrize("projection", projections(), ids=str)
def test_gradients_of_probabilities_equal_differences(projection: Projection) -> None:
    scores, mask = rows(12, 7, spread=3.0)
    scores = scores.view(3, 4, 7).requires_grad_()
    assert gradcheck(lambda leaf: projection.probabilities(leaf, mask.view(3, 4, 7)), scores)
    # Logs are differentiable where probabilities are not too near zero.
    chosen = projection.project(scores.detach(), mask.view(3, 4, 7)) > 0.02

    assert (~chosen & mask.view(3, 4, 7)).any() and chosen.any()
    assert gradcheck(lambda leaf: projection(leaf, mask.view(3, 4, 7))[chosen], scores)


@pytest.mark.parametrize("projection", projections(), ids=str)
def test_logs_give_the_gradients_of_the_probabilities(projection: Projection) -> None:
    scores, mask = rows(12, 7, spread=3.0)
    weights = torch.linspace(-1, 1, 7, dtype=torch.float64)
    gradients = []

    for probabilities in (
        projection.probabilities,
        lambda *arguments: projection(*arguments).exp(),
    ):
        leaf = scores.clone().requires_grad_()
        (probabilities(leaf, mask) * weights).sum().backward()
        gradients.append(leaf.grad)

    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.1, 1.0, 1e4])
@pytest.mark.parametrize("projection", projections(), ids=str)
def test_probabilities_sum_to_one_and_logs_are_finite(
    projection: Projection, spread: float, dtype: torch.dtype
) -> None:
    scores, mask = rows(40, 60, spread)
    scores = scores.to(dtype).requires_grad_()
    log_probs = projection(scores, mask)
    probabilities = log_probs.detach().exp()

    assert probabilities.dtype == dtype
    torch.testing.assert_close(probabilities.sum(1), torch.ones(40, dtype=dtype))
    assert (log_probs[~mask] == ZERO).all() and (probabilities[~mask] == 0).all()

    log_probs.sum().backward()
    assert scores.grad is not None and torch.isfinite(scores.grad).all()
    assert (scores.grad[~mask] == 0).all()


@pytest.mark.parametrize("projection", projections(), ids=str)
@pytest.mark.parametrize("filler", [0.0, 1e6, -torch.inf, torch.inf])
def test_what_stands_at_padding_changes_nothing(projection: Projection, filler: float) -> None:
    scores, mask = rows(20, 9)
    probabilities = projection.project(scores.masked_fill(~mask, filler), mask)
    for row, row_scores, real in zip(probabilities, scores, mask, strict=True):
        size = int(real.sum())
        alone = projection.project(row_scores[None, :size], real[None, :size])
        torch.testing.assert_close(row[:size], alone[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("projection", projections(), ids=str)
def test_a_mask_is_broadcast_over_rows(projection: Projection) -> None:
    scores, mask = rows(12, 7)
    wide = projection.project(scores.view(3, 4, 7), mask[:3, None])
    for row in range(3):
        alone = projection.project(scores.view(3, 4, 7)[row], mask[row].expand(4, 7))
        torch.testing.assert_close(wide[row], alone)


def test_a_score_one_above_the_rest_has_all_probability() -> None:
    mask = torch.ones(1, 4, dtype=torch.bool)
    scores = torch.tensor([[-0.5, 0.0, 1.0, -9.0]])
    log_probs = Sparsemax(options.Sparsemax(), tiny.SIZES)(scores, mask)

    assert log_probs.tolist() == [[ZERO, ZERO, 0.0, ZERO]]
    # Fusedmax pays twice the weight for a stretch of one position, so it needs a larger lead.
    assert (fused(0.1)(scores, mask)[0] == 0).sum() == 0
    assert fused(0.1)(scores * 1.4, mask).tolist() == log_probs.tolist()


def test_equal_scores_share_the_probability_alike() -> None:
    scores = torch.full((1, 5), 3.0)
    mask = torch.arange(5)[None] < 4
    for projection in projections():
        assert projection.project(scores, mask).tolist() == [[0.25] * 4 + [0.0]]


def test_fusedmax_without_weight_is_sparsemax_and_with_much_it_is_uniform() -> None:
    scores, mask = rows(20, 8)
    plain = Sparsemax().project(scores, mask)
    fused = Fusedmax(options.Fusedmax(weight=0.0), tiny.SIZES)

    torch.testing.assert_close(fused.project(scores, mask), plain, rtol=0, atol=0)
    uniform = Fusedmax(options.Fusedmax(weight=100.0), tiny.SIZES).project(scores, mask)
    torch.testing.assert_close(uniform, mask / mask.sum(1, keepdim=True).double())


def test_the_authors_example_fuses_the_two_near_scores() -> None:
    scores = torch.tensor([[1.0, 2.1, 1.9]], dtype=torch.float64)
    probabilities = Fusedmax(options.Fusedmax(), tiny.SIZES).project(
        scores, torch.ones(1, 3, dtype=torch.bool)
    )
    torch.testing.assert_close(probabilities, torch.tensor([[0.0, 0.5, 0.5]], dtype=torch.float64))


def entmax_of(alpha: float, learned: bool = False) -> Entmax:
    return Entmax(options.Entmax(alpha=alpha, learned=learned), tiny.SIZES).double()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.9])
def test_entmax_of_the_positions_that_are_there_is_that_of_its_package(
    alpha: float, learned: bool
) -> None:
    scores, mask = rows(8, 7, spread=2.0)
    probabilities = entmax_of(alpha, learned)(scores, mask).exp()
    for row, row_scores, real in zip(probabilities, scores, mask, strict=True):
        size = int(real.sum())
        expected = entmax.entmax_bisect(row_scores[:size], alpha)
        torch.testing.assert_close(row[:size], expected, atol=1e-7, rtol=0)
        assert (row[size:] == 0).all()

    assert (probabilities[mask] == 0).any()


def test_entmax_lies_between_softmax_and_sparsemax() -> None:
    scores, mask = rows(8, 7, spread=2.0)
    soft = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
    sparse = Sparsemax(options.Sparsemax(), tiny.SIZES)(scores, mask).exp()
    torch.testing.assert_close(entmax_of(1.01)(scores, mask).exp(), soft, atol=0.02, rtol=0)
    torch.testing.assert_close(entmax_of(1.99)(scores, mask).exp(), sparse, atol=0.02, rtol=0)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("alpha", [1.3, 1.5])
def test_gradients_of_entmax_equal_differences(alpha: float, learned: bool) -> None:
    scores, mask = rows(6, 5, spread=2.0)
    distribution = entmax_of(alpha, learned)
    chosen = distribution(scores, mask).exp() > 0.02

    def log_probs(scores: Tensor, *parameters: Tensor) -> Tensor:
        return distribution(scores, mask)[chosen]

    assert gradcheck(log_probs, (scores.requires_grad_(), *distribution.parameters()))
    assert len(list(distribution.parameters())) == learned


def test_entmax_is_imported_by_the_models_that_use_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "pam.models.distributions"
    monkeypatch.setattr("pam.models.distributions", sys.modules[name])
    for module in ("entmax", name):
        monkeypatch.delitem(sys.modules, module)
    scores = torch.zeros(1, 3)
    mask = torch.ones(1, 3, dtype=torch.bool)

    distributions = importlib.import_module(name)
    distributions.Softmax()(scores, mask)
    assert "entmax" not in sys.modules

    distributions.Entmax(options.Entmax(), tiny.SIZES)(scores, mask)
    assert "entmax" in sys.modules
