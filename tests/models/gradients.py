"""Kernels beside their plain twins: values, gradients by hand and by differences (float64), and
what they keep.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from pam.models.kernels import LSTMCell, Tape, lstm_cell_plain

DOUBLE = torch.float64
COUNTS = (4, 4, 3, 1)
"""Rows of each step: they end one after another."""

Function = Callable[..., Tensor]


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
    # A random projection of the Jacobian suffices, as the twin's gradient was compared number by
    # number.
    leaves = tuple(part.clone().requires_grad_() for part in given)
    assert gradcheck(kernel, leaves, nondet_tol=1e-12, fast_mode=True)


def assert_near(kernel: Function, given: Sequence[Tensor]) -> None:
    """In bfloat16 (`kernel(True, ...)`) values and gradients are those of float32, but roughly."""
    narrow = [part.float() for part in given]
    exact, rough = (
        by(lambda *leaves, bf16=bf16: kernel(bf16, *leaves), narrow) for bf16 in (False, True)
    )
    assert rough[0].dtype == torch.float32 and not torch.equal(exact[0], rough[0])
    for mine, theirs in zip([rough[0], *rough[1]], [exact[0], *exact[1]], strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() < 0.02 * theirs.norm()


def steps_of(size: int, seed: int = 0) -> tuple[Tensor, ...]:
    """An input (n, size) of each step."""
    return tuple(drawn(n, size, seed=seed + t) for t, n in enumerate(COUNTS))


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


def cells_over_steps(shared: bool) -> Any:
    """An `LSTMCell`, in bfloat16 or not, over steps that lose rows, its twin, and what both are
    given.
    """

    def over_steps(
        cell: Callable[..., tuple[Tensor, Tensor]], before: Tensor, *given: Tensor
    ) -> Tensor:
        (h, c), found = given[:2], []
        for t, (n, x) in enumerate(zip(COUNTS, given[2:], strict=True)):
            gates = before if shared else before[t, :n]
            h, c = cell(gates, x, h[:n], c[:n])
            found += [h, c]
        return torch.cat(found)

    def kernel(bf16: bool, wx: Tensor, wh: Tensor, *given: Tensor) -> Tensor:
        return over_steps(LSTMCell(wx, wh, bf16), *given)

    def twin(wx: Tensor, wh: Tensor, *given: Tensor) -> Tensor:
        return over_steps(lambda *own: lstm_cell_plain(*own, wx, wh), *given)

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
