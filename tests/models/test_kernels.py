"""Hand-made gradients against plain twins of a few lines and against differences (float64)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from pam.models import options, output_kernels
from pam.models.couplings import coupled, coupled_softmax
from pam.models.distributions import Softmax
from pam.models.kernels import (
    LSTMCell,
    Products,
    SharedLinear,
    SourceMatrix,
    Tape,
    additive,
    additive_plain,
    lstm_cell_plain,
    read_plain,
    scores_plain,
)
from pam.models.output_kernels import (
    Mixture,
    OutputLayer,
    PositionLikelihood,
    gold_log_probs_plain,
    mixture_log_likelihood,
    mixture_plain,
    nonzero_rows,
)
from pam.models.search_layer import SearchedMixture, SearchLayer
from tests.models import tiny

DOUBLE = torch.float64
COUNTS = (4, 4, 3, 1)
"""Rows of each step: they end one after another."""

Function = Callable[..., Tensor]


@pytest.fixture(autouse=True, params=[False, True], ids=["", "padded"])
def padded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether products are given rows of zeros, as oneDNN wants them; then new memory holds NaN, so that no row of it
    may enter a sum."""
    monkeypatch.setattr(Products, "by_onednn", request.param)
    torch.use_deterministic_algorithms(request.param)
    yield bool(request.param)
    torch.use_deterministic_algorithms(False)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, the same for a shape and a seed."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=DOUBLE)


