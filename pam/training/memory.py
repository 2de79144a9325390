"""Keeps freed memory in the process, where the next batch finds it."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


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
