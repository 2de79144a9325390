"""The reports of a training: progress, curves, and its history."""

from __future__ import annotations

import csv
import io
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from pam.runtime.errors import storage_error
from pam.runtime.files import write_text
from pam.training.checkpoint import Progress

LINE_EVERY_S = 20.0
NO_CURVES = ("epoch", "step", "examples", "tokens", "wall_s", "cpu_s")  # of the history
log = logging.getLogger(__name__)


class Reporter:
    """Reports steps and epochs: a bar on a terminal or plain lines in a log, and curves.

    Each line begins with `name`; TensorBoard's events are in the folder `events`. Without one it
    reports nothing, as in all processes of a group but the main one. `on_epoch` is called with the
    row of each epoch.
    """

    def __init__(
        self,
        name: str,
        events: Path | None,
        on_epoch: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.name = name
        self.events = events
        self.on_epoch = on_epoch

    @contextmanager
    def open(
        self,
        per_epoch: int,
        steps: int,
        progress: Progress,
        precision: str = "",
        may_end_sooner: bool = False,
    ) -> Iterator[None]:
        """Report a run of `steps` steps, `per_epoch` in an epoch, of which some may be done.

        A run that `may_end_sooner` has that many at most. The first line says in which `precision`
        large products are taken, why, and which library takes those in float32.
        """
        if self.events is None:
            yield
            return

        log.info(f"{self.name}: precision: {precision}; float32 products: {progress.products}")
        self.per_epoch = per_epoch
        self.steps = steps
        self.at_most = "at most " if may_end_sooner else ""
        self.epochs = -(-steps // per_epoch)
        self.resumed_at = progress.steps(per_epoch)
        self.start = self.last_line = time.monotonic()

        with _storage_errors_reported_once(self.events):
            # Curves of epochs that are done once more are dropped.
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
        """Report a step that is done, in a line now and then."""
        if self.events is None:
            return

        self.bar.update()
        now = time.monotonic()
        if not self.bar.disable or now - self.last_line < LINE_EVERY_S:
            return
        self.last_line = now

        done = progress.steps(self.per_epoch)
        # What an earlier run has done took other time.
        left = (self.steps - done) * (now - self.start) / max(1, done - self.resumed_at)
        loss = progress.loss / max(1, progress.tokens)
        log.info(
            f"{self.name}: epoch {progress.epoch + 1} of {self.epochs}, step {done} of"
            f" {self.steps}, loss {loss:.4f}, {self.at_most}{tqdm.format_interval(left)} to go"
        )

    def epoch(self, row: dict[str, Any]) -> None:
        """Report an epoch that is over, by its row of the history."""
        if self.events is None:
            return

        for key, value in row.items():
            if key not in NO_CURVES and value is not None:
                self.writer.add_scalar(key, value, row["epoch"])

        if row["dev_accuracy"] is None:
            quality = f"perplexity {math.exp(min(row['dev_loss'], 99.0)):.2f}"
        else:
            quality = f"accuracy {100 * row['dev_accuracy']:.2f} %"
        self.bar.set_postfix_str(f"dev {quality}")
        log.info(
            f"{self.name}: epoch {row['epoch']} of {self.epochs}, train loss"
            f" {row['train_loss']:.4f}, dev loss {row['dev_loss']:.4f}, dev {quality},"
            f" {row['cpu_s']:.0f} CPU s, {row['tokens'] / max(row['wall_s'], 1e-9):,.0f} target"
            " tokens/s"
        )
        if self.on_epoch is not None:
            self.on_epoch(dict(row))


@contextmanager
def _storage_errors_reported_once(folder: Path) -> Iterator[None]:
    """Report a full disk as one UserError.

    TensorBoard's own thread would print its traceback too.
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


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Write one row per epoch as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(history[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(path, text.getvalue())
