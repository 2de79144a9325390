"""Products with M(a, a') = w(a - a'), the matrix of a coupling that depends on distance."""

from __future__ import annotations

import torch
from torch import Tensor

DENSE = 96
"""Longest source for which the m x m product is faster than the Fourier transform on a CPU."""


class Toeplitz:
    """M with M(a, a') = weights[a - a' + m - 1], for alignments of length m.

    A product costs m log m: the distances are a convolution, taken through the Fourier transform.
    Short sources use the dense matrix, which is then the faster of the two. All weights are
    positive and of order 1, so both are accurate relative to the sum of the input.

    Args:
        weights: (2m - 1,) positive, w(d) for d = -(m-1) .. m-1.
    """

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights
        self.length = (weights.shape[0] + 1) // 2
        self.dense: Tensor | None = None
        if self.length <= DENSE:
            positions = torch.arange(self.length, device=weights.device)
            index = positions[:, None] - positions[None, :] + self.length - 1
            self.dense = weights[index]
        else:
            self.size = 4 * self.length
            self.spectrum = torch.fft.rfft(weights, self.size)

    def zeros(self) -> Tensor:
        """The gradient of the weights where no product was taken: (2m - 1,)."""
        return torch.zeros_like(self.weights)

    def apply(self, x: Tensor) -> Tensor:
        """(M x)(a) = sum_a' w(a - a') x(a'), for x of (B, m)."""
        if self.dense is not None:
            return x @ self.dense.t()
        product: Tensor = torch.fft.irfft(torch.fft.rfft(x, self.size) * self.spectrum, self.size)
        return product[:, self.length - 1 : 2 * self.length - 1]

    def apply_transposed(self, x: Tensor) -> Tensor:
        """(M^T x)(a') = sum_a w(a - a') x(a), for x of (B, m)."""
        if self.dense is not None:
            return x @ self.dense
        product = torch.fft.irfft(torch.fft.rfft(x, self.size) * self.spectrum.conj(), self.size)
        # Distances run from -(m-1): a' - (m-1) wraps round to the end of the period.
        return torch.cat([product[:, 1 - self.length :], product[:, :1]], dim=1)

    def gradient(self, left: Tensor, right: Tensor) -> Tensor:
        """Gradient of sum_{b,a,a'} left(b,a) w(a - a') right(b,a') by w: (2m - 1,)."""
        if self.dense is not None:
            outer = left.t() @ right  # (a, a')
            positions = torch.arange(self.length, device=left.device)
            index = positions[:, None] - positions[None, :] + self.length - 1
            flat = torch.zeros(2 * self.length - 1, dtype=left.dtype, device=left.device)
            return flat.index_add_(0, index.flatten(), outer.flatten())
        spectrum = torch.fft.rfft(left, self.size) * torch.fft.rfft(right, self.size).conj()
        product = torch.fft.irfft(spectrum.sum(0), self.size)
        return torch.cat([product[1 - self.length :], product[: self.length]])
