"""What a training reports: progress, curves, and what its record says of cost and origin."""

from __future__ import annotations

import csv
import io
import logging
import math
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

import pam
from pam.io import storage_error, write_text
from pam.training.checkpoint import Progress

LINE_EVERY_S = 20.0
CURVES = (*("train_loss", "dev_loss", "dev_accuracy", "dev_token_accuracy", "dev_objective"), "learning_rate")
PACKAGES = ("torch", "numpy", "snakemake", "pandas", "matplotlib", "sacrebleu")
log = logging.getLogger(__name__)


class Reporter:
    """Reports steps and epochs: a bar on a terminal or plain lines in a log, and curves.

    Args:
        name: the training's name, before each line.
        events: folder for TensorBoard's events.
    """

    def __init__(self, name: str, events: Path) -> None:
        self.name = name
        self.events = events

    @contextmanager
    def open(self, per_epoch: int, steps: int, progress: Progress) -> Iterator[None]:
        """Begins to report a run of so many steps, an epoch and all, of which some may be done."""
        self.per_epoch, self.steps = per_epoch, steps
        self.epochs = -(-steps // per_epoch)
        self.resumed_at = progress.steps(per_epoch)
        self.start = self.last_line = time.monotonic()
        with _storage_errors_reported_once(self.events):
            self.writer = SummaryWriter(str(self.events), purge_step=progress.epoch + 1)
            self.bar = tqdm(
                total=steps,
                initial=self.resumed_at,
                desc=self.name,
                unit="step",
                mininterval=0.5,
                disable=not sys.stderr.isatty(),
            )
            try:
                # Lines of the log go above the bar instead of through it.
                with nullcontext() if self.bar.disable else logging_redirect_tqdm():
                    yield
            finally:
                self.bar.close()
                self.writer.close()

    def step(self, progress: Progress) -> None:
        """After each step."""
        self.bar.update()
        now = time.monotonic()
        if not self.bar.disable or now - self.last_line < LINE_EVERY_S:
            return
        self.last_line = now
        done = progress.steps(self.per_epoch)
        left = (self.steps - done) * (now - self.start) / max(1, done - self.resumed_at)
        log.info(
            f"{self.name}: epoch {progress.epoch + 1} of {self.epochs}, "
            f"step {done} of {self.steps}, loss {progress.loss / max(1, progress.tokens):.4f}, "
            f"{tqdm.format_interval(left)} to go"
        )

    def epoch(self, row: dict[str, Any]) -> None:
        """After each epoch, with its row of the history."""
        for key in CURVES:
            if row[key] is not None:
                self.writer.add_scalar(key, row[key], row["epoch"])
        if row["dev_accuracy"] is None:
            quality = f"perplexity {math.exp(min(row['dev_loss'], 99.0)):.2f}"
        else:
            quality = f"accuracy {100 * row['dev_accuracy']:.2f} %"
        self.bar.set_postfix_str(f"dev {quality}")
        log.info(
            f"{self.name}: epoch {row['epoch']} of {self.epochs}, "
            f"train loss {row['train_loss']:.4f}, dev loss {row['dev_loss']:.4f}, "
            f"dev {quality}, {row['cpu_s']:.0f} CPU s"
        )


class Silence(Reporter):
    """Reports nothing: for all processes of a group but the main one."""

    def __init__(self) -> None:
        super().__init__("", Path())

    @contextmanager
    def open(self, per_epoch: int, steps: int, progress: Progress) -> Iterator[None]:
        yield

    def step(self, progress: Progress) -> None:
        pass

    def epoch(self, row: dict[str, Any]) -> None:
        pass


@contextmanager
def _storage_errors_reported_once(folder: Path) -> Iterator[None]:
    """A full disk as one message: TensorBoard's own thread would print its traceback too.

    Raises:
        UserError: nothing can be written to `folder`.
    """
    hook = threading.excepthook

    def unless_storage(args: threading.ExceptHookArgs) -> None:
        if not isinstance(args.exc_value, OSError):
            hook(args)

    threading.excepthook = unless_storage
    try:
        yield
    except OSError as error:
        raise storage_error(error, folder) from error
    finally:
        threading.excepthook = hook


class Stopwatch:
    """Wall, CPU and GPU seconds; a GPU second is a wall second for which a CUDA device was held."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def restart(self) -> tuple[float, float, float]:
        """Seconds since it was started: wall, CPU, GPU. It starts again from zero."""
        before = self.wall, self.cpu
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        wall, cpu = self.wall - before[0], self.cpu - before[1]
        return wall, cpu, wall if self.device.type == "cuda" else 0.0


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Writes one row per epoch as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(history[0]), lineterminator="\n")
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


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def peak_gpu_memory_mb(device: torch.device) -> float | None:
    """The most that this process has held of a CUDA device so far, in megabytes; None on a CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) / 2**20
