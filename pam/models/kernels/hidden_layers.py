"""The hidden layer z of the output layer, of a sum u, with a gradient by hand.

Each kind is defined by `HiddenLayer.plain`, which autograd differentiates. The kernels of the
output layer compute z in place, and its gradient from what `Hidden` keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.models.logspace import tanh_
from pam.runtime.torch_internals import tanh_backward

EPSILON = 1e-5  # added to variances, as `nn.LayerNorm` does


class Hidden(NamedTuple):
    """Hidden layers of P sums, and what their gradient needs."""

    z: Tensor  # (P, R)
    scale: Tensor | None = None  # (P, 1) the factor by which sums were scaled, or None

    def select(self, rows: Tensor | slice) -> Hidden:
        """Keep some rows."""
        scale = None
        if self.scale is not None:
            scale = self.scale[rows]
        return Hidden(self.z[rows], scale)


class HiddenLayer(ABC):
    """A function from sums u to hidden layers z, row by row."""

    @abstractmethod
    def plain(self, u: Tensor) -> Tensor:
        """Compute z of u (..., R), the definition."""

    @abstractmethod
    def overwrite(self, u: Tensor) -> Hidden:
        """Compute z of u (P, R) and write it over u."""

    @abstractmethod
    def backward(self, dz: Tensor, hidden: Hidden) -> Tensor:
        """Return the gradient of u, (P, R), given that of z, which may be overwritten."""


class Identity(HiddenLayer):
    """z = u: there is no hidden layer."""

    def plain(self, u: Tensor) -> Tensor:
        return u

    def overwrite(self, u: Tensor) -> Hidden:
        return Hidden(u)

    def backward(self, dz: Tensor, hidden: Hidden) -> Tensor:
        return dz


class Tanh(HiddenLayer):
    """z = tanh(u)."""

    def plain(self, u: Tensor) -> Tensor:
        return torch.tanh(u)

    def overwrite(self, u: Tensor) -> Hidden:
        return Hidden(tanh_(u))

    def backward(self, dz: Tensor, hidden: Hidden) -> Tensor:
        return tanh_backward(dz, hidden.z)


class Standardized(HiddenLayer):
    """z = (u - mean u) / std u: layer norm before its gain and bias, which the output layer has."""

    def plain(self, u: Tensor) -> Tensor:
        return F.layer_norm(u, u.shape[-1:], eps=EPSILON)

    def overwrite(self, u: Tensor) -> Hidden:
        u.sub_(u.mean(1, keepdim=True))
        scale = torch.rsqrt(u.square().mean(1, keepdim=True) + EPSILON)
        return Hidden(u.mul_(scale), scale)

    def backward(self, dz: Tensor, hidden: Hidden) -> Tensor:
        z = hidden.z
        assert hidden.scale is not None

        # What moves the mean or the length of u changes no z.
        along = (dz * z).mean(1, keepdim=True)
        dz = dz - dz.mean(1, keepdim=True) - z * along
        return dz * hidden.scale


IDENTITY = Identity()
TANH = Tanh()
STANDARDIZED = Standardized()
