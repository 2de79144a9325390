"""Devices, the precision of their products, threads, memory, time, and what records say of the
machine.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from pam.io import UserError
from pam.models.kernels import Products
from pam.runtime import processor
from pam.version import __version__

PACKAGES = ("torch", "numpy", "snakemake", "pandas", "matplotlib", "sacrebleu")

# Parameters of glibc's mallopt, by their numbers in malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
CPU = torch.device("cpu")

_OUT_OF_MEMORY = re.compile(
    "can't allocate memory|out of memory|bad_alloc|ALLOC_FAILED|could not execute a primitive"
)
"""Messages of errors that have no class: of the CPU, CUDA, C++, cuBLAS and oneDNN."""


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """The device that is `wanted`: `cpu`, `cuda`, or `auto`, which is CUDA where there is one, else
    the CPU.

    Of processes of this machine that work together, `local_rank` is the number of this one, and of
    its CUDA device. A UserError says that there is no such device.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "no CUDA device is usable here",
            hint="ask for the device `cpu` or `auto`, or check the driver",
        )
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        usable = f"{torch.cuda.device_count()} can be used"
        message = f"no CUDA device for process {local_rank + 1} of this training: {usable}"
        raise UserError(message, hint="lower `resources.processes`, or ask for the device `cpu`")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def use_precision(precision: str, products: str | None = None, device: torch.device = CPU) -> str:
    """Set how torch takes float32 products in this process, and return who takes large ones on a
    CPU.

    CUDA takes them in TF32 unless the `precision` is `float32`. On a CPU it is `onednn` or
    `default`, the same at every start of a processor. MKL does not use AVX-512 on processors of
    other makers than its own. oneDNN does, in the same precision if the processor has no tiles of
    bfloat16. So it is oneDNN where the maker is another one, AVX-512 is there, and products are
    found exact.

    Args:
        precision: the one that is used, of `processor.usable_precision`.
        products: the answer of the run that goes on, which holds wherever oneDNN is exact.
        device: where products are taken; oneDNN has none of them on another device than a CPU.
    """
    uses_tf32 = precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = uses_tf32
    torch.backends.cudnn.allow_tf32 = uses_tf32
    has_avx512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
    pays = has_avx512 and processor.maker() not in (None, "GenuineIntel")
    wanted = products or ("onednn" if pays else "default")
    Products.by_onednn = device.type == "cpu" and wanted == "onednn" and processor.onednn_is_exact()
    return "onednn" if Products.by_onednn else "default"


def limit_threads() -> None:
    """`OMP_NUM_THREADS` of the environment, else one thread: a step's small products gain nothing
    by more.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(max(1, int(wanted)) if wanted.isdecimal() else 1)


def keep_heap() -> bool:
    """Makes glibc keep freed memory; true where that was possible.

    Else the kernel clears each page again for the next batch, which took up to half of the training
    time.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False  # another C library, musl for one
    # The largest threshold that glibc accepts, and no trimming; all three are set, whatever one
    # says.
    settings = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 16 << 20}
    done = [mallopt(name, value) for name, value in settings.items()]
    return all(done)


@contextmanager
def enough_for(work: str, hint: str) -> Iterator[None]:
    """A UserError names the setting to change where memory on the CPU or on CUDA does not suffice
    for this context.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
            raise
        raise UserError(f"out of memory in {work}", hint=hint) from error


class Stopwatch:
    """Wall, CPU and GPU seconds; a GPU second is a wall second for which a CUDA device was held."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def restart(self) -> dict[str, float]:
        """Seconds since it was started, `wall_s`, `cpu_s` and `gpu_s`.

        It starts again from zero.
        """
        before = self.wall, self.cpu
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        wall, cpu = self.wall - before[0], self.cpu - before[1]
        return {"wall_s": wall, "cpu_s": cpu, "gpu_s": wall if self.device.type == "cuda" else 0.0}


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine that did the work."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "cpu": processor.model_name(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that results depend on."""
    found = {"python": platform.python_version(), "pam": __version__}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    # What was imported is what ran: a build's local version is not in the metadata.
    return found | {"torch": torch.__version__}


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def peak_gpu_memory_mb(device: torch.device) -> float | None:
    """The most that this process has held of a CUDA device so far, in megabytes; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
