"""Kinds of scoring: each module here counts, per resampling unit, what its metrics need.

A kind is a module `pam.evaluation.kinds.<kind>` with what `Scoring` lists; it bears the name of the
kind of task whose outputs it scores. A new kind is a new module, and its metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from pam import plugins
from pam.data.dataset import Prepared
from pam.evaluation.metrics import Units
from pam.io import UserError


@dataclass(frozen=True)
class EvalInputs:
    """What is scored.

    Attributes:
        predictions: files of predictions, the main beam's first.
        beams: the beam of each; None where it is not known.
        analysis: `analysis.json` of teacher forcing, where there is one.
        data: the prepared folder in which `split` stands; None: nothing is checked against it.
    """

    predictions: tuple[Path, ...] = ()
    beams: tuple[int | None, ...] = ()
    analysis: Path | None = None
    data: Path | None = None
    split: str = "test"

    @property
    def by_beam(self) -> list[tuple[Path, int | None]]:
        """Files of predictions with their beams.

        Raises:
            UserError: there are none.
        """
        if not self.predictions:
            raise UserError("no predictions to score", hint="name files with --predictions")
        return list(zip(self.predictions, self.beams, strict=True))

    @property
    def folder(self) -> Path:
        """The prepared folder.

        Raises:
            UserError: none was named.
        """
        if self.data is None:
            raise UserError(
                "these scores need the prepared data", hint="name its folder with --data"
            )
        return self.data

    def file(self, name: str) -> Path:
        """A file of the prepared folder.

        Raises:
            UserError: no folder was named, or the file is missing or not what was prepared.
        """
        return Prepared(self.folder).file(name)


@dataclass(frozen=True)
class Counts:
    """Counts per unit and what can be said with them.

    Attributes:
        metrics: names of metrics whose counts are there.
        over: the units in words, such as `sentences`.
        details: what else belongs to the scores: signatures, counts of oddities.
    """

    units: Units
    metrics: tuple[str, ...]
    over: str
    details: dict[str, Any] = field(default_factory=dict)


class Scoring(Protocol):
    """What a kind of scoring offers."""

    def count(self, evidence: EvalInputs) -> Counts:
        """Reads and counts.

        Raises:
            UserError: a file is missing or faulty, or does not belong to the others.
        """


def load_scoring(kind: str) -> Scoring:
    """The module of a kind of scoring.

    Raises:
        UserError: there is no such kind; names the closest.
    """
    return cast(Scoring, plugins.load(__name__, "kind of scoring", kind))
