"""Tables and figures of inflection."""

from __future__ import annotations

from functools import partial

from pam.reporting.items import (
    PREDICTIONS,
    RUN_CONFIG,
    SCORES,
    Examples,
    FigureSpec,
    TableSpec,
    compared,
    gains_of,
)

_table = partial(TableSpec, kind="inflection", files=SCORES)
_figure = partial(FigureSpec, kind="inflection")
_compared = partial(compared, kind="inflection")

_TABLE2 = _table(
    "Table 2: accuracy over forms",
    title="Accuracy over test forms, morphological inflection",
    cites="the paper's Table 2",
    metrics=("accuracy",),
    paper="table2",
    front=True,
)
_PARADIGMS = _table(
    "Whole paradigms",
    title="Accuracy over whole paradigms (lemmas with every form right), and character error rate",
    metrics=("paradigm_accuracy", "form_cer"),
)

TABLES: dict[str, TableSpec] = {
    "table2": _TABLE2,
    "table2_gains": gains_of(_TABLE2, "Table 2: gains in accuracy over forms"),
    "table2_paradigms": _PARADIGMS,
    "table2_paradigms_gains": gains_of(_PARADIGMS, "Whole paradigms: gains over the baseline"),
    "form_examples": _table(
        "Examples of forms",
        title="Forms of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=RUN_CONFIG,
        examples=Examples(rows="forms", has_words=False),
    ),
}


FIGURES: dict[str, FigureSpec] = {
    "accuracy": _compared("Accuracy over forms", "quality", "accuracy", "table2"),
    "accuracy_paradigms": _compared("Accuracy over paradigms", "quality", "paradigm_accuracy"),
    "gains": _compared("Gains in accuracy over forms", "gains", "accuracy", "table2"),
    "gains_paradigms": _compared("Gains in accuracy over paradigms", "gains", "paradigm_accuracy"),
    "cost": _compared("Accuracy against cost", "cost", "accuracy"),
}


def example_source(source: str, reference: str) -> str | None:
    """Return lemma and values of the features; None where the form is that of the lemma."""
    lemma, _, features = source.removesuffix(")").partition(" (")
    if lemma == reference:
        return None

    values = [feature.rpartition("=")[2] for feature in features.split(", ")]
    return f"{lemma} ({', '.join(values)})"
