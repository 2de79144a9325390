"""What a training leaves behind besides its weights: history, cost, versions, hardware."""

from __future__ import annotations

import csv
import io
import os
import platform
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import pam
from pam.files import write_text

HISTORY = (
    "epoch", "step", "examples", "tokens", "learning_rate", "train_loss", "dev_loss",
    "dev_accuracy", "dev_token_accuracy", "dev_objective", "wall_s", "cpu_s",
)  # fmt: skip
PACKAGES = ("torch", "numpy", "snakemake", "pandas", "matplotlib", "sacrebleu")


class Stopwatch:
    """Wall, CPU and GPU seconds since it was made.

    GPU seconds are the wall seconds for which a CUDA device was held.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def lap(self) -> tuple[float, float, float]:
        """Seconds since the last lap: wall, CPU, GPU."""
        wall, cpu = time.perf_counter(), time.process_time()
        spent = wall - self.wall, cpu - self.cpu
        self.wall, self.cpu = wall, cpu
        return *spent, spent[0] if self.device.type == "cuda" else 0.0


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Writes one row per epoch as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HISTORY, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(path, text.getvalue())


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine that did the work."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {"cpu": _processor(), "cores": os.cpu_count(), "gpu": gpu, "system": platform.system()}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that results depend on."""
    found = {"python": platform.python_version(), "pam": pam.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    # What was imported is what ran: a build's local version is not in the metadata.
    return found | {"torch": torch.__version__}


def peak_gpu_memory_mb(device: torch.device) -> float | None:
    """The most that this process has held of a CUDA device so far, in megabytes; None on a CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) / 2**20


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
