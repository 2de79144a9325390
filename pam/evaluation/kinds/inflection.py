"""Morphological inflection: forms that are right, and lemmas with all forms right."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pam.evaluation.kinds import Counts, EvalInputs
from pam.evaluation.metrics import Units, digest_of, join, of_beam
from pam.evaluation.predictions import check_against_split, read_predictions
from pam.io import UserError

METRICS = ("accuracy", "paradigm_accuracy")


class Prediction(NamedTuple):
    """One test row and what a model made of it; an empty prediction is a wrong one."""

    lemma: str
    features: str
    form: str
    predicted: str


def read(path: Path | str) -> list[Prediction]:
    """Reads predictions.

    Raises:
        UserError: as `read_predictions`, or an empty lemma or form.
    """
    rows = [Prediction(*row) for row in read_predictions(path, Prediction._fields)]
    for number, row in enumerate(rows, start=2):
        if not row.lemma or not row.form:
            raise UserError(
                "empty lemma or form",
                file=path,
                line=number,
                hint="every row names a lemma and the form to be predicted",
            )
    return rows


def count(evidence: EvalInputs) -> Counts:
    """Counts per lemma, of every beam; those of the main beam bear no beam's name."""
    counted: list[Units] = []
    metrics: list[str] = []
    for path, beam in evidence.by_beam:
        # The main beam, the first, is the one that plain `accuracy` speaks of.
        beam = beam if counted else None
        rows = read(path)
        if evidence.data is not None or len(evidence.predictions) > 1:
            check_against_split(rows, path, evidence.folder / f"{evidence.split}.tsv")
        counted.append(count_lemmas(rows, beam))
        metrics += [of_beam(name, beam) for name in METRICS]
    return Counts(join(counted), tuple(metrics), "lemmas")


def count_lemmas(rows: Sequence[Prediction], beam: int | None = None) -> Units:
    """Counts per lemma: forms right, whether all are right, forms, and 1.

    Strings are compared in Unicode NFC: a vowel and its umlaut written as two code points are the
    letter that they show. Lemmas keep the order in which they first appear.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        entry = counts.setdefault(row.lemma, [0, 0])
        entry[0] += _composed(row.predicted) == _composed(row.form)
        entry[1] += 1
    table = [[right, forms, int(right == forms), 1] for right, forms in counts.values()]
    return Units(
        names=tuple(counts),
        columns=(of_beam("correct", beam), "forms", of_beam("whole", beam), "paradigms"),
        counts=np.array(table, dtype=np.float64),
        references=digest_of(row[:3] for row in rows),
    )


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
