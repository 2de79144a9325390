"""Hand-made gradients against plain twins of a few lines and against differences (float64).

Those of the output layer are in `test_output_kernels`.
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

from pam.models import kernels, options
from pam.models.couplings import coupled, coupled_softmax
from pam.models.distributions import Softmax
from pam.models.kernels import (
    LSTMCell,
    SharedLinear,
    SourceMatrix,
    additive,
    additive_plain,
    lstm_cell_plain,
    read_plain,
    scores_plain,
)
from pam.models.output_kernels import PositionLikelihood
from pam.runtime import torch_internals
from tests.models import tiny
from tests.models.gradients import (
    Function,
    assert_near,
    assert_same,
    by,
    cells_over_steps,
    drawn,
    steps_of,
    tapes_made,
)

pytestmark = pytest.mark.usefixtures("padded")

# The LSTM cell.


def fused(of_input: Tensor, of_state: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What torch's kernel for CUDA computes: the new h and c, and the gates, (n, 4H)."""
    i, f, g, o = (of_input + of_state).chunk(4, 1)
    gates = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()]
    new = gates[1] * c + gates[0] * gates[2]
    return gates[3] * new.tanh(), new, torch.cat(gates, 1)


def fused_backward(
    dh: Tensor, dnew: Tensor, c: Tensor, new: Tensor, gates: Tensor, bias: bool
) -> tuple[Tensor, ...]:
    """Gradients of the gates' sums, of c and of the biases."""
    (i, f, g, o), squashed = gates.chunk(4, 1), new.tanh()
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
    """Cells work as on CUDA; torch's kernels take and give what it says of them."""
    theirs = torch.ops.aten
    given = (
        "(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor?"
        " hidden_bias=None)"
    )
    assert f"{given} -> (Tensor, Tensor, Tensor)" in str(
        theirs._thnn_fused_lstm_cell.default._schema
    )
    given = (
        "(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias)"
    )
    schema = theirs._thnn_fused_lstm_cell_backward_impl.default._schema
    assert f"{given} -> (Tensor, Tensor, Tensor)" in str(schema)
    stand_in = SimpleNamespace(
        _thnn_fused_lstm_cell=fused, _thnn_fused_lstm_cell_backward_impl=fused_backward
    )
    monkeypatch.setattr(torch_internals, "aten", stand_in)
    monkeypatch.setattr(kernels, "_Cell", kernels._FusedCell)


@pytest.mark.usefixtures("by_fused_cells")
def test_a_fused_cell_as_on_cuda_over_steps_that_lose_rows() -> None:
    """The gradients around torch's kernel; the kernel itself is tried in `test_cuda`."""
    for shared in (False, True):
        kernel, twin, *given = cells_over_steps(shared)
        assert_same(partial(kernel, False), twin, *given)


@pytest.mark.parametrize("shared", [False, True], ids=["each", "bias"])
def test_an_lstm_cell_over_steps_that_lose_rows(shared: bool) -> None:
    kernel, twin, *given = cells_over_steps(shared)
    assert_same(partial(kernel, False), twin, *given)
    assert_near(kernel, given)


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
    assert [
        one is given[0] or one.data_ptr() == given[0].data_ptr()
        for one in saved
        if one.numel() == hidden
    ] == [True]


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
            lambda x: scores_plain(matrix[: len(x)], x),
            lambda weights: read_plain(matrix[: len(weights)], weights),
            xs,
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
    values, gradients = by(
        lambda *given: coupled_softmax(given[0], mask, *given[1:]), (scores, energies, previous)
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
