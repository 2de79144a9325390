"""Tables and figures of summaries."""

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
from pam.tasks.summarization.metrics import ROUGE

SHOWN_WORDS = 100  # the most words that are shown of a source

_table = partial(TableSpec, kind="summarization", files=SCORES)
_figure = partial(FigureSpec, kind="summarization")
_compared = partial(compared, kind="summarization")

_SUMMARIES = _table(
    "Summaries: ROUGE and METEOR",
    title="ROUGE and METEOR of summaries",
    cites="Amortized Context Vector Inference, Tables 1 and 5",
    metrics=(*ROUGE, "meteor_exact", "meteor_full"),
    paper="table_acvi_summaries",
    controls=("lead", "random"),
    front=True,
    finding=("rougeL",),
)

TABLES: dict[str, TableSpec] = {
    "table_acvi_summaries": _SUMMARIES,
    "table_acvi_summaries_gains": gains_of(_SUMMARIES, "Summaries: gains over the baseline"),
    "table_acvi_novelty": _table(
        "Summaries: what is new, and what is copied",
        title="New and copied words of summaries",
        cites="Amortized Context Vector Inference, Table 2",
        metrics=(
            "novel_words",
            "novel_*grams",
            "oov_words",
            "copied_sentences",
            "repeated_trigrams",
            "summary_words",
        ),
        paper="table_acvi_novelty",
        controls=("reference", "lead", "random"),
    ),
    "summary_examples": _table(
        "Examples of summaries",
        title="Summaries of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=(*RUN_CONFIG, "{task}/data/target.vocab"),
        examples=Examples(
            rows="texts",
            source_words=SHOWN_WORDS,
            note=f"Of a source the first {SHOWN_WORDS} words are shown.",
            origins="pam.tasks.summarization.counts:origins",
        ),
    ),
}


FIGURES: dict[str, FigureSpec] = {
    "rouge": _compared("ROUGE-L", "quality", "rougeL", "table_acvi_summaries"),
    "rouge_gains": _compared("Gains in ROUGE-L", "gains", "rougeL", "table_acvi_summaries"),
}