def by(function: Function, given: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Values, and gradients of an uneven sum of them."""
    leaves = [part.clone().requires_grad_() for part in given]
    values = function(*leaves)
    weights = torch.linspace(-1.0, 2.0, values.numel()).to(values).view_as(values)
    return values.detach(), list(torch.autograd.grad((values * weights).sum(), leaves))


def assert_same(kernel: Function, twin: Function, *given: Tensor) -> None:
    """Both give the same values and gradients; the kernel's gradients are those of differences."""
    found, wanted = by(kernel, given), by(twin, given)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-12, atol=1e-12)
    assert all(gradient.abs().max() > 1e-3 for gradient in wanted[1])
    for mine, theirs in zip(found[1], wanted[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)
    # A kernel may keep something for one backward pass alone, and compute it again for another.
    assert gradcheck(kernel, tuple(part.clone().requires_grad_() for part in given), nondet_tol=1e-12)


def assert_near(kernel: Function, given: Sequence[Tensor]) -> None:
    """In bfloat16 (`kernel(True, ...)`) values and gradients are those of float32, but roughly."""
    narrow = [part.float() for part in given]
    exact, rough = (by(lambda *leaves, bf16=bf16: kernel(bf16, *leaves), narrow) for bf16 in (False, True))
    assert rough[0].dtype == torch.float32 and not torch.equal(exact[0], rough[0])
    for mine, theirs in zip([rough[0], *rough[1]], [exact[0], *exact[1]], strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() < 0.02 * theirs.norm()


def steps_of(size: int, seed: int = 0) -> tuple[Tensor, ...]:
    """An input (n, size) of each step."""
    return tuple(drawn(n, size, seed=seed + t) for t, n in enumerate(COUNTS))


# The LSTM cell.


@pytest.mark.parametrize("shared", [False, True], ids=["each", "bias"])
def test_an_lstm_cell_over_steps_that_lose_rows(shared: bool) -> None:
    def over_steps(cell: Callable[..., tuple[Tensor, Tensor]], before: Tensor, *given: Tensor) -> Tensor:
        (h, c), found = given[:2], []
        for t, (n, x) in enumerate(zip(COUNTS, given[2:], strict=True)):
            gates = before if shared else before[t, :n]
            h, c = cell(gates, x, h[:n], c[:n])
            found += [h, c]
        return torch.cat(found)

    def kernel(wx: Tensor, wh: Tensor, *given: Tensor) -> Tensor:
        return over_steps(LSTMCell(wx, wh), *given)

    def twin(wx: Tensor, wh: Tensor, *given: Tensor) -> Tensor:
        return over_steps(lambda *own: lstm_cell_plain(*own, wx, wh), *given)

    before = drawn(12) if shared else drawn(4, 4, 12)
    given = drawn(12, 2), drawn(12, 3), before, drawn(4, 3), drawn(4, 3, seed=1), *steps_of(2)
    assert_same(kernel, twin, *given)
    assert_near(lambda bf16, wx, wh, *own: over_steps(LSTMCell(wx, wh, bf16), *own), given)


def test_the_plain_lstm_cell_is_that_of_torch() -> None:
    theirs = torch.nn.LSTMCell(2, 3).double()
    x, h, c = drawn(4, 2), drawn(4, 3), drawn(4, 3, seed=1)
    bias = theirs.bias_ih + theirs.bias_hh
    mine = lstm_cell_plain(bias, x, h, c, theirs.weight_ih, theirs.weight_hh)
    for one, other in zip(mine, theirs(x, (h, c)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_an_lstm_cell_saturates_without_overflow(scale: float) -> None:
    given = [(drawn(*shape) * scale).float() for shape in ((12, 2), (12, 3), (4, 12), (4, 2))]
    state = drawn(4, 3).float(), drawn(4, 3).float()

    def cell(wx: Tensor, wh: Tensor, before: Tensor, x: Tensor) -> Tensor:
        return torch.cat(LSTMCell(wx, wh)(before, x, *state))

    values, gradients = by(cell, given)
    assert torch.isfinite(values).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# The linear layer.


@pytest.mark.parametrize("covers", [False, True])
def test_the_additive_score_keeps_no_hidden_layer_and_has_its_gradient(covers: bool) -> None:
    shapes = [(3, 5, 4), (3, 4), (4,), *([(3, 5), (4,)] if covers else [])]
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    torch.testing.assert_close(additive(*given), additive_plain(*given))
    assert gradcheck(additive, given)
    hidden, saved = 3 * 5 * 4, []
    with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda kept: kept):
        additive(*given)
    assert [one is given[0] or one.data_ptr() == given[0].data_ptr() for one in saved if one.numel() == hidden] == [
        True
    ]


def test_a_linear_layer_that_steps_share() -> None:
    def kernel(weight: Tensor, bias: Tensor, *xs: Tensor, bf16: bool = False) -> Tensor:
        layer = SharedLinear(weight, bias, bf16)
        return torch.cat([layer(x) for x in xs])

    def twin(weight: Tensor, bias: Tensor, *xs: Tensor) -> Tensor:
        return torch.cat([torch.nn.functional.linear(x, weight, bias) for x in xs])

    given = drawn(5, 3), drawn(5), *steps_of(3)
    assert_same(kernel, twin, *given)
    assert_near(lambda bf16, *own: kernel(*own, bf16=bf16), given)


# The matrix of a source.


def test_a_source_is_scored_and_read_over_steps_that_lose_rows() -> None:
    def over_steps(scores: Function, read: Function, given: Sequence[Tensor]) -> Tensor:
        found = []
        for x in given:
            weights = scores(x).softmax(1)
            found += [weights, read(weights)]
        return torch.cat([part.flatten() for part in found])

    def kernel(matrix: Tensor, *xs: Tensor) -> Tensor:
        source = SourceMatrix(matrix)
        return over_steps(source.scores, source.read, xs)

    def twin(matrix: Tensor, *xs: Tensor) -> Tensor:
        return over_steps(
            lambda x: scores_plain(matrix[: len(x)], x), lambda weights: read_plain(matrix[: len(weights)], weights), xs
        )

    assert_same(kernel, twin, drawn(4, 5, 3), *steps_of(3))


@pytest.mark.parametrize("beam", [2, 3])
def test_hypotheses_of_a_sentence_share_its_matrix(beam: int) -> None:
    matrix, x, weights = drawn(4, 5, 3), drawn(4 * beam, 3), drawn(4 * beam, 5).softmax(1)
    source, each = SourceMatrix(matrix, beam), matrix.repeat_interleave(beam, 0)
    torch.testing.assert_close(source.scores(x), scores_plain(each, x))
    torch.testing.assert_close(source.read(weights), read_plain(each, weights))
    left = torch.tensor([3, 0])
    fewer = source.select(left)
    torch.testing.assert_close(
        fewer.scores(x[: 2 * beam]), scores_plain(matrix[left].repeat_interleave(beam, 0), x[: 2 * beam])
    )


# The output layer of positions, step by step.

ROWS, ALL, LITTLE = sum(COUNTS) * 5, 1 << 24, 200  # bytes
SOME = torch.tensor([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
"""Positions that count, of each sentence."""


def which(some: Tensor) -> list[tuple[Tensor, int]]:
    """All positions; some, computed alone; some, computed among all."""
    return [(torch.ones_like(some), 0), (some, 0), (some, 10**6)]


def positions(likelihood: Callable[..., Tensor], queries: Sequence[Tensor], kept: Tensor, fed_back: bool) -> Tensor:
    """Log-likelihoods of positions at all steps; each step's query may depend on the last one's."""
    found: list[Tensor] = []
    for t, query in enumerate(queries):
        if fed_back and found:
            shared = found[-1][: len(query)].softmax(1)
            query = query + shared[:, :1]
        symbols = torch.arange(len(query)) + t
        found.append(likelihood(query, symbols, kept[: len(query)]) * kept[: len(query)])
    return torch.cat([part.flatten() for part in found])


def plain_positions(
    views: Tensor, weight: Tensor, bias: Tensor, query: Tensor, symbols: Tensor, kept: Tensor
) -> Tensor:
    return gold_log_probs_plain(views[: len(query)], query, weight, bias, symbols)


@pytest.mark.parametrize("chunk", [ALL, LITTLE], ids=["stored", "recomputed"])
@pytest.mark.parametrize("fed_back", [False, True])
@pytest.mark.parametrize(("kept", "picking"), which(SOME), ids=["all", "some", "some of all"])
def test_position_likelihoods_over_steps_that_lose_rows(
    kept: Tensor, picking: int, fed_back: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_kernels, "PICKING", picking)
    monkeypatch.setattr(output_kernels, "CHUNK", chunk)
    stored = []

    def kernel(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        likelihood = PositionLikelihood(views, weight, bias, ROWS)
        stored.append(likelihood.tape.keeps)
        return positions(likelihood, queries, kept, fed_back)

    def twin(views: Tensor, weight: Tensor, bias: Tensor, *queries: Tensor) -> Tensor:
        def likelihood(*own: Any) -> Tensor:
            return plain_positions(views, weight, bias, *own)

        return positions(likelihood, queries, kept, fed_back)

    assert_same(kernel, twin, drawn(4, 5, 3), drawn(7, 3), drawn(7), *steps_of(3))
    assert set(stored) == {chunk == ALL}


@pytest.mark.parametrize("memory", [ALL, LITTLE], ids=["stored", "recomputed"])
def test_position_likelihoods_in_bfloat16(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_kernels, "STORED", memory)

    def kernel(bf16: bool, views: Tensor, weight: Tensor, bias: Tensor, *xs: Tensor) -> Tensor:
        return positions(PositionLikelihood(views, weight, bias, ROWS, bf16), xs, SOME, True)

    assert_near(kernel, [drawn(4, 5, 3), drawn(7, 3), drawn(7), *steps_of(3)])


# All tokens at once.


@pytest.mark.parametrize("rows", [5, 40, 171])
def test_errors_that_are_kept_in_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 15 to 513 pairs in pieces of 16; what is beyond them adds nothing."""
    monkeypatch.setattr(output_kernels, "CHUNK", 16 * 6 * 2 * 17 // 16)
    kept, symbols = torch.ones(rows, 3, dtype=torch.bool), torch.arange(rows) % 6
    given = drawn(rows, 3, 5), drawn(6, 5), drawn(6), drawn(rows, 5)

    def kernel(bf16: bool, views: Tensor, weight: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        return PositionLikelihood(views, weight, bias, 1, bf16)(query, symbols, kept)

    found, wanted = (by(partial(kernel, bf16), given) for bf16 in (True, False))
    torch.testing.assert_close(found[0], wanted[0], rtol=0.05, atol=0.05)
    for mine, theirs in zip(found[1], wanted[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.05 * float(theirs.abs().max()))


def mixture_given(summed: bool) -> tuple[Tensor, ...]:
    weights = drawn(6, 4).log_softmax(1)
    return drawn(3, 4, 3), drawn(6, 3), weights if summed else weights.exp(), drawn(7, 3), drawn(7)


SYMBOLS = torch.tensor([0, 3, 6, 3, 1, 5])
FEW = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]]).bool()
"""Positions that count, of each token."""


SENTENCES = torch.tensor([0, 1, 2, 0, 2, 0])


def mixture(
    views: Tensor, query: Tensor, weights: Tensor, weight: Tensor, bias: Tensor, kept: Tensor, **how: bool
) -> Tensor:
    given = Mixture(SYMBOLS, kept, SENTENCES, **how)
    return mixture_log_likelihood(views, query, weights, weight, bias, given)


def plain_mixture(
    views: Tensor, query: Tensor, weights: Tensor, weight: Tensor, bias: Tensor, kept: Tensor, summed: bool = True
) -> Tensor:
    of_each = gold_log_probs_plain(views[SENTENCES], query, weight, bias, SYMBOLS)
    return mixture_plain(weights.masked_fill(~kept, -torch.inf if summed else 0.0), of_each, summed)


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
@pytest.mark.parametrize(("kept", "picking"), which(FEW), ids=["all", "few", "few of all"])
def test_mixtures_of_all_tokens(
    kept: Tensor, picking: int, summed: bool, equal: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_kernels, "PICKING", picking)
    """With a gradient that is the same for all tokens, or not."""
    monkeypatch.setattr(output_kernels, "CHUNK", chunk)

    def kernel(*given: Tensor) -> Tensor:
        found = mixture(*given, kept=kept, summed=summed)
        return 1.5 * found.sum() if equal else found

    def twin(*given: Tensor) -> Tensor:
        found = plain_mixture(*given, kept=kept, summed=summed)
        return 1.5 * found.sum() if equal else found

    assert_same(kernel, twin, *mixture_given(summed))


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
def test_mixtures_in_bfloat16(summed: bool, equal: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_kernels, "CHUNK", chunk)

    def kernel(bf16: bool, *given: Tensor) -> Tensor:
        found = mixture(*given, kept=FEW, summed=summed, bf16=bf16)
        return found.sum() if equal else found

    assert_near(kernel, mixture_given(summed))


def test_without_a_gradient_the_mixture_has_the_same_values() -> None:
    given = mixture_given(True)
    with torch.no_grad():
        found = mixture(*given, kept=FEW)
    torch.testing.assert_close(found, plain_mixture(*given, kept=FEW))


def test_a_single_context_needs_no_positions() -> None:
    """Then the query has all of the hidden layer."""
    one = torch.zeros(6, 1).double()
    given = Mixture(SYMBOLS, torch.ones(6, 1).bool(), SENTENCES)

    def kernel(query: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return mixture_log_likelihood(None, query, one, weight, bias, given)

    def twin(query: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        logits = torch.tanh(query) @ weight.t() + bias
        return torch.log_softmax(logits, 1).gather(1, SYMBOLS[:, None]).squeeze(1)

    assert_same(kernel, twin, drawn(6, 3), drawn(7, 3), drawn(7))


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("margin", [0.0, 6.0, 12.0, 300.0])
def test_likelihoods_and_gradients_are_right_near_zero_and_near_one(margin: float, bf16: bool) -> None:
    """The logit of symbol 0 is `margin` above the others: where p rounds to 1 or 0, 1 - p and log p do not."""
    layer = OutputLayer(torch.zeros(4, 3), torch.tensor([margin, 0.0, 0.0, 0.0]), bf16)
    symbols = torch.tensor([0, 1])
    found, error = layer.errors(torch.zeros(2, 3), symbols)
    log_probs = torch.log_softmax(torch.tensor([margin, 0.0, 0.0, 0.0]).double(), 0)
    torch.testing.assert_close(found.double(), log_probs[symbols], rtol=5e-3 if bf16 else 1e-5, atol=5e-7)
    wanted = -torch.expm1(log_probs[symbols])
    rtol, atol = (5e-3, 0.0) if bf16 else (1e-5, 5e-7)
    torch.testing.assert_close(-error.gather(1, symbols[:, None]).squeeze(1).double(), wanted, rtol=rtol, atol=atol)


def test_rows_of_no_weight_are_those_that_rounding_loses() -> None:
    scale = torch.tensor([1.0, 1e-9, -0.5, 0.0, 1e-30, -1e-9])
    found = nonzero_rows(scale, 1000)
    assert found is not None and found.tolist() == [0, 2]
    assert nonzero_rows(scale, 30) is None  # so few symbols that picking does not pay
    finer = nonzero_rows(scale.double(), 1000)
    assert finer is not None and finer.tolist() == [0, 1, 2, 5]
    empty = nonzero_rows(torch.zeros(3), 1000)
    assert empty is not None and empty.tolist() == []


@pytest.mark.parametrize("summed", [True, False], ids=["summed", "expected"])
def test_leaving_rows_of_no_weight_out_changes_no_gradient(summed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_kernels, "PICKING", 0)
    views, query, _, weight, bias = mixture_given(summed)
    one = torch.nn.functional.one_hot(torch.zeros(6).long(), 4).double()  # it has all the weight
    weights = 1e4 * (one - 1) if summed else one
    given = views, query, weights, weight, bias
    found = by(lambda *own: mixture(*own, kept=torch.ones_like(FEW), summed=summed), given)
    wanted = by(lambda *own: plain_mixture(*own, kept=torch.ones_like(FEW), summed=summed), given)
    torch.testing.assert_close(found[0], wanted[0])
    for mine, theirs in zip(found[1], wanted[1], strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("chunk", [ALL, LITTLE])
@pytest.mark.parametrize("picking", [0, 10**6])
def test_search_knows_every_symbol_at_every_position(picking: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_kernels, "PICKING", picking)
    monkeypatch.setattr(output_kernels, "CHUNK", chunk)
    views, query, log_weights, weight, bias = mixture_given(True)
    layer = SearchLayer(weight, bias)
    found = SearchedMixture(views, query, log_weights.exp(), FEW, SENTENCES, layer)
    logits = torch.tanh(views[SENTENCES] + query[:, None]) @ weight.t() + bias
    of_each = torch.log_softmax(logits, 2)
    masked = log_weights.masked_fill(~FEW, -torch.inf)
    torch.testing.assert_close(found.log_probs(), torch.logsumexp(masked[:, :, None] + of_each, 1))
    rows, symbols = torch.tensor([4, 0, 0]), torch.tensor([2, 6, 1])
    wanted = of_each[rows].gather(2, symbols[:, None, None].expand(-1, 4, 1)).squeeze(2)
    torch.testing.assert_close(found.log_likelihood(rows, symbols)[FEW[rows]], wanted[FEW[rows]])


# The coupling of a softmax.


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_coupled_softmax_is_the_definition_in_two_products(one_hot: bool) -> None:
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    softmax = Softmax(options.Softmax(), tiny.SIZES)
    previous = drawn(4, 5).masked_fill(~mask, -torch.inf).softmax(1)
    if one_hot:
        previous = torch.nn.functional.one_hot(previous.argmax(1), 5).double()

    def kernel(scores: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
        return coupled_softmax(scores, mask, energies, previous).exp()

    def twin(scores: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
        return coupled(scores, mask, energies, previous, softmax).exp()

    given = drawn(4, 5), drawn(5, 5), previous
    found, wanted = by(kernel, given), by(twin, given)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-12, atol=1e-14)
    assert (found[0][~mask] == 0).all()
    for mine, theirs in zip(found[1][:2], wanted[1][:2], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-13)
    real = previous > 0  # the definition gives no gradient to what is zero
    torch.testing.assert_close(found[1][2][real], wanted[1][2][real])


@pytest.mark.parametrize("spread", [1.0, 1e2, 1e4])
def test_a_coupled_softmax_is_finite_at_extreme_scores(spread: float) -> None:
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    previous = (mask / mask.sum(1, keepdim=True)).float()
    scores, energies = (drawn(4, 5) * spread).float(), drawn(5, 5).clamp(-1, 1).float() * 10
    values, gradients = by(lambda *given: coupled_softmax(given[0], mask, *given[1:]), (scores, energies, previous))
    torch.testing.assert_close(values.exp().sum(1), torch.ones(4))
    assert torch.isfinite(values).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# Memory.


def tapes_made(patch: pytest.MonkeyPatch) -> list[weakref.ref[Tape]]:
    """The tapes that will be made, in order."""
    tapes: list[weakref.ref[Tape]] = []

    def noting(made: Callable[..., None]) -> Callable[..., None]:
        def init(self: Tape, *given: Any) -> None:
            made(self, *given)
            tapes.append(weakref.ref(self))

        return init

    for kind in Tape.__subclasses__():
        patch.setattr(kind, "__init__", noting(kind.__init__))
    return tapes


def uses() -> list[tuple[str, Callable[[], Tensor]]]:
    """A call of every kernel that notes something for its gradient."""

    def leaf(*shape: int) -> Tensor:
        return drawn(*shape).requires_grad_()

    def recomputed() -> Tensor:
        likelihood = PositionLikelihood(leaf(4, 5, 3), leaf(7, 3), leaf(7), 10**9)
        return positions(likelihood, steps_of(3), SOME, False)

    def stored() -> Tensor:
        likelihood = PositionLikelihood(leaf(4, 5, 3), leaf(7, 3), leaf(7), ROWS)
        return positions(likelihood, steps_of(3), SOME, False)

    def cell() -> Tensor:
        state = LSTMCell(leaf(12, 2), leaf(12, 3))(leaf(12), leaf(4, 2), leaf(4, 3), leaf(4, 3))
        return torch.cat(state)

    def source() -> Tensor:
        made = SourceMatrix(leaf(4, 5, 3))
        return made.read(made.scores(leaf(4, 3)))

    def linear() -> Tensor:
        return SharedLinear(leaf(5, 3), leaf(5))(leaf(4, 3))

    return [(made.__name__, made) for made in (recomputed, stored, cell, source, linear)]


@pytest.mark.parametrize("differentiated", [True, False])
@pytest.mark.parametrize(("name", "use"), uses())
def test_memory_is_freed_without_the_garbage_collector(
    name: str, use: Callable[[], Tensor], differentiated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tapes = tapes_made(monkeypatch)
    gc.disable()
    try:
        values = use()
        assert len(tapes) == 1 and tapes[0]() is not None, name
        if differentiated:
            values.sum().backward()
        del values
        assert tapes[0]() is None, name
    finally:
        gc.enable()
