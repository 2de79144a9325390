"""Tables and figures of captions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pam.reporting.items import (
    DEV_SCORES,
    PREDICTIONS,
    RUN_CONFIG,
    SCORES,
    Examples,
    FigureSpec,
    TableSpec,
    compared,
    gains_of,
)

_table = partial(TableSpec, kind="captioning", files=SCORES)
_figure = partial(FigureSpec, kind="captioning")
_compared = partial(compared, kind="captioning")

_CAPTIONS = _table(
    "Captions: CIDEr and ROUGE-L",
    title="CIDEr, ROUGE-L and others of captions, on the test split",
    cites="Amortized Context Vector Inference, Table 3",
    metrics=("cider", "rouge_coco", "bleu_coco", "meteor_coco"),
    paper="table_acvi_captions",
    controls=("constant", "nearest", "people"),
    front=True,
)

TABLES: dict[str, TableSpec] = {
    "table_acvi_captions": _CAPTIONS,
    "table_acvi_captions_gains": gains_of(_CAPTIONS, "Captions: gains over the baseline"),
    "table_acvi_captions_dev": replace(
        _CAPTIONS,
        label="Captions: development split",
        files=DEV_SCORES,
        needs=("dev",),
        controls=(),
        front=False,
        title="CIDEr, ROUGE-L and others of captions, on the development split",
        paper="table_acvi_captions_dev",
    ),
    "caption_examples": _table(
        "Examples of captions",
        title="Captions of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=(*RUN_CONFIG, "{task}/data/test.tsv"),
        examples=Examples(
            rows="clips",
            more_references=2,
            note="The references are the first of a clip's captions.",
        ),
    ),
}


FIGURES: dict[str, FigureSpec] = {
    "cider": _compared("CIDEr", "quality", "cider", "table_acvi_captions"),
    "cider_gains": _compared("Gains in CIDEr", "gains", "cider", "table_acvi_captions"),
}
