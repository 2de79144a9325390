"""Hand-made gradients against plain twins of a few lines and against differences (float64).

The output layer has its own tests, in `test_output_layer`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from pam.models import options
from pam.models.couplings import coupled, coupled_softmax
from pam.models.distributions import Softmax
from pam.models.kernels import lstm as lstm_kernels
from pam.models.kernels.additive import additive, additive_plain
from pam.models.kernels.linear import SharedLinear
from pam.models.kernels.lstm import LSTMCell, lstm_cell_plain
from pam.models.kernels.positions import PositionLikelihood
from pam.models.kernels.source import SourceMatrix, read_plain, scores_plain
from pam.runtime import torch_internals
from tests.models import tiny
from tests.models.gradients import (
    Function,
    assert_near,
    assert_same,
    cells_over_steps,
    drawn,
    steps_of,
    tapes_made,
    values_and_gradients,
)

pytestmark = pytest.mark.usefixtures("padded")

# The LSTM cell.


def fused(of_input: Tensor, of_state: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute what torch's kernel for CUDA does: the new h and c, and the gates, (n, 4H)."""
    i, f, g, o = (of_input + of_state).chunk(4, 1)
    gates = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()]
    new = gates[1] * c + gates[0] * gates[2]
    return gates[3] * new.tanh(), new, torch.cat(gates, 1)


def fused_backward(
    dh: Tensor, dnew: Tensor, c: Tensor, new: Tensor, gates: Tensor, bias: bool
) -> tuple[Tensor, ...]:
    """Compute the gradients of the gates' sums, of c and of the biases."""
    i, f, g, o = gates.chunk(4, 1)
    squashed = new.tanh()
    dc = dnew + dh * o * (1 - squashed**2)
    sums = (
        dc * g * i * (1 - i),
        dc * c * f * (1 - f),
        dc * i * (1 - g**2),
        dh * squashed * o * (1 - o),
    )
    return torch.cat(sums, 1), dc * f, torch.empty(0)


@pytest.fixture
def by_fused_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make cells work as on CUDA, by stand-ins that have the signatures of torch's kernels."""
    theirs = torch.ops.aten
    signature = (
        "(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor?"
        " hidden_bias=None)"
    )
    assert f"{signature} -> (Tensor, Tensor, Tensor)" in str(
        theirs._thnn_fused_lstm_cell.default._schema
    )

    signature = (
        "(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias)"
    )
    schema = theirs._thnn_fused_lstm_cell_backward_impl.default._schema
    assert f"{signature} -> (Tensor, Tensor, Tensor)" in str(schema)

    stand_in = SimpleNamespace(
        _thnn_fused_lstm_cell=fused, _thnn_fused_lstm_cell_backward_impl=fused_backward
    )
    monkeypatch.setattr(torch_internals, "aten", stand_in)
    monkeypatch.setattr(lstm_kernels, "_Cell", lstm_kernels._FusedCell)


@pytest.mark.usefixtures("by_fused_cells")
def test_a_fused_cell_as_on_cuda_over_steps_that_lose_rows() -> None:
    """Tests the gradients around torch's kernel; `test_cuda` tests the kernel itself."""
    for shared in (False, True):
        kernel, twin, *inputs = cells_over_steps(shared)
        assert_same(partial(kernel, False), twin, *inputs)


@pytest.mark.parametrize("shared", [False, True], ids=["each", "bias"])
def test_an_lstm_cell_over_steps_that_lose_rows(shared: bool) -> None:
    kernel, twin, *inputs = cells_over_steps(shared)
    assert_same(partial(kernel, False), twin, *inputs)
    assert_near(kernel, inputs)


