"""Checks of kernels against their plain twins: values, gradients and memory (float64)."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from pam.models.kernels.lstm import LSTMCell, lstm_cell_plain
from pam.models.kernels.tape import Tape

DOUBLE = torch.float64
COUNTS = (4, 4, 3, 1)
"""Number of rows of each step: rows end one after another."""

Function = Callable[..., Tensor]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Draw standard normal numbers, the same for the same shape and seed."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=DOUBLE)


def values_and_gradients(
    function: Function, inputs: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Return a function's values, and the gradients of an uneven sum of them."""
    leaves = [part.clone().requires_grad_() for part in inputs]
    values = function(*leaves)
    # Unequal weights, so that no error cancels.
    weights = torch.linspace(-1.0, 2.0, values.numel()).to(values).view_as(values)
    return values.detach(), list(torch.autograd.grad((values * weights).sum(), leaves))


def assert_same(kernel: Function, twin: Function, *inputs: Tensor) -> None:
    """Check a kernel's values and gradients against its twin's, and gradients numerically."""
    values, gradients = values_and_gradients(kernel, inputs)
    twin_values, twin_gradients = values_and_gradients(twin, inputs)
    torch.testing.assert_close(values, twin_values, rtol=1e-12, atol=1e-12)
    assert all(gradient.abs().max() > 1e-3 for gradient in twin_gradients)
    for gradient, twin_gradient in zip(gradients, twin_gradients, strict=True):
        torch.testing.assert_close(gradient, twin_gradient, rtol=1e-11, atol=1e-12)

    # A kernel may keep something for one backward pass alone, and compute it again for another.
    # A random projection of the Jacobian suffices, as gradients were compared one by one above.
    leaves = tuple(part.clone().requires_grad_() for part in inputs)
    assert gradcheck(kernel, leaves, nondet_tol=1e-12, fast_mode=True)


def assert_near(kernel: Function, inputs: Sequence[Tensor]) -> None:
    """Check that `kernel(True, ...)`, in bfloat16, is near float32 in values and gradients."""
    narrow = [part.float() for part in inputs]
    exact_values, exact_gradients = values_and_gradients(partial(kernel, False), narrow)
    rough_values, rough_gradients = values_and_gradients(partial(kernel, True), narrow)

    assert rough_values.dtype == torch.float32 and not torch.equal(exact_values, rough_values)
    exact = [exact_values, *exact_gradients]
    rough = [rough_values, *rough_gradients]
    for rough_part, exact_part in zip(rough, exact, strict=True):
        assert rough_part.dtype == torch.float32
        assert (rough_part - exact_part).norm() < 0.02 * exact_part.norm()


def steps_of(size: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Draw an input (n, size) for each step."""
    return tuple(drawn(n, size, seed=seed + t) for t, n in enumerate(COUNTS))


def tapes_made(patch: pytest.MonkeyPatch) -> list[weakref.ref[Tape]]:
    """Return a list to which every tape is added, as a weak reference, when it is made."""
    tapes: list[weakref.ref[Tape]] = []

    def noting(made: Callable[..., None]) -> Callable[..., None]:
        def init(self: Tape, *arguments: Any) -> None:
            made(self, *arguments)
            tapes.append(weakref.ref(self))

        return init

    for kind in Tape.__subclasses__():
        patch.setattr(kind, "__init__", noting(kind.__init__))
    return tapes


def cells_over_steps(shared: bool) -> Any:
    """Return an `LSTMCell` over steps that lose rows, its twin, and the inputs of both.

    The cell is a function of whether it takes products in bfloat16, and of the inputs. With
    `shared` all steps and rows have the same input to the gates, as from a bias.
    """

    def over_steps(
        cell: Callable[..., tuple[Tensor, Tensor]], before: Tensor, *inputs: Tensor
    ) -> Tensor:
        h, c = inputs[:2]
        states = []
        for t, (n, x) in enumerate(zip(COUNTS, inputs[2:], strict=True)):
            gates = before if shared else before[t, :n]
            h, c = cell(gates, x, h[:n], c[:n])
            states += [h, c]
        return torch.cat(states)

    def kernel(bf16: bool, wx: Tensor, wh: Tensor, *inputs: Tensor) -> Tensor:
        return over_steps(LSTMCell(wx, wh, bf16), *inputs)

    def twin(wx: Tensor, wh: Tensor, *inputs: Tensor) -> Tensor:
        return over_steps(lambda *arguments: lstm_cell_plain(*arguments, wx, wh), *inputs)

    before = drawn(12) if shared else drawn(4, 4, 12)
    return (
        kernel,
        twin,
        drawn(12, 2),
        drawn(12, 3),
        before,
        drawn(4, 3),
        drawn(4, 3, seed=1),
        *steps_of(2),
    )
