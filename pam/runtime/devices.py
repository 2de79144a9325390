"""Devices, the precision of their products, threads, memory, time, and records of the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from pam.runtime import processor
from pam.runtime.checkout import commit
from pam.runtime.errors import UserError
from pam.runtime.processor import Products
from pam.runtime.torch_internals import says_out_of_memory
from pam.version import __version__

PACKAGES = ("torch", "numpy", "snakemake", "pandas", "matplotlib", "sacrebleu")

# Parameters of glibc's mallopt, by their numbers in malloc.h.
_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3

CPU = torch.device("cpu")


def usable_device(name: str | torch.device) -> torch.device:
    """Return the device of this name: `auto`, or any that torch knows, such as `cuda:1`.

    `auto` is CUDA where there is one, else the CPU. No setting of the process changes. A UserError
    names a device that torch does not know, or that cannot be used here, and those that can.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    numbered = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    hint = f"choose one of these devices: {', '.join(['auto', 'cpu', *numbered])}"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise UserError(f"there is no device `{name}`", hint=hint) from error

    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "no CUDA device is usable here",
            hint="ask for the device `cpu` or `auto`, or check the driver",
        )
    if not _is_usable(device):
        raise UserError(f"the device `{name}` cannot be used here", hint=hint)
    return device


def _is_usable(device: torch.device) -> bool:
    """Return whether a device is there and computes in float64, as search does."""
    # CUDA does. A try would take memory of the device for each process of a training.
    if device.type == "cuda":
        return (device.index or 0) < torch.cuda.device_count()

    try:
        return torch.ones(1, dtype=torch.float64, device=device).sum().item() == 1
    except (RuntimeError, TypeError, AssertionError, ImportError):
        return False


def choose_device(name: str | torch.device, local_rank: int | None = None) -> torch.device:
    """Return the device of this name for the work of this process, as `usable_device` does.

    A CUDA device is the current one of the process from then on. One that is named with its index,
    such as `cuda:1`, is taken as it is. Else processes of this machine that work together, which
    `local_rank` numbers, have one each, and a process by itself keeps its current one. A UserError
    says that there is no such device.
    """
    device = usable_device(name)
    if device.type != "cuda":
        return device

    index: int | None = device.index
    if index is None:
        index = torch.cuda.current_device() if local_rank is None else local_rank
        if index >= torch.cuda.device_count():
            usable = f"{torch.cuda.device_count()} can be used"
            message = f"no CUDA device for process {index + 1} of this training: {usable}"
            hint = "lower `resources.processes`, or ask for the device `cpu`"
            raise UserError(message, hint=hint)

    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def use_precision(precision: str, products: str | None = None, device: torch.device = CPU) -> str:
    """Set how torch takes float32 products in this process.

    CUDA takes them in TF32 unless the `precision` is `float32`.

    On a CPU the library of large products is chosen, the same at every start on a processor. MKL,
    torch's default, does not use AVX-512 on processors of other makers than its own. oneDNN does,
    in the same precision if the processor has no tiles of bfloat16. So oneDNN is chosen where the
    maker is another one, AVX-512 is there, and products are found exact.

    Args:
        precision: the one that is used, of `processor.usable_precision`.
        products: the answer of the run that goes on, which holds wherever oneDNN is exact.
        device: where products are taken; oneDNN takes none on another device than a CPU.

    Returns:
        The library of large products on a CPU: `onednn` or `default`.
    """
    uses_tf32 = precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = uses_tf32
    torch.backends.cudnn.allow_tf32 = uses_tf32

    has_avx512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
    onednn_pays = has_avx512 and processor.maker() not in (None, "GenuineIntel")
    if products:
        onednn_pays = products == "onednn"
    Products.by_onednn = device.type == "cpu" and onednn_pays and processor.onednn_is_exact()
    return "onednn" if Products.by_onednn else "default"


def limit_threads() -> None:
    """Use as many threads as `OMP_NUM_THREADS` of the environment says, else one.

    The small products of a step gain nothing by more.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "")
    count = int(threads) if threads.isdecimal() else 1
    torch.set_num_threads(max(1, count))


def keep_heap() -> bool:
    """Make glibc keep freed memory; return whether that was possible.

    Otherwise the kernel clears each page again for the next batch, which took up to half of the
    training time.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False  # another C library, musl for one

    # The largest threshold that glibc accepts, and no trimming.
    settings = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 16 << 20}
    # A list, so that all three are set, also where one of them is refused.
    accepted = [mallopt(name, value) for name, value in settings.items()]
    return all(accepted)


@contextmanager
def enough_for(work: str, hint: str) -> Iterator[None]:
    """Raise a UserError where memory on the CPU or on CUDA does not suffice for this context.

    Its hint names the setting to change.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not says_out_of_memory(error):
            raise
        raise UserError(f"out of memory in {work}", hint=hint) from error


class Stopwatch:
    """Wall, CPU and GPU seconds; a GPU second is a wall second for which a CUDA device was held."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.wall = time.perf_counter()
        self.cpu = time.process_time()

    def restart(self) -> dict[str, float]:
        """Return the seconds since it was started, `wall_s`, `cpu_s` and `gpu_s`.

        It starts again from zero.
        """
        wall = time.perf_counter()
        cpu = time.process_time()
        wall_spent = wall - self.wall
        cpu_spent = cpu - self.cpu

        self.wall = wall
        self.cpu = cpu

        # A GPU is held all the time, whether it computes or waits.
        return {
            "wall_s": wall_spent,
            "cpu_s": cpu_spent,
            "gpu_s": wall_spent if self.device.type == "cuda" else 0.0,
        }


def hardware(device: torch.device) -> dict[str, Any]:
    """Describe the machine that did the work."""
    gpu = None
    if device.type == "cuda":
        gpu = torch.cuda.get_device_name(device)

    return {
        "cpu": processor.model_name(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of those that results depend on.

    `commit` is that of this package's code, where it is in a checkout.
    """
    by_name = {"python": platform.python_version(), "pam": __version__}
    code = commit()
    if code is not None:
        by_name["commit"] = code
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            by_name[name] = version(name)
    # What was imported is what ran: a build's local version is not in the metadata.
    return by_name | {"torch": torch.__version__}


def peak_memory_mb() -> float:
    """Return the largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak / 2**20
    return peak / 2**10


def peak_gpu_memory_mb(device: torch.device) -> float | None:
    """Return the most that tensors of this process have taken of a CUDA device, in megabytes.

    None on a CPU.
    """
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) / 2**20


def gpu_memory(device: torch.device) -> dict[str, float | None]:
    """Return three figures of a CUDA device's memory in megabytes; None each on a CPU.

    Torch reserves more than tensors take. So it is with CUDA graphs above all, whose tensors count
    as such only while they are recorded.

    Returns:
        peak_gpu_memory_mb: the most that tensors of this process have taken so far.
        peak_gpu_reserved_mb: the most that torch has reserved in this process so far.
        gpu_used_mb: what all processes use now, with the graphs themselves and with CUDA's own.
    """
    reserved_mb = None
    used_mb = None
    if device.type == "cuda":
        reserved_mb = torch.cuda.max_memory_reserved(device) / 2**20
        free, total = torch.cuda.mem_get_info(device)
        used_mb = (total - free) / 2**20

    return {
        "peak_gpu_memory_mb": peak_gpu_memory_mb(device),
        "peak_gpu_reserved_mb": reserved_mb,
        "gpu_used_mb": used_mb,
    }
