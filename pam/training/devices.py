"""The machine that does the work: device, precision, threads, memory, time, and what records say of it."""

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
from pathlib import Path
from typing import Any

import torch

import pam
from pam.io import UserError
from pam.models.kernels import Products, onednn_float32

PACKAGES = ("torch", "numpy", "snakemake", "pandas", "matplotlib", "sacrebleu")

# Parameters of glibc's mallopt, by their numbers in malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
CPU = torch.device("cpu")
EXACT = 2e-6
"""The largest mean relative error of a product in float32: it has some 3e-7, one in bfloat16 2e-3."""

_OUT_OF_MEMORY = re.compile("can't allocate memory|out of memory|bad_alloc|ALLOC_FAILED|could not execute a primitive")
"""Messages of errors that have no class: of the CPU, CUDA, C++, cuBLAS and oneDNN."""


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """The device that is `wanted`: `cpu`, `cuda`, or `auto`, which is CUDA where there is one, else the CPU.

    Of processes of this machine that work together, `local_rank` is the number of this one, and of its CUDA device. A
    UserError says that there is no such device.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device is usable here", hint="ask for the device `cpu` or `auto`, or check the driver")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        usable = f"{torch.cuda.device_count()} can be used"
        message = f"no CUDA device for process {local_rank + 1} of this training: {usable}"
        raise UserError(message, hint="lower `resources.processes`, or ask for the device `cpu`")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def use_precision(precision: str, products: str | None = None, device: torch.device = CPU) -> str:
    """Lets CUDA take products in TF32, as for `tf32` so for `bf16`; says who takes large float32 products on a CPU.

    The answer, `onednn` or `default`, is the same on every start of a processor. MKL does not use AVX-512 on processors
    of other makers than its own; oneDNN does, in the same precision if the processor has no tiles of bfloat16. So it is
    oneDNN where the maker is another one, AVX-512 is there, and products are found exact. `products`: the answer of the
    run that goes on, which holds wherever oneDNN is exact. Products on another `device` are not oneDNN's.
    """
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
    pays = cpu_maker() not in (None, "GenuineIntel") and "AVX512" in torch.backends.cpu.get_cpu_capability()
    wanted = products or ("onednn" if pays else "default")
    Products.by_onednn = device.type == "cpu" and wanted == "onednn" and onednn_is_exact()
    return "onednn" if Products.by_onednn else "default"


def onednn_is_exact() -> bool:
    """Whether oneDNN takes float32 products in float32, by some small ones against float64."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(1)
    for rows, inner, columns in ((16, 64, 64), (64, 512, 128), (128, 128, 1024)):
        a, b = (torch.randn(shape, generator=generator) for shape in ((rows, inner), (inner, columns)))
        with onednn_float32():
            found = a @ b
        right = a.double() @ b.double()
        if float((found - right).abs().mean() / right.abs().mean()) > EXACT:
            return False
    return True


def cpu_maker() -> str | None:
    """The maker of an x86 processor, as it names itself; None if it does not."""
    named = re.search(r"^vendor_id.*?:\s*(\S+)", _cpu_info(), re.MULTILINE)
    return named[1] if named else None


def _cpu_info() -> str:
    with suppress(OSError):
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return ""


def limit_threads() -> None:
    """`OMP_NUM_THREADS` of the environment, else one thread: a step's small products gain nothing by more."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(max(1, int(wanted)) if wanted.isdecimal() else 1)


def keep_heap() -> bool:
    """Makes glibc keep freed memory; true where that was possible.

    Else the kernel clears each page again for the next batch, which took up to half of the training time.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False  # another C library, musl for one
    # The largest threshold that glibc accepts, and no trimming; all three are set, whatever one says.
    settings = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 16 << 20}
    done = [mallopt(name, value) for name, value in settings.items()]
    return all(done)


@contextmanager
def enough_for(work: str, hint: str) -> Iterator[None]:
    """A UserError names the setting to change where memory on the CPU or on CUDA does not suffice for this context."""
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
        """Seconds since it was started, `wall_s`, `cpu_s` and `gpu_s`. It starts again from zero."""
        before = self.wall, self.cpu
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        wall, cpu = self.wall - before[0], self.cpu - before[1]
        return {"wall_s": wall, "cpu_s": cpu, "gpu_s": wall if self.device.type == "cuda" else 0.0}


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine that did the work."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    named = re.search(r"^model name.*?:(.*)$", _cpu_info(), re.MULTILINE)
    cpu = named[1].strip() if named else platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "gpu": gpu, "system": platform.system()}


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that results depend on."""
    found = {"python": platform.python_version(), "pam": pam.__version__}
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
