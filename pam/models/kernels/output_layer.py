"""The output layer: log-likelihoods of given symbols, without keeping distributions.

It is where time and memory go when the vocabulary is large. Distributions are computed in pieces
that a cache holds. The error of a distribution is p - onehot(symbol), the gradient by the logits of
-log p(symbol).
"""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.kernels.compute import FLOAT32, Compute
from pam.models.kernels.hidden_layers import TANH, Hidden, HiddenLayer
from pam.models.kernels.products import factor, large_products, padded_size

CHUNK = 1 << 24
"""Bytes of the largest piece of logits that are computed at a time: 16 MB, for a cache."""

CUDA_PIECES = 16
"""The size of a piece on CUDA over that on a CPU: there a piece costs launches, and no cache."""

BLOCK = 1 << 11
"""Symbols whose gradients are added at a time on a CPU, where products are in bfloat16.

Their float32 product is to stay in a cache. That of all symbols is allocated anew each time, and
its page faults cost more than the product.
"""

WAITING = 512
"""Rows that wait at most, before one product adds their gradients of the weights: see `_wait`."""

WAITING_BYTES = 1 << 26
"""Bytes of their errors, at most: 64 MB, or one piece, if that is larger."""

SMALLEST = 1e-30
"""Probabilities below it are computed once more, in log space: they may be rounded to zero."""

PICKING = 32
"""To pick a row out of many costs as much as the logits and gradients of so many symbols."""

WHOLE = 1 << 26
"""Numbers of distributions on CUDA up to which no rows are picked out.

To pick some, the processor would wait for the device to say how many, which takes longer.
"""


