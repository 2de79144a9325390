"""What every model offers to training and to decoding, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Aligned:
    """Teacher-forced log probabilities with the alignments behind them.

    Attributes:
        log_probs: (B, n) log p(y_t | y_<t, x).
        prior: (B, n, m).
        alignment: (B, n, m) what was fed back.
    """

    log_probs: Tensor
    prior: Tensor
    alignment: Tensor


class Encoded(Protocol):
    """Encoded sources."""

    @property
    def mask(self) -> Tensor:
        """(B, m) true at real positions."""

    def select(self, rows: Tensor) -> Any:
        """Those of the given rows (a permutation, a subset or repetitions)."""


class Carried(Protocol):
    """What hypotheses carry from step to step."""

    @property
    def alignment(self) -> Tensor | None:
        """(B, m) the alignment handed on, or None before the first output."""

    def select(self, rows: Tensor) -> Any:
        """That of the given hypotheses."""


class Read(Protocol):
    """A step before its symbol is chosen."""

    @property
    def log_probs(self) -> Tensor:
        """(B, V) log p(y_t | y_<t, x)."""

    @property
    def log_prior(self) -> Tensor:
        """(B, m)."""

    @property
    def query(self) -> Tensor:
        """(B, H) the decoder's state."""

    def select(self, rows: Tensor) -> Any:
        """That of the given hypotheses."""


class Model(nn.Module, ABC):
    """A distribution over outputs given sources, one symbol after another."""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Encodes sources (B, m) of real `lengths` (B,); see `Encoded`."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """What hypotheses carry before the first output; see `Carried`."""

    @abstractmethod
    def read(self, memory: Any, state: Any, symbol: Tensor) -> Any:
        """The step (`Read`) after `symbol` (B,) was written last."""

    @abstractmethod
    def advance(self, memory: Any, step: Any, symbol: Tensor) -> Any:
        """The state after y_t = `symbol` (B,) was chosen."""

    @abstractmethod
    def teacher_forced(self, source: Tensor, lengths: Tensor, target: Tensor) -> Aligned:
        """log p(y_t | y_<t, x) of given targets.

        Args:
            source: (B, m) padded at the end; lengths: (B,).
            target: (B, n) with the end symbol, padded at the end.

        Returns:
            Entries at padded target positions carry no meaning; mask them.
        """

    def objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """What training maximizes, (B, n): log p(y_t | y_<t, x), unless a model knows better."""
        return self.teacher_forced(source, lengths, target).log_probs

    def progress(self, share: float) -> None:
        """Told by the training loop how much of the training is done, from 0 to 1."""
