"""What the core itself does: rates and accuracy of products, by setting."""

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
    """The type of operands, while products are taken so."""
    torch.set_float32_matmul_precision("medium" if name == "medium" else "highest")
    yield torch.bfloat16 if name == "bf16" else torch.float32
    torch.set_float32_matmul_precision("highest")


def rates(sizes: Sequence[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """GFLOP per CPU second of products (m, k) @ (n, k)^T."""
    rows = []
    for m, k, n in sizes:
        row: dict[str, Any] = {"m": m, "k": k, "n": n}
        for name in SETTINGS:
            with setting(name) as dtype:
                a, b, out = (torch.randn(shape).to(dtype) for shape in ((m, k), (n, k), (m, n)))
                row[name] = round(2e-9 * m * k * n / _seconds(a, b.t(), out), 1)
        rows.append(row)
    return rows


def _seconds(a: Tensor, b: Tensor, out: Tensor) -> float:
    """CPU seconds of one product."""
    for _ in range(3):
        torch.mm(a, b, out=out)
    count, began = 0, time.process_time()
    while time.process_time() - began < SECONDS:
        torch.mm(a, b, out=out)
        count += 1
    return (time.process_time() - began) / count


def accuracy() -> dict[str, float]:
    """The mean error of products, relative to their mean size; above 1e-4 float32 operands were
    rounded.
    """
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(512, 512, generator=generator, dtype=torch.double) for _ in range(2))
    a, b = a.float(), b.float()
    exact = a.double() @ b.double()
    found = {}
    for name in SETTINGS:
        with setting(name) as dtype:
            error = (a.to(dtype) @ b.to(dtype)).double() - exact
        found[name] = float(f"{error.abs().mean() / exact.abs().mean():.1e}")
    return found
