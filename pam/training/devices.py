"""Devices: which one a training runs on, its precision, threads and memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pam.io import UserError

# Parameters of glibc's mallopt, by their numbers in malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_OUT_OF_MEMORY = (
    *("can't allocate memory", "out of memory", "bad_alloc", "ALLOC_FAILED"),
    "could not execute a primitive",
)
"""Messages of errors that have no class: of the CPU, CUDA, C++, cuBLAS and oneDNN."""


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """`auto`: CUDA where there is one, else the CPU.

    Args:
        wanted: `auto`, `cpu` or `cuda`.
        local_rank: number of this process among those of this machine that work together; each
            takes the CUDA device of its number.

    Raises:
        UserError: `cuda` is wanted and there is none, or there are fewer devices than processes.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device is usable here", hint="use --device cpu, or check the driver")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"no CUDA device for process {local_rank + 1} of this training: {torch.cuda.device_count()} can be used",
            hint="lower `resources.processes`, or use --device cpu",
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


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


def keep_heap() -> bool:
    """Makes glibc keep freed memory; true where that was possible.

    A batch allocates and frees some tens of megabytes. Where they go back to the kernel, it clears
    each page again for the next batch, which took up to half of the training time.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False  # another C library, musl for one
    kept = [
        mallopt(_MMAP_THRESHOLD, 32 << 20),  # the most that glibc accepts
        mallopt(_TRIM_THRESHOLD, 2**31 - 1),
        mallopt(_TOP_PAD, 16 << 20),
    ]
    return all(kept)


@contextmanager
def enough_for(work: str, hint: str) -> Iterator[None]:
    """Names the setting to change where memory does not suffice for what is done in this context.

    A process that Linux kills because the whole machine has run out of memory cannot say anything.

    Raises:
        UserError: an allocation failed, on the CPU or on CUDA.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        message = str(error)
        if not isinstance(error, MemoryError) and not any(s in message for s in _OUT_OF_MEMORY):
            raise
        raise UserError(f"out of memory in {work}", hint=hint) from error
