"""When a training saves its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

SHARE = 0.05
"""Of the time of a training, the part that saving within an epoch may take."""


class Pace:
    """How long after one state the next is saved.

    Args:
        every_s: seconds at least; more where saving takes so long that it would take more than
            its share of the time, as that of a large model to a slow disk does. 0: after every
            batch, however long it takes.
    """

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.saved_at = monotonic()
        self.took_s = 0.0

    def due(self) -> bool:
        """Whether it is time."""
        wait = max(self.every_s, self.took_s * (1 / SHARE - 1)) if self.every_s else 0.0
        return monotonic() - self.saved_at >= wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around the saving of a state."""
        start = monotonic()
        yield
        self.saved_at = monotonic()
        self.took_s = self.saved_at - start
