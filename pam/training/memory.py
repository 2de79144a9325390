"""Memory: kept for the next batch, and what to do where it does not suffice."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pam.errors import UserError

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SIGNS = (
    *("can't allocate memory", "out of memory", "bad_alloc", "ALLOC_FAILED"),
    "could not execute a primitive",
)
"""What torch says, by errors that have no class: for the CPU, CUDA, C++, cuBLAS and oneDNN."""


def keep_heap() -> bool:
    """Tells glibc not to return freed memory to the kernel; true where that was possible.

    A batch allocates and frees some tens of megabytes. Given back and asked for again, each page
    of it is cleared by the kernel anew, which took up to half of the training time.
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
def enough_for(work: str, remedy: str) -> Iterator[None]:
    """Names the setting to change where memory does not suffice for what is done in this context.

    A process that Linux kills because the whole machine has run out of memory cannot say anything.

    Raises:
        UserError: an allocation failed, on the CPU or on CUDA.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        failed = isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)
        if not failed:
            raise
        raise UserError(f"out of memory in {work}", remedy=remedy) from error
