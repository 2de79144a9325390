"""When a training saves its state and ends before it is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):  # noqa: N818 -- nothing is wrong
    """A training was asked to end, and its state is saved.

    Args:
        code: what the process ends with, 128 and the signal's number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stop:
    """Whether this process has been asked to end.

    A scheduler asks by SIGTERM and a person by Ctrl-C. Beside these, a time limit may be near, and
    a process that was launched together with others ends when its launcher is gone.

    Args:
        near: whether the time limit is near.
        launcher: process id of what launched this process and has to outlive it; None: nothing.
    """

    def __init__(self, near: Callable[[], bool] = lambda: False, launcher: int | None = None):
        self.near, self.launcher = near, launcher
        self.signal: int | None = None

    def asked(self) -> int:
        """The exit code to end with, or 0 to go on."""
        if self.signal is not None:
            return 128 + self.signal
        orphaned = self.launcher is not None and os.getppid() != self.launcher
        return 128 + signal.SIGTERM if orphaned or self.near() else 0

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Notes SIGTERM and SIGINT instead of ending by them; a second SIGINT ends at once.

        One that is ignored, as SIGINT is by what a shell runs in the background, stays so.
        """
        heeded = (signal.SIGTERM, signal.SIGINT)
        before = {one: signal.getsignal(one) for one in heeded}

        def note(number: int, frame: FrameType | None) -> None:
            self.signal = self.signal or number
            if number == signal.SIGINT:
                signal.signal(number, before[signal.SIGINT])

        for one in heeded:
            if before[one] != signal.SIG_IGN:
                signal.signal(one, note)
        try:
            yield
        finally:
            for one in heeded:
                signal.signal(one, before[one])
