"""What a person sees of a training: a bar on a terminal, plain lines in a log, curves."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from pam.files import storage_error
from pam.training.state import Progress

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
