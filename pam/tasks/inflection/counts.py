"""Scores of inflection: right forms, lemmas with all forms right, wrong characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pam.data.languages import visible
from pam.evaluation.compared_text import reference_notes, tell_notes, tell_outputs
from pam.evaluation.edits import edit_distance
from pam.evaluation.inputs import (
    Counts,
    EvalInputs,
    GroupCounts,
    check_against_split,
    read_predictions,
    read_row_groups,
)
from pam.evaluation.metrics import Units, digest_of, join, of_beam
from pam.runtime.errors import UserError
from pam.tasks.inflection.metrics import METRICS


class Prediction(NamedTuple):
    lemma: str
    features: str
    form: str
    predicted: str  # an empty one is wrong


def read(path: Path | str) -> list[Prediction]:
    """Read predictions; an empty lemma or form is an error, as are those of `read_predictions`."""
    rows = [Prediction(*row) for row in read_predictions(path, Prediction._fields)]
    for line_number, row in enumerate(rows, start=2):
        if not row.lemma or not row.form:
            hint = "every row names a lemma and the form to be predicted"
            raise UserError("empty lemma or form", file=path, line=line_number, hint=hint)
    return rows


def count(inputs: EvalInputs) -> Counts:
    """Count what metrics need, per lemma, for every beam.

    Counts of the main beam are named without a beam.
    """
    names = [metric.name for metric in METRICS]
    parts: list[Units] = []
    # of each group and beam; a lemma may have forms in several groups
    parts_by_group: dict[str, list[Units]] = {}
    row_groups = read_row_groups(inputs)
    metrics: list[str] = []
    details: dict[str, Any] = {}
    notes: list[str] = []
    for path, path_beam in inputs.by_beam:
        # Plain `accuracy` is of the main beam, the first.
        beam = path_beam if parts else None
        rows = read(path)
        if inputs.data is not None or len(inputs.predictions) > 1:
            check_against_split(rows, path, inputs.prepared.folder / f"{inputs.split}.tsv")

        # All files have the same forms.
        if not parts:
            notes += reference_notes(row.form for row in rows)
        parts.append(count_lemmas(rows, beam))
        for group, indices in row_groups.items():
            of_group = count_lemmas([rows[index] for index in indices], beam)
            parts_by_group.setdefault(group, []).append(of_group)
        metrics += [of_beam(name, beam) for name in names]
        notes += tell_outputs([row.predicted for row in rows], beam, details)

    tell_notes(notes, details)
    groups = {
        group: GroupCounts(join(units), tuple(metrics)) for group, units in parts_by_group.items()
    }
    return Counts(join(parts), tuple(metrics), "lemmas", details, groups)


def count_lemmas(rows: Sequence[Prediction], beam: int | None = None) -> Units:
    """Count right forms, whether all are right, forms, 1, edits and characters, per lemma.

    Strings are compared in Unicode NFC, without characters that show nothing: a vowel and its
    umlaut written as two code points are the letter they show. Lemmas keep the order in which they
    first appear.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        entry = counts.setdefault(row.lemma, [0, 0, 0, 0])
        predicted = visible(row.predicted)
        form = visible(row.form)
        entry[0] += predicted == form
        entry[1] += 1
        entry[2] += edit_distance(predicted, form)
        entry[3] += len(form)

    table = []
    for right, forms, edits, characters in counts.values():
        table.append([right, forms, int(right == forms), 1, edits, characters])

    columns = (
        of_beam("correct", beam),
        "forms",
        of_beam("whole", beam),
        "paradigms",
        of_beam("form_edits", beam),
        of_beam("form_characters", beam),
    )
    digest = digest_of(row[:3] for row in rows)
    return Units(tuple(counts), columns, np.array(table, dtype=np.float64), digest)
