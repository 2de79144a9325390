"""What a training reports: progress, its record, and what it leaves."""

from __future__ import annotations

import csv
import io
import logging
import math
import os
import platform
import resource
import shutil
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
from pam.io import (
    UserError,
    atomic_write,
    read_json,
    sha256_of,
    storage_error,
    write_json,
    write_text,
)
from pam.training.checkpoint import Progress

# What a training leaves behind besides its weights: history, cost, versions, hardware.

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


# What a person sees of a training: a bar on a terminal, plain lines in a log, curves.

LINE_EVERY_S = 20.0
CURVES = (
    *("train_loss", "dev_loss", "dev_accuracy", "dev_token_accuracy", "dev_objective"),
    "learning_rate",
)
log = logging.getLogger(__name__)


class Reporter:
    """Reports steps and epochs.

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
        self.first = self._done(progress)
        self.began = self.told = time.monotonic()
        with _storage_errors_told_once(self.events):
            self.writer = SummaryWriter(str(self.events), purge_step=progress.epoch + 1)
            self.bar = tqdm(
                total=steps,
                initial=self.first,
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

    def _done(self, progress: Progress) -> int:
        return progress.epoch * self.per_epoch + progress.batch

    def step(self, progress: Progress) -> None:
        """After each step."""
        self.bar.update()
        now = time.monotonic()
        if self.bar.disable and now - self.told >= LINE_EVERY_S:
            self.told = now
            done, total = self._done(progress), self.steps
            left = (total - done) * (now - self.began) / max(1, done - self.first)
            log.info(
                "%s: epoch %d of %d, step %d of %d, loss %.4f, %s to go",
                self.name,
                progress.epoch + 1,
                self.epochs,
                done,
                total,
                progress.loss / max(1, progress.tokens),
                tqdm.format_interval(left),
            )

    def epoch(self, row: dict[str, Any]) -> None:
        """After each epoch, with its row of the history."""
        for key in CURVES:
            if row[key] is not None:
                self.writer.add_scalar(key, row[key], row["epoch"])
        accuracy = row["dev_accuracy"]
        if accuracy is None:
            quality = f"perplexity {math.exp(min(row['dev_loss'], 99.0)):.2f}"
        else:
            quality = f"accuracy {100 * accuracy:.2f} %"
        self.bar.set_postfix_str(f"dev {quality}")
        log.info(
            "%s: epoch %d of %d, train loss %.4f, dev loss %.4f, dev %s, %.0f CPU s",
            self.name,
            row["epoch"],
            self.epochs,
            row["train_loss"],
            row["dev_loss"],
            quality,
            row["cpu_s"],
        )


class Silence(Reporter):
    """Reports nothing: for the processes that are led by another one, which reports."""

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
def _storage_errors_told_once(folder: Path) -> Iterator[None]:
    """A full disk as one message: TensorBoard's own thread would print its traceback besides.

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


# What a finished training leaves, kept beside its state so that nobody has to train it twice.

MARK = "finished.json"


class Results:
    """The results of one training: written here as a whole, then put where they are wanted.

    A workflow that was killed while its training lived on deletes what that training wrote, and
    starts it once more. The second finds here what the first has made.

    Args:
        folder: where they are kept, which they have for themselves.
        key: what the training is: configuration, data and code.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key

    def whole(self) -> bool:
        """Whether the results of this training, and of no other, are here undamaged."""
        try:
            return bool(read_json(self.folder / MARK) == self._content())
        except UserError:
            return False

    def clear(self) -> None:
        """Removes what an unfinished training, or another one, has left."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def complete(self) -> None:
        """Marks what is in the folder as whole."""
        write_json(self.folder / MARK, self._content())

    def publish(self, out: Path) -> None:
        """Puts the results into `out`, each as a whole, as new as if just made.

        Raises:
            UserError: the disk is full, or the folder may not be written to.
        """
        try:
            for name in self._names():
                _place(self.folder / name, out / name)
        except OSError as error:
            raise storage_error(error, out) from error

    def _names(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in files if path.name != MARK)

    def _content(self) -> dict[str, Any]:
        digests = {name: sha256_of(self.folder / name) for name in self._names()}
        return {"key": self.key, "files": digests}


def _place(kept: Path, target: Path) -> None:
    """One content under two names, which takes no room; a copy where file systems differ."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (target.exists() and target.samefile(kept)):
        with atomic_write(target) as temporary:
            temporary.unlink()
            try:
                os.link(kept, temporary)
            except OSError:
                shutil.copyfile(kept, temporary)
    # Results older than the data that they were made from would be made again.
    os.utime(target)
