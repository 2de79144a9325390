"""The core's own rates and accuracy of products, by setting."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

SETTINGS = ("float32", "medium", "bf16")
SECONDS = 0.3  # for which a product is repeated


@contextmanager
def setting(name: str) -> Iterator[torch.dtype]:
    """Take products by a setting within this context; return the type of operands."""
    torch.set_float32_matmul_precision("medium" if name == "medium" else "highest")
    yield torch.bfloat16 if name == "bf16" else torch.float32
    torch.set_float32_matmul_precision("highest")


def rates(sizes: Sequence[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Measure the GFLOP per CPU second of products (m, k) @ (n, k)^T."""
    rows = []
    for m, k, n in sizes:
        row: dict[str, Any] = {"m": m, "k": k, "n": n}
        for name in SETTINGS:
            with setting(name) as dtype:
                a = torch.randn(m, k).to(dtype)
                b = torch.randn(n, k).to(dtype)
                out = torch.randn(m, n).to(dtype)
                row[name] = round(2e-9 * m * k * n / _seconds(a, b.t(), out), 1)

        rows.append(row)

    return rows


def _seconds(a: Tensor, b: Tensor, out: Tensor) -> float:
    """Return the CPU seconds of one product."""
    # The first calls are slower.
    for _ in range(3):
        torch.mm(a, b, out=out)

    count = 0
    began = time.process_time()
    while time.process_time() - began < SECONDS:
        torch.mm(a, b, out=out)
        count += 1
    return (time.process_time() - began) / count


def accuracy() -> dict[str, float]:
    """Return the mean error of products, relative to their mean size.

    Above 1e-4, float32 operands were rounded.
    """
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(512, 512, generator=generator, dtype=torch.double).float()
    b = torch.randn(512, 512, generator=generator, dtype=torch.double).float()
    exact = a.double() @ b.double()

    errors = {}
    for name in SETTINGS:
        with setting(name) as dtype:
            error = (a.to(dtype) @ b.to(dtype)).double() - exact
        errors[name] = float(f"{error.abs().mean() / exact.abs().mean():.1e}")
    return errors
