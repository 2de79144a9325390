"""Build the table of length penalties.

The penalties were chosen on the development split; the table shows what they change on the test
split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pam.evaluation.metrics import of_beam
from pam.reporting.catalogue import TableSpec
from pam.reporting.comparison import Inputs
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Table, signed, table_of
from pam.reporting.runs import ScoredRun

METRICS = ("bleu", "bleu_unpenalized", "length_ratio", "length_ratio_unpenalized")
LENGTHS = ("task", "model", "beam", "length_penalty", "length_penalty_form", *METRICS, "gain", "n")
DIGITS = dict.fromkeys((*METRICS, "gain"), 4)
SHOWN = (
    TASK,
    MODEL,
    Column("Beam", "{beam}"),
    Column("Chosen penalty", "{chosen}"),
    Column("BLEU without", "{bleu_unpenalized:.2f}"),
    Column("BLEU with", "{bleu:.2f}"),
    Column("Gain", "{gain_text}"),
    Column("Ratio without", "{length_ratio_unpenalized:.3f}"),
    Column("Ratio with", "{length_ratio:.3f}"),
    SEEDS,
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
    for task in inputs.tasks:
        for model, runs in task.models.items():
            for beam, decoded in runs[0].decodings.items():
                metric = of_beam("bleu_unpenalized", int(beam))
                if not all(metric in run.scores.metrics for run in runs):
                    continue

                row = {
                    "task": task.name,
                    "task_label": task.label,
                    "model": model,
                    "label": runs[0].label,
                    "beam": int(beam),
                    "length_penalty_form": decoded["length_penalty_form"],
                    **_measured(runs, beam),
                }

                rows.append(row)

    columns = [*LENGTHS, "task_label", "label", "chosen", "gain_text"]
    frame = pd.DataFrame(rows, columns=columns, dtype=object)

    forms = [FORMS[form] for form in dict.fromkeys(row["length_penalty_form"] for row in rows)]
    return table_of(inputs.title(spec), frame, LENGTHS, DIGITS, SHOWN, (NOTE, *forms))


def _measured(runs: Sequence[ScoredRun], beam: str) -> dict[str, Any]:
    """Return the penalties of a model's runs and their means over seeds with one beam."""
    means = {}
    for name in METRICS:
        metric = of_beam(name, int(beam))
        means[name] = float(np.mean([run.scores.metrics[metric].value for run in runs]))

    gain = means["bleu"] - means["bleu_unpenalized"]
    decodings = [run.decodings[beam] for run in runs]

    return {
        **means,
        "length_penalty": "; ".join(f"{decoded['length_penalty']:g}" for decoded in decodings),
        "chosen": "; ".join(map(chosen, decodings)),
        "gain": gain,
        "gain_text": signed(gain, 2),
        "n": len(runs),
    }


def chosen(decoded: Mapping[str, Any]) -> str:
    """Return the penalty, and say so if it is the largest candidate."""
    penalty = decoded["length_penalty"]
    # Earlier code did not record the candidates.
    candidates = decoded.get("length_penalties", ())

    if penalty == max(candidates, default=None):
        return f"{penalty:g} (largest)"
    return f"{penalty:g}"
