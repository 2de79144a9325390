"""Metrics of captions."""

from __future__ import annotations

from functools import partial

from pam.evaluation.metrics import Metric, bleu, bleu_columns, meteor_metric, share


def _mean_of_clips(name: str, label: str, highest: float) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=(name,),
        shared=("clips",),
        value=share,
        counted="clips",
        decimals=3,
        over="clips",
        span=(0.0, highest),
    )


METRICS: tuple[Metric, ...] = (
    _mean_of_clips("cider", "CIDEr", highest=10.0),
    _mean_of_clips("rouge_coco", "ROUGE-L", highest=1.0),
    Metric(
        name="bleu_coco",
        label="BLEU-4",
        of_outputs=(*bleu_columns("bleu_coco"), "bleu_coco_words"),
        shared=(),
        value=partial(bleu, smooth=False),
        counted="clips",
        over="clips",
    ),
    meteor_metric("meteor_coco", "METEOR", over="clips"),
)