class OutputLayer:
    """softmax(W z + b) of the hidden layer z of u; gradients are gathered over many calls.

    Distributions stand in memory that the next call uses again, unless it is given a place, `out`.
    Large pieces that come and go among small ones that stay would leave holes in memory.

    Args:
        weight: (V, R); bias: (V,).
        compute: how products are taken. With `bf16`, distributions too are held in bfloat16. Logits
            are then off by up to 2^-9 of their size; sums and gradients are those of the rounded
            logits.
        hidden_layer: makes z of u.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        compute: Compute = FLOAT32,
        hidden_layer: HiddenLayer = TANH,
    ) -> None:
        self.weight = weight
        self.bias = bias
        self.hidden_layer = hidden_layer
        if compute.bf16:
            # Column after column, with which oneDNN takes the products of a gradient a quarter
            # faster.
            self.weight = weight.t().bfloat16().contiguous().t()
            self.bias = bias.bfloat16()

        self.compute = compute
        self.bf16 = compute.bf16
        self.width = len(weight)
        self.dtype = weight.dtype
        self.scratch: dict[str, Tensor] = {}

        # Of rows whose gradients are still to be added: z, weighted, and the weights.
        self.waiting: list[tuple[Tensor, Tensor]] = []
        self.dweight: Tensor | None = None
        self.dbias: Tensor | None = None

    @property
    def distribution_bytes(self) -> int:
        """The bytes of one distribution."""
        return self.width * self.weight.element_size()

    @property
    def piece_rows(self) -> int:
        """The number of distributions in one piece; 16/17 leaves room for the rows of `padded`."""
        piece_bytes = CHUNK
        if self.weight.is_cuda:
            piece_bytes = CHUNK * CUDA_PIECES
        return self.padded(max(1, piece_bytes // self.distribution_bytes * 16 // 17))

    @property
    def waiting_rows(self) -> int:
        """The largest number of rows that wait."""
        return min(WAITING, max(self.piece_rows, WAITING_BYTES // self.distribution_bytes))

    def padded(self, rows: int) -> int:
        """Return the number of rows with the rows of zeros of a product; see `padded_size`."""
        return padded_size(rows, self.bf16)

    @large_products
    def probs(self, z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the distribution for each z (n, R), and its logits, (n, V) each."""
        rows = len(z)
        z_factor = factor(z, self.bf16)
        logits = self._rows("logits", len(z_factor))
        torch.addmm(self.bias, z_factor, self.weight.t(), out=logits)

        if out is None:
            out = self._rows("probs", rows)
        return torch.softmax(logits[:rows], dim=1, out=out), logits[:rows]

    def errors(
        self, z: Tensor, symbols: Tensor, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log p(symbol), (n,), and the errors p - onehot(symbol) for z (n, R), (N, V).

        N is n with the rows of zeros of `padded`. `out`, of N rows, is where errors are to stand.
        """
        rows = len(z)
        if out is None:
            out = self._rows("probs", self.padded(rows))
        out[rows:].zero_()
        error, logits = self.probs(z, out[:rows])

        column = symbols[:, None]
        if self.bf16:
            p_gold, log_likelihood = self._subtract_gold_in_bf16(error, symbols)
        elif z.is_cuda or self.compute.static:
            # In log space at once: to look for probabilities that were rounded to zero, the
            # processor would wait for the device.
            log_likelihood = logits.gather(1, column).squeeze(1) - logits.logsumexp(1)
            error.scatter_(1, column, log_likelihood.expm1()[:, None])
            return log_likelihood, out
        else:
            p_gold = error.gather(1, column).squeeze(1)
            error.scatter_(1, column, (p_gold - 1)[:, None])
            log_likelihood = p_gold.log()

        if float(p_gold.amin()) < SMALLEST:
            lost = (p_gold < SMALLEST).nonzero().squeeze(1)
            exact = torch.log_softmax(logits[lost].to(self.dtype), dim=1)
            log_likelihood[lost] = exact.gather(1, symbols[lost, None]).squeeze(1)
        return log_likelihood, out

    def _subtract_gold_in_bf16(self, error: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """Turn probabilities (n, V) into errors, and return p(symbol) and its logarithm, (n,)."""
        # Not by `scatter_`, which copies all of a tensor in bfloat16.
        gold = torch.arange(len(error), device=error.device), symbols
        p_gold = error[gold].to(self.dtype)

        # 1 - p is the sum of all others: where p is rounded to 1, and as rounded ones do not sum
        # to 1.
        error[gold] = 0.0
        p_others = error.sum(1)
        error[gold] = -p_others

        return p_gold, (p_gold / (p_gold + p_others)).log()

    def _rows(self, name: str, count: int) -> Tensor:
        """Return the first `count` rows of a piece of memory that is used again and again."""
        buffer = self.scratch.get(name)
        if buffer is None or len(buffer) < count:
            buffer = self.weight.new_empty(count, self.width)
            self.scratch[name] = buffer
        return buffer[:count]

    @large_products
    def backward(self, hidden: Hidden, error: Tensor, scale: Tensor) -> Tensor:
        """Return the gradient of u, (n, R), and add to those of weight and bias.

        Args:
            hidden: z (n, R); error: (N, V) of z by `errors`.
            scale: (n,) the gradient of log p(symbol).
        """
        z = hidden.z

        # Rows are weighted on the narrow side of each product. To wait pays if at least two calls
        # fit into `waiting_rows`.
        weights = -scale[:, None]
        if 2 * len(z) > self.waiting_rows or z.is_cuda:
            self._add(error, z * weights, weights)
        else:
            self._wait(error[: len(z)], z * weights, weights)

        dz = (error @ self.weight)[: len(z)] * weights
        return self.hidden_layer.backward(dz, hidden)

    def _wait(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Keep rows until there are many.

        A product of few rows reads and writes a whole gradient for them.
        """
        size = self.waiting_rows
        first = sum(len(waiting) for waiting, _ in self.waiting)
        if first + len(error) > size:
            self._add_waiting()
            first = 0

        self._rows("errors", self.padded(size))[first : first + len(error)] = error
        self.waiting.append((weighted, weights))

    def _add_waiting(self) -> None:
        """Add the gradients of the rows that wait."""
        weighted, weights = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting = []

        error = self._rows("errors", self.padded(len(weights)))
        error[len(weights) :].zero_()
        self._add(error, weighted, weights)

    @large_products
    def _add(self, error: Tensor, weighted: Tensor, weights: Tensor) -> None:
        """Add to the gradients of weight and bias.

        Args:
            error: (N, V), with rows of zeros.
            weighted: (n, R) z times its weights; weights: (n, 1).
        """
        z_factor = factor(weighted, self.bf16)
        weight_factor = factor(weights, self.bf16)
        if self.dweight is None or self.dbias is None:
            self.dweight = torch.zeros(self.weight.shape, dtype=self.dtype, device=weights.device)
            self.dbias = torch.zeros(self.width, dtype=self.dtype, device=weights.device)

        self.dbias.add_((weight_factor.t() @ error).squeeze(0))
        if not self.bf16:
            self.dweight.addmm_(error.t(), z_factor)
            return

        size = self.width if error.is_cuda else BLOCK
        for first in range(0, self.width, size):
            block = slice(first, first + size)
            self.dweight[block].add_(error[:, block].t() @ z_factor)

    def pick_errors(self, error: Tensor, rows: Tensor) -> Tensor:
        """Return some rows (n,) of errors, as `errors` does, until the next call."""
        # In the place of the logits, which nobody needs any more.
        picked = self._rows("logits", self.padded(len(rows)))
        torch.index_select(error, 0, rows, out=picked[: len(rows)])
        picked[len(rows) :].zero_()
        return picked

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of weight and bias since the last call; None without any."""
        if self.waiting:
            self._add_waiting()

        dweight = self.dweight
        dbias = self.dbias
        self.dweight = None
        self.dbias = None
        return dweight, dbias


def significant_rows(scale: Tensor, width: int) -> Tensor | None:
    """Return the indices of rows where |scale| (n,) is not lost in rounding.

    A row whose scale is below the precision of the largest changes no sum that it enters. None
    stands for all rows, or for too many to pick them.
    """
    if scale.is_cuda and len(scale) * width <= WHOLE:
        return None

    size = scale.abs()
    rows = (size > size.amax() * torch.finfo(scale.dtype).eps).nonzero().squeeze(1)
    if not picking_pays(len(scale) - len(rows), len(scale), width):
        return None
    return rows


def picking_pays(left_out: int, rows: int, width: int) -> bool:
    """Return whether to leave rows out of all `rows` spares more than picking the others costs."""
    return left_out * width > PICKING * rows


def backward_rows(
    layer: OutputLayer, hidden: Hidden, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    """Return the gradient of u, (P, R), of P rows, by `OutputLayer.backward`.

    Rows whose scale is lost in rounding are left out.

    `error` is as of `OutputLayer.errors`; None: it is computed once more.
    """
    rows = None
    if not layer.compute.static:
        rows = significant_rows(scale, layer.width)
    if rows is None:
        return _backward(layer, hidden, error, symbols, scale)

    du = torch.zeros_like(hidden.z)
    if error is not None:
        error = layer.pick_errors(error, rows)
    picked_du = _backward(layer, hidden.select(rows), error, symbols[rows], scale[rows])
    return du.index_copy_(0, rows, picked_du)


def _backward(
    layer: OutputLayer, hidden: Hidden, error: Tensor | None, symbols: Tensor, scale: Tensor
) -> Tensor:
    """Return the gradient of u, (P, R), of all rows."""
    if error is not None:
        return layer.backward(hidden, error, scale)

    du = torch.empty_like(hidden.z)
    for first in range(0, len(du), layer.piece_rows):
        piece = slice(first, first + layer.piece_rows)
        of_piece = hidden.select(piece)
        _, piece_error = layer.errors(of_piece.z, symbols[piece])
        du[piece] = layer.backward(of_piece, piece_error, scale[piece])
    return du
