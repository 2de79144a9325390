"""Which device a job uses, and how many threads."""

from __future__ import annotations

import os

import torch

from pam.errors import UserError


def choose_device(wanted: str, place: int = 0) -> torch.device:
    """`auto`: CUDA where there is one, else the CPU.

    Args:
        place: number of this process among those of this machine that work together; each takes
            the CUDA device of its number.

    Raises:
        UserError: `cuda` is wanted and there is none, or there are fewer devices than processes.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "no CUDA device is usable here", remedy="use --device cpu, or check the driver"
        )
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if place >= torch.cuda.device_count():
        raise UserError(
            f"no CUDA device for process {place + 1} of this training: "
            f"{torch.cuda.device_count()} can be used",
            remedy="lower `resources.processes`, or use --device cpu",
        )
    torch.cuda.set_device(place)
    return torch.device("cuda", place)


def use_precision(precision: str) -> None:
    """Lets CUDA take products in TF32, or keeps it from it; on a CPU nothing changes."""
    allowed = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def limit_threads() -> None:
    """One thread, unless the environment says otherwise (`OMP_NUM_THREADS`).

    One step is a chain of small products: threads within it cost more than they gain.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(max(1, int(wanted)) if wanted.isdecimal() else 1)
