"""How a model computes: the precision of its products, and whether steps may wait for values."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Compute:
    """How the parts of a model compute."""

    bf16: bool = False
    """Whether training takes large products in bfloat16; sums and states never are."""

    search_bf16: bool = False
    """Whether a search takes the products of its output layer in bfloat16."""

    static: bool = False
    """Whether nothing may wait for any value on the device.

    Shapes then depend on the batch's shapes alone. A batch has rows and tokens of padding, whose
    values have no meaning. All other tokens must have the same weight in what is differentiated, as
    in a sum; else gradients are NaN.
    """


FLOAT32 = Compute()


class Part(nn.Module):
    """A part of a model that computes as the model does; `Model.use` sets it for all parts."""

    compute = FLOAT32