def test_the_plain_lstm_cell_is_that_of_torch() -> None:
    theirs = torch.nn.LSTMCell(2, 3).double()
    x = drawn(4, 2)
    h = drawn(4, 3)
    c = drawn(4, 3, seed=1)
    bias = theirs.bias_ih + theirs.bias_hh
    mine = lstm_cell_plain(bias, x, h, c, theirs.weight_ih, theirs.weight_hh)
    for actual, expected in zip(mine, theirs(x, (h, c)), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_an_lstm_cell_saturates_without_overflow(scale: float) -> None:
    inputs = [(drawn(*shape) * scale).float() for shape in ((12, 2), (12, 3), (4, 12), (4, 2))]
    h = drawn(4, 3).float()
    c = drawn(4, 3).float()

    def cell(wx: Tensor, wh: Tensor, before: Tensor, x: Tensor) -> Tensor:
        return torch.cat(LSTMCell(wx, wh)(before, x, h, c))

    values, gradients = values_and_gradients(cell, inputs)

    assert torch.isfinite(values).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# The linear layer.


@pytest.mark.parametrize("covers", [False, True])
def test_the_additive_score_keeps_no_hidden_layer_and_has_its_gradient(covers: bool) -> None:
    shapes: list[tuple[int, ...]] = [(3, 5, 4), (3, 4), (4,)]
    if covers:
        shapes += [(3, 5, 2), (2, 4)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    torch.testing.assert_close(additive(*inputs), additive_plain(*inputs))
    assert gradcheck(additive, inputs)

    # Of tensors as large as the hidden layer, only the keys are kept.
    hidden_size = 3 * 5 * 4
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda kept: kept):
        additive(*inputs)

    large = [tensor for tensor in saved if tensor.numel() == hidden_size]
    keys = inputs[0]
    assert [tensor is keys or tensor.data_ptr() == keys.data_ptr() for tensor in large] == [True]


def test_a_linear_layer_that_steps_share() -> None:
    def kernel(weight: Tensor, bias: Tensor, *xs: Tensor, bf16: bool = False) -> Tensor:
        layer = SharedLinear(weight, bias, bf16)
        return torch.cat([layer(x) for x in xs])

    def twin(weight: Tensor, bias: Tensor, *xs: Tensor) -> Tensor:
        return torch.cat([torch.nn.functional.linear(x, weight, bias) for x in xs])

    inputs = [drawn(5, 3), drawn(5), *steps_of(3)]
    assert_same(kernel, twin, *inputs)
    assert_near(lambda bf16, *tensors: kernel(*tensors, bf16=bf16), inputs)


# The matrix of a source.


def test_a_source_is_scored_and_read_over_steps_that_lose_rows() -> None:
    def over_steps(scores: Function, read: Function, inputs: Sequence[Tensor]) -> Tensor:
        results = []
        for x in inputs:
            weights = scores(x).softmax(1)
            results += [weights, read(weights)]
        return torch.cat([part.flatten() for part in results])

    def kernel(matrix: Tensor, *xs: Tensor) -> Tensor:
        source = SourceMatrix(matrix)
        return over_steps(source.scores, source.read, xs)

    def twin(matrix: Tensor, *xs: Tensor) -> Tensor:
        return over_steps(
            lambda x: scores_plain(matrix[: len(x)], x),
            lambda weights: read_plain(matrix[: len(weights)], weights),
            xs,
        )

    assert_same(kernel, twin, drawn(4, 5, 3), *steps_of(3))


@pytest.mark.parametrize("beam", [2, 3])
def test_hypotheses_of_a_sentence_share_its_matrix(beam: int) -> None:
    matrix = drawn(4, 5, 3)
    x = drawn(4 * beam, 3)
    weights = drawn(4 * beam, 5).softmax(1)
    source = SourceMatrix(matrix, beam)
    repeated = matrix.repeat_interleave(beam, 0)

    torch.testing.assert_close(source.scores(x), scores_plain(repeated, x))
    torch.testing.assert_close(source.read(weights), read_plain(repeated, weights))

    # Two of the four sentences are left, in another order.
    left = torch.tensor([3, 0])
    fewer = source.select(left)
    torch.testing.assert_close(
        fewer.scores(x[: 2 * beam]),
        scores_plain(matrix[left].repeat_interleave(beam, 0), x[: 2 * beam]),
    )


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

    inputs = drawn(4, 5), drawn(5, 5), previous
    values, gradients = values_and_gradients(kernel, inputs)
    twin_values, twin_gradients = values_and_gradients(twin, inputs)
    torch.testing.assert_close(values, twin_values, rtol=1e-12, atol=1e-14)
    assert (values[~mask] == 0).all()

    torch.testing.assert_close(gradients[:2], twin_gradients[:2], rtol=1e-10, atol=1e-13)
    # The definition gives no gradient to an alignment that is zero.
    is_positive = previous > 0
    torch.testing.assert_close(gradients[2][is_positive], twin_gradients[2][is_positive])


@pytest.mark.parametrize("spread", [1.0, 1e2, 1e4])
def test_a_coupled_softmax_is_finite_at_extreme_scores(spread: float) -> None:
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    previous = (mask / mask.sum(1, keepdim=True)).float()
    scores = (drawn(4, 5) * spread).float()
    energies = drawn(5, 5).clamp(-1, 1).float() * 10
    values, gradients = values_and_gradients(
        lambda *inputs: coupled_softmax(inputs[0], mask, *inputs[1:]), (scores, energies, previous)
    )

    torch.testing.assert_close(values.exp().sum(1), torch.ones(4))
    assert torch.isfinite(values).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# Memory.

EVERY = torch.ones(4, 5).bool()


def uses() -> list[tuple[str, Callable[[], Tensor]]]:
    """A call of every kernel that notes something for its gradient."""

    def leaf(*shape: int) -> Tensor:
        return drawn(*shape).requires_grad_()

    def recomputed() -> Tensor:
        likelihood = PositionLikelihood(leaf(4, 5, 3), leaf(7, 3), leaf(7))
        likelihood.tape.room = 0
        return likelihood(drawn(4, 3), torch.arange(4), EVERY)

    def stored() -> Tensor:
        return PositionLikelihood(leaf(4, 5, 3), leaf(7, 3), leaf(7))(
            drawn(4, 3), torch.arange(4), EVERY
        )

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
