"""Morphological inflection: forms that are right, and lemmas with all forms right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from pam.evaluation.inputs import Counts, EvalInputs, check_against_split, read_predictions
from pam.evaluation.metrics import Units, digest_of, join, of_beam
from pam.io import UserError

METRICS = ("accuracy", "paradigm_accuracy")


class Prediction(NamedTuple):
    lemma: str
    features: str
    form: str
    predicted: str  # where it is empty, it is wrong


def read(path: Path | str) -> list[Prediction]:
    """Reads predictions; errors are those of `read_predictions`, and an empty lemma or form."""
    rows = [Prediction(*row) for row in read_predictions(path, Prediction._fields)]
    for number, row in enumerate(rows, start=2):
        if not row.lemma or not row.form:
            hint = "every row names a lemma and the form to be predicted"
            raise UserError("empty lemma or form", file=path, line=number, hint=hint)
    return rows


def count(inputs: EvalInputs) -> Counts:
    """Counts per lemma, of every beam; those of the main beam are named without a beam."""
    counted, metrics = list[Units](), list[str]()
    for path, beam in inputs.by_beam:
        # Plain `accuracy` is of the main beam, the first.
        beam, rows = beam if counted else None, read(path)
        if inputs.data is not None or len(inputs.predictions) > 1:
            check_against_split(rows, path, inputs.prepared.folder / f"{inputs.split}.tsv")
        counted.append(count_lemmas(rows, beam))
        metrics += [of_beam(name, beam) for name in METRICS]
    return Counts(join(counted), tuple(metrics), "lemmas")


def count_lemmas(rows: Sequence[Prediction], beam: int | None = None) -> Units:
    """Counts per lemma: forms right, whether all are right, forms, and 1.

    Strings are compared in Unicode NFC: a vowel and its umlaut written as two code points are the letter they show.
    Lemmas keep the order in which they first appear.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        entry = counts.setdefault(row.lemma, [0, 0])
        entry[0] += normalize("NFC", row.predicted) == normalize("NFC", row.form)
        entry[1] += 1
    table = [[right, forms, int(right == forms), 1] for right, forms in counts.values()]
    columns = (of_beam("correct", beam), "forms", of_beam("whole", beam), "paradigms")
    return Units(tuple(counts), columns, np.array(table, dtype=np.float64), digest_of(row[:3] for row in rows))
