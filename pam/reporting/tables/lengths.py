"""Build the table of length penalties.

The penalties were chosen on the development split; the table shows what they change on the test
split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pam.evaluation.metrics import of_beam
from pam.reporting.cells import Cell, Estimate, Name, Value
from pam.reporting.comparison import Inputs
from pam.reporting.items import TableSpec
from pam.reporting.render import MODEL, MODEL_KEY, TASK, TASK_KEY, Column, Field, Note, Row, Table
from pam.reporting.runs import ScoredRun

METRICS = ("bleu", "bleu_unpenalized", "length_ratio", "length_ratio_unpenalized")
LENGTHS = (
    TASK_KEY,
    MODEL_KEY,
    Field("beam", "beam"),
    Field("length_penalty", "length_penalty"),
    Field("length_penalty_form", "form"),
    *(Field(name, name, digits=4) for name in METRICS),
    Field("gain", "gain", digits=4),
    Field("n", "gain", "seeds"),
)
SHOWN = (
    TASK,
    MODEL,
    Column("Beam", "beam"),
    Column("Chosen penalty", "chosen"),
    Column("BLEU without", "bleu_unpenalized"),
    Column("BLEU with", "bleu"),
    Column("Gain", "gain"),
    Column("Ratio without", "length_ratio_unpenalized"),
    Column("Ratio with", "length_ratio"),
    Column("Seeds", "gain", part="seeds"),
)
NOTE = (
    "Means over seeds on the test split. For each run and beam the penalty is the candidate with"
    " the best BLEU on the development split; the penalties of several seeds are in ascending order"
    " of seeds. Largest: of all candidates, so that one beyond them may be better. Ratio: words of"
    " all outputs over words of all references."
)
FORMS = {
    "power": "The score of an output is log p divided by its length to the power of the penalty.",
    "wu": (
        "The score of an output is log p divided by ((5 + length) / 6) to the power of the penalty"
        " (Wu et al. 2016)."
    ),
}


def lengths(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table, with one row per task, model and beam for which a penalty was chosen."""
    rows = []
    forms: dict[str, None] = {}
    for task in inputs.tasks:
        for model, runs in task.models.items():
            for beam, decoded in runs[0].decodings.items():
                metric = of_beam("bleu_unpenalized", int(beam))
                if not all(metric in run.scores.metrics for run in runs):
                    continue

                form = decoded["length_penalty_form"]
                forms[FORMS[form]] = None
                cells: dict[str, Cell] = {
                    "task": Name(task.name, task.label),
                    "model": Name(model, runs[0].label),
                    "beam": Value(int(beam)),
                    "form": Value(form),
                }
                rows.append(Row(cells | _measured(runs, beam)))

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=rows,
        columns=SHOWN,
        fields=LENGTHS,
        notes=[Note(text) for text in (NOTE, *forms)],
    )


def _measured(runs: Sequence[ScoredRun], beam: str) -> dict[str, Cell]:
    """Return the penalties of a model's runs and their means over seeds with one beam."""
    means = {}
    for name in METRICS:
        metric = of_beam(name, int(beam))
        means[name] = float(np.mean([run.scores.metrics[metric].value for run in runs]))

    gain = means["bleu"] - means["bleu_unpenalized"]
    decodings = [run.decodings[beam] for run in runs]
    penalties = "; ".join(f"{decoded['length_penalty']:g}" for decoded in decodings)

    return {
        "bleu": Value(means["bleu"], ".2f"),
        "bleu_unpenalized": Value(means["bleu_unpenalized"], ".2f"),
        "length_ratio": Value(means["length_ratio"], ".3f"),
        "length_ratio_unpenalized": Value(means["length_ratio_unpenalized"], ".3f"),
        "length_penalty": Value(penalties),
        "chosen": Value("; ".join(map(chosen, decodings))),
        "gain": Estimate(gain, digits=2, seeds=len(runs), is_gain=True),
    }


def chosen(decoded: Mapping[str, Any]) -> str:
    """Return the penalty, and say so if it is the largest candidate."""
    penalty = decoded["length_penalty"]
    # Earlier code did not record the candidates.
    candidates = decoded.get("length_penalties", ())

    if penalty == max(candidates, default=None):
        return f"{penalty:g} (largest)"
    return f"{penalty:g}"
