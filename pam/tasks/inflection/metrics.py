"""Metrics of inflected forms."""

from __future__ import annotations

from pam.evaluation.metrics import Metric, error_rate, percentage


def _accuracy(name: str, label: str, right: str, total: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=(right,),
        shared=(total,),
        value=percentage,
        counted=total,
        unit="%",
        over="lemmas",
    )


METRICS: tuple[Metric, ...] = (
    _accuracy("accuracy", "Accuracy", "correct", "forms"),
    _accuracy("paradigm_accuracy", "Whole paradigms", "whole", "paradigms"),
    error_rate(
        "form_cer",
        "Character error rate",
        ("form_edits", "form_characters"),
        counted="forms",
        over="lemmas",
    ),
)
