"""Which device a job uses."""

from __future__ import annotations

import torch

from pam.errors import UserError


def choose_device(wanted: str) -> torch.device:
    """`auto`: CUDA where there is one, else the CPU.

    Raises:
        UserError: `cuda` is wanted and there is none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "no CUDA device is usable here", remedy="use --device cpu, or check the driver"
        )
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
