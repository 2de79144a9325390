"""The output layer's hand-made gradients against plain twins and against differences (float64)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.models.kernels import output_layer
from pam.models.kernels import positions as position_kernels
from pam.models.kernels.compute import Compute
from pam.models.kernels.hidden_layers import IDENTITY, STANDARDIZED, TANH, HiddenLayer
from pam.models.kernels.mixture import Mixture, mixture_log_likelihood, mixture_plain
from pam.models.kernels.output_layer import OutputLayer, significant_rows
from pam.models.kernels.positions import PositionLikelihood, gold_log_probs_plain
from pam.models.kernels.search_layer import SearchedMixture, SearchLayer
from tests.models.gradients import assert_near, assert_same, drawn, steps_of, values_and_gradients

pytestmark = pytest.mark.usefixtures("padded")

# The output layer of positions, step by step.

# Bytes of memory for distributions: of all steps, of one step in ten, and of none.
ALL = 1 << 24
LITTLE = 200
NOTHING = 40
SOME = torch.tensor([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
"""Positions that count in each sentence."""


def kept_and_picking(some: Tensor) -> list[tuple[Tensor, int]]:
    """List masks and thresholds: all positions; some, computed alone; some, computed among all."""
    return [(torch.ones_like(some), 0), (some, 0), (some, 10**6)]


def positions(
    likelihood: Callable[..., Tensor], queries: Sequence[Tensor], kept: Tensor, fed_back: bool
) -> Tensor:
    """Compute log-likelihoods of positions at all steps.

    With `fed_back` the query of each step depends on the result of the last one.
    """
    log_likelihoods: list[Tensor] = []
    for t, query in enumerate(queries):
        if fed_back and log_likelihoods:
            shared = log_likelihoods[-1][: len(query)].softmax(1)
            query = query + shared[:, :1]
        symbols = torch.arange(len(query)) + t
        kept_now = kept[: len(query)]
        log_likelihoods.append(likelihood(query, symbols, kept_now) * kept_now)

    return torch.cat([part.flatten() for part in log_likelihoods])


def plain_positions(
    views: Tensor, weight: Tensor, bias: Tensor, query: Tensor, symbols: Tensor, kept: Tensor
) -> Tensor:
    return gold_log_probs_plain(views[: len(query)], query, weight, bias, symbols)


@pytest.mark.parametrize(
    ("chunk", "waiting", "fed_back"),
    [
        (ALL, output_layer.WAITING, True),
        (1000, 16, True),
        (NOTHING, 0, True),
        (ALL, 0, False),
        (1000, output_layer.WAITING, False),
        (NOTHING, 16, False),
    ],
    ids=[
        "stored, at the end, fed back",
        "stored in part, before, fed back",
        "recomputed, at once, fed back",
        "stored, at once",
        "stored in part, at the end",
        "recomputed, before",
    ],
)
@pytest.mark.parametrize(
    ("kept", "picking"), kept_and_picking(SOME), ids=["all", "some", "some of all"]
)
def test_position_likelihoods_over_steps_that_lose_rows(
    kept: Tensor,
    picking: int,
    fed_back: bool,
    chunk: int,
    waiting: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gradients of weights are added at the end, when enough rows wait, or at each step."""
    monkeypatch.setattr(output_layer, "PICKING", picking)
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    monkeypatch.setattr(output_layer, "WAITING", waiting)
    tapes = []

    def kernel(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        likelihood = PositionLikelihood(views, weight, bias)
        tapes.append(likelihood.tape)
        return positions(likelihood, queries, kept, fed_back)

    def twin(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        def likelihood(*arguments: Any) -> Tensor:
            return plain_positions(views, weight, bias, *arguments)

        return positions(likelihood, queries, kept, fed_back)

    assert_same(kernel, twin, drawn(4, 5, 3), drawn(7, 3), drawn(7), *steps_of(3))
    assert {tape.room < chunk for tape in tapes} == {chunk > NOTHING}


def test_steps_are_stored_until_the_memory_for_them_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views, weight, bias = (drawn(*shape).requires_grad_() for shape in ((4, 5, 3), (7, 3), (7,)))
    # Bytes of one step: 20 pairs of 7 symbols, in float64.
    size = OutputLayer(weight, bias).padded(20) * 7 * 8
    monkeypatch.setattr(output_layer, "CHUNK", 5 * size // 2)
    likelihood = PositionLikelihood(views, weight, bias)
    left = []
    for _ in range(3):
        likelihood(drawn(4, 3), torch.arange(4), torch.ones(4, 5, dtype=torch.bool))
        left.append(likelihood.tape.room)

    assert left == [3 * size // 2, size // 2, size // 2]


@pytest.mark.parametrize("block", [3, ALL], ids=["by blocks of symbols", "all symbols"])
@pytest.mark.parametrize("memory", [ALL, NOTHING // 4], ids=["stored", "recomputed"])
def test_position_likelihoods_in_bfloat16(
    memory: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_kernels, "STORED", memory)
    monkeypatch.setattr(output_layer, "BLOCK", block)

    def kernel(bf16: bool, views: Tensor, weight: Tensor, bias: Tensor, *xs: Tensor) -> Tensor:
        return positions(PositionLikelihood(views, weight, bias, Compute(bf16)), xs, SOME, True)

    assert_near(kernel, [drawn(4, 5, 3), drawn(7, 3), drawn(7), *steps_of(3)])


@pytest.mark.parametrize("chunk", [ALL, NOTHING], ids=["stored", "recomputed"])
def test_position_likelihoods_of_standardized_sums(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "PICKING", 0)
    monkeypatch.setattr(output_layer, "CHUNK", chunk)

    def kernel(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        likelihood = PositionLikelihood(views, weight, bias, hidden_layer=STANDARDIZED)
        return positions(likelihood, queries, SOME, fed_back=True)

    def twin(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        def likelihood(query: Tensor, symbols: Tensor, kept: Tensor) -> Tensor:
            of_rows = views[: len(query)]
            return gold_log_probs_plain(of_rows, query, weight, bias, symbols, STANDARDIZED)

        return positions(likelihood, queries, SOME, fed_back=True)

    assert_same(kernel, twin, drawn(4, 5, 3), drawn(7, 3), drawn(7), *steps_of(3))


# All tokens at once.


@pytest.mark.parametrize("rows", [5, 40, 171])
def test_errors_that_are_kept_in_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 15 to 513 pairs in pieces of 16, the last of which is not full."""
    monkeypatch.setattr(output_layer, "CHUNK", 16 * 6 * 2 * 17 // 16)
    kept = torch.ones(rows, 3, dtype=torch.bool)
    symbols = torch.arange(rows) % 6
    inputs = drawn(rows, 3, 5), drawn(6, 5), drawn(6), drawn(rows, 5)

    def kernel(bf16: bool, views: Tensor, weight: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        return PositionLikelihood(views, weight, bias, Compute(bf16))(query, symbols, kept)

    values, gradients = values_and_gradients(partial(kernel, True), inputs)
    exact_values, exact_gradients = values_and_gradients(partial(kernel, False), inputs)
    torch.testing.assert_close(values, exact_values, rtol=0.05, atol=0.05)
    for rough, exact in zip(gradients, exact_gradients, strict=True):
        torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.05 * float(exact.abs().max()))


def mixture_inputs(summed: bool) -> tuple[Tensor, ...]:
    """Draw views, queries, weights of positions (logs if they are summed), and the output layer."""
    weights = drawn(6, 4).log_softmax(1)
    if not summed:
        weights = weights.exp()
    return drawn(3, 4, 3), drawn(6, 3), weights, drawn(7, 3), drawn(7)


# Six tokens of three sentences.
SYMBOLS = torch.tensor([0, 3, 6, 3, 1, 5])
FEW = torch.tensor(
    [[1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
).bool()
"""Positions that count for each token."""

SENTENCES = torch.tensor([0, 1, 2, 0, 2, 0])


def mixture(
    views: Tensor,
    query: Tensor,
    weights: Tensor,
    weight: Tensor,
    bias: Tensor,
    kept: Tensor,
    **how: Any,
) -> Tensor:
    tokens = Mixture(SYMBOLS, kept, SENTENCES, **how)
    return mixture_log_likelihood(views, query, weights, weight, bias, tokens)


def plain_mixture(
    views: Tensor,
    query: Tensor,
    weights: Tensor,
    weight: Tensor,
    bias: Tensor,
    kept: Tensor,
    summed: bool = True,
    hidden_layer: HiddenLayer = TANH,
) -> Tensor:
    log_likelihoods = gold_log_probs_plain(
        views=views[SENTENCES],
        query=query,
        weight=weight,
        bias=bias,
        symbols=SYMBOLS,
        hidden_layer=hidden_layer,
    )
    no_weight = -torch.inf if summed else 0.0
    return mixture_plain(weights.masked_fill(~kept, no_weight), log_likelihoods, summed)


def assert_same_mixture(equal: bool, summed: bool, **how: Any) -> None:
    """Hold the kernel of mixtures to its twin; `equal`: one gradient for all tokens."""

    def kernel(*inputs: Tensor) -> Tensor:
        log_likelihood = mixture(*inputs, summed=summed, **how)
        return 1.5 * log_likelihood.sum() if equal else log_likelihood

    def twin(*inputs: Tensor) -> Tensor:
        log_likelihood = plain_mixture(*inputs, summed=summed, **how)
        return 1.5 * log_likelihood.sum() if equal else log_likelihood

    assert_same(kernel, twin, *mixture_inputs(summed))


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
@pytest.mark.parametrize(
    ("kept", "picking"), kept_and_picking(FEW), ids=["all", "few", "few of all"]
)
def test_mixtures_of_all_tokens(
    kept: Tensor,
    picking: int,
    summed: bool,
    equal: bool,
    chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a gradient that is the same for all tokens, or not."""
    monkeypatch.setattr(output_layer, "PICKING", picking)
    monkeypatch.setattr(output_layer, "CHUNK", chunk)

    assert_same_mixture(equal, kept=kept, summed=summed)


@pytest.mark.parametrize("hidden_layer", [IDENTITY, STANDARDIZED], ids=["identity", "standardized"])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
def test_mixtures_of_other_hidden_layers(
    equal: bool, hidden_layer: HiddenLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "PICKING", 0)
    monkeypatch.setattr(output_layer, "CHUNK", LITTLE)

    assert_same_mixture(equal, kept=FEW, summed=True, hidden_layer=hidden_layer)


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
def test_mixtures_in_bfloat16(
    summed: bool, equal: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    monkeypatch.setattr(output_layer, "BLOCK", 3)

    def kernel(bf16: bool, *inputs: Tensor) -> Tensor:
        log_likelihood = mixture(*inputs, kept=FEW, summed=summed, compute=Compute(bf16))
        return log_likelihood.sum() if equal else log_likelihood

    assert_near(kernel, mixture_inputs(summed))


def test_without_a_gradient_the_mixture_has_the_same_values() -> None:
    inputs = mixture_inputs(True)
    with torch.no_grad():
        actual = mixture(*inputs, kept=FEW)
    torch.testing.assert_close(actual, plain_mixture(*inputs, kept=FEW))


def test_a_single_context_needs_no_positions() -> None:
    """Its query is the whole hidden layer."""
    log_weights = torch.zeros(6, 1).double()
    tokens = Mixture(SYMBOLS, torch.ones(6, 1).bool(), SENTENCES)

    def kernel(query: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return mixture_log_likelihood(None, query, log_weights, weight, bias, tokens)

    def twin(query: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        logits = torch.tanh(query) @ weight.t() + bias
        return torch.log_softmax(logits, 1).gather(1, SYMBOLS[:, None]).squeeze(1)

    assert_same(kernel, twin, drawn(6, 3), drawn(7, 3), drawn(7))


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("margin", [0.0, 6.0, 12.0, 300.0])
def test_likelihoods_and_gradients_are_right_near_zero_and_near_one(
    margin: float, bf16: bool
) -> None:
    """Where p rounds to 1 or 0, 1 - p and log p do not.

    The logit of symbol 0 is `margin` above those of the other symbols.
    """
    layer = OutputLayer(torch.zeros(4, 3), torch.tensor([margin, 0.0, 0.0, 0.0]), Compute(bf16))
    symbols = torch.tensor([0, 1])
    log_prob, error = layer.errors(torch.zeros(2, 3), symbols)
    log_probs = torch.log_softmax(torch.tensor([margin, 0.0, 0.0, 0.0]).double(), 0)

    torch.testing.assert_close(
        log_prob.double(), log_probs[symbols], rtol=5e-3 if bf16 else 1e-5, atol=5e-7
    )

    expected = -torch.expm1(log_probs[symbols])
    actual = -error.gather(1, symbols[:, None]).squeeze(1).double()
    rtol, atol = (5e-3, 0.0) if bf16 else (1e-5, 5e-7)
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


def test_rows_of_no_weight_are_those_that_rounding_loses() -> None:
    scale = torch.tensor([1.0, 1e-9, -0.5, 0.0, 1e-30, -1e-9])
    heavy = significant_rows(scale, 1000)
    assert heavy is not None and heavy.tolist() == [0, 2]
    assert significant_rows(scale, 30) is None  # so few symbols that picking does not pay

    finer = significant_rows(scale.double(), 1000)
    assert finer is not None and finer.tolist() == [0, 1, 2, 5]

    empty = significant_rows(torch.zeros(3), 1000)
    assert empty is not None and empty.tolist() == []


@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
def test_leaving_rows_of_no_weight_out_changes_no_gradient(
    summed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "PICKING", 0)
    views, query, _, weight, bias = mixture_inputs(summed)
    # The first position has all the weight.
    one_hot = torch.nn.functional.one_hot(torch.zeros(6).long(), 4).double()
    weights = 1e4 * (one_hot - 1) if summed else one_hot
    inputs = views, query, weights, weight, bias
    kept = torch.ones_like(FEW)
    values, gradients = values_and_gradients(partial(mixture, kept=kept, summed=summed), inputs)
    plain_values, plain_gradients = values_and_gradients(
        partial(plain_mixture, kept=kept, summed=summed), inputs
    )

    torch.testing.assert_close(values, plain_values)
    for gradient, plain_gradient in zip(gradients, plain_gradients, strict=True):
        torch.testing.assert_close(gradient, plain_gradient)


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("picking", [0, 10**6])
@pytest.mark.parametrize(
    "hidden_layer", [IDENTITY, TANH, STANDARDIZED], ids=["identity", "tanh", "standardized"]
)
def test_search_knows_every_symbol_at_every_position(
    hidden_layer: HiddenLayer, picking: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "PICKING", picking)
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    views, query, log_weights, weight, bias = mixture_inputs(True)
    layer = SearchLayer(weight, bias, hidden_layer=hidden_layer)
    searched = SearchedMixture(views, query, log_weights.exp(), FEW, SENTENCES, layer)

    # Every symbol at every position, written out.
    logits = hidden_layer.plain(views[SENTENCES] + query[:, None]) @ weight.t() + bias
    of_each = torch.log_softmax(logits, 2)
    masked = log_weights.masked_fill(~FEW, -torch.inf)

    torch.testing.assert_close(
        searched.log_probs(), torch.logsumexp(masked[:, :, None] + of_each, 1)
    )

    rows = torch.tensor([4, 0, 0])
    symbols = torch.tensor([2, 6, 1])
    expected = of_each[rows].gather(2, symbols[:, None, None].expand(-1, 4, 1)).squeeze(2)

    torch.testing.assert_close(
        searched.log_likelihood(rows, symbols)[FEW[rows]], expected[FEW[rows]]
    )
