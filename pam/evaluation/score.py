"""Predictions, or alignments, to one run's record of scores: what the command `score` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pam.config import RunConfig
from pam.data.dataset import Prepared
from pam.evaluation import scores as record
from pam.evaluation.inputs import EvalInputs
from pam.io import UserError, read_json
from pam.run_folder import GOLD, RunFolder


@dataclass(frozen=True)
class Scored:
    """The files that scores are made of; what is not there is left out.

    Attributes:
        predictions: one file a beam, the main beam's first; decoding: their records.
        data: folder of prepared data that the rows must agree with; split: that was predicted.
        analysis: for perplexity or alignments.
        run: whose scores these are; training: the record of its training, for the cost.
        kind: kind of scoring; None: that of the data's kind of task.
    """

    predictions: Sequence[Path] = ()
    decoding: Sequence[Path] = ()
    data: Path | None = None
    split: str = "test"
    analysis: Path | None = None
    run: RunConfig | None = None
    training: Path | None = None
    kind: str | None = None


def files_of(folder: RunFolder, split: str) -> Scored:
    """The files of a run that its scores on a split are made of."""
    run, analysis = folder.load(), folder.analysis(split)
    beams: list[int | str] = list(dict.fromkeys([run.decoding.beam, *run.decoding.beams]))
    if split != "test":
        beams = [] if split == GOLD else [run.decoding.beam]
    return Scored(
        predictions=[folder.predictions(split, beam) for beam in beams],
        decoding=[folder.decoding(split, beam) for beam in beams],
        data=folder.data(split),
        split=split,
        # Of a task of inflection there may be one that its scores do not need.
        analysis=analysis if analysis.is_file() else None,
        run=run,
        training=folder.training,
    )


def score(files: Scored) -> record.Scores:
    """Scores with their intervals, and the whole cost.

    Raises:
        UserError: a file is missing or faulty, or does not belong to the others.
    """
    kind = files.kind or _kind_of(files.data)
    decoding = _decoding(files)
    inputs = EvalInputs(
        predictions=tuple(files.predictions),
        beams=tuple(found.get("beam") for found in decoding) or (None,) * len(files.predictions),
        analysis=files.analysis,
        data=files.data,
        split=files.split,
    )
    names = ("experiment", "task", "model", "label", "seed")
    return record.make(
        kind,
        record.count(kind, inputs),
        {name: getattr(files.run, name) for name in names} if files.run else {},
        {} if files.training is None else _content(files.training),
        {str(found.get("beam", 1)): found for found in decoding},
    )


def _kind_of(data: Path | None) -> str:
    """The kind of task of prepared data.

    Raises:
        UserError: no data was named.
    """
    if data is None:
        raise UserError(
            "what kind of predictions these are is not said",
            hint="name the run with --run, its data with --data, or the kind: --kind inflection",
        )
    return str(Prepared(data).summary["task"])


def _decoding(files: Scored) -> list[dict[str, Any]]:
    """The records of decoding, one for each file of predictions, or none.

    Raises:
        UserError: another number of them, or two of the same beam.
    """
    found = [_content(path) for path in files.decoding]
    if found and len(found) != len(files.predictions):
        raise UserError(
            f"{len(files.predictions)} files of predictions and {len(found)} of decoding",
            hint="name one --decoding for each of --predictions, in the same order",
        )
    beams = [content.get("beam") for content in found] or [None] * len(files.predictions)
    if len(set(beams)) < len(beams):
        raise UserError(
            f"several files of predictions, of beams {', '.join(map(str, beams))}",
            hint="name their records with --decoding, each beam once",
        )
    return found


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError("expected keys and values", file=path, hint="delete it and make it again")
    return content
