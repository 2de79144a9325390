"""Products with a weight that many steps share, by the library and in the precision chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pam.runtime.processor import Products
from pam.runtime.torch_internals import onednn_float32

F = TypeVar("F", bound=Callable[..., Any])


def large_products(function: F) -> F:
    """Let `Products` decide which library takes the products of this function.

    Products outside of these kernels, such as batches of small ones, come in too many shapes for
    oneDNN.
    """

    @wraps(function)
    def wrapped(*args: Any) -> Any:
        with onednn_float32() if Products.by_onednn else nullcontext():
            return function(*args)

    return cast(F, wrapped)


def padded_size(rows: int, bf16: bool) -> int:
    """Round a number of rows up where oneDNN takes the products.

    The result is a multiple of 16, and of a 32nd of the size. oneDNN compiles a program for each
    shape that it meets. The rows that have not ended, the tokens and the pairs of a batch have
    another number each time, so that a fifth of the time went into compiling, and much memory into
    programs. Of these sizes there are only 16 between any number and its double.
    """
    if not (bf16 or Products.by_onednn):
        return rows

    step = max(16, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def factor(x: Tensor, bf16: bool) -> Tensor:
    """Return a factor (n, X) of a product, with rows of zeros up to the `padded_size`.

    With `bf16`, it is in bfloat16.
    """
    rows = len(x)
    dtype = torch.bfloat16 if bf16 else x.dtype
    size = padded_size(rows, bf16)
    if size == rows:
        return x.to(dtype)

    padded = x.new_empty(size, x.shape[1], dtype=dtype)
    padded[:rows] = x
    padded[rows:].zero_()
    return padded


def stacked(parts: Sequence[Tensor], bf16: bool) -> Tensor:
    """Return a `factor` of the rows of all parts (n, X), one after another."""
    if len(parts) == 1:
        return factor(parts[0], bf16)

    rows = sum(map(len, parts))
    dtype = torch.bfloat16 if bf16 else parts[0].dtype
    padded = parts[0].new_empty(padded_size(rows, bf16), parts[0].shape[1], dtype=dtype)
    torch.cat([part.to(dtype) for part in parts], out=padded[:rows])
    padded[rows:].zero_()
    return padded


def trimmed(x: Tensor, rows: int) -> Tensor:
    """Return the first rows of x, (rows, X).

    Without padding this is x itself, as a view for each step of a batch takes time.
    """
    if len(x) == rows:
        return x
    return x[:rows]


def product(x: Tensor, weight: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Return x W, (rows, Y), of a `factor` x, in the type `dtype`."""
    return trimmed(x @ weight, rows).to(dtype)
