"""Metrics of summaries."""

from __future__ import annotations

from pam.evaluation.metrics import Metric, meteor_metric, percentage, share

ROUGE = ("rouge1", "rouge2", "rougeL")


NGRAMS = range(1, 5)  # lengths of n-grams that are looked for in the source of a summary


def _of_summaries(
    name: str, label: str, part: str, whole: str, lower_is_better: bool = False
) -> Metric:
    """Make a metric that is a ratio of two counts.

    `whole` counts parts of the outputs too, unless it counts summaries or words of references.
    """
    of_outputs: tuple[str, ...] = (part, whole)
    shared: tuple[str, ...] = ()
    if whole in ("summaries", "reference_words"):
        of_outputs = (part,)
        shared = (whole,)

    return Metric(
        name=name,
        label=label,
        of_outputs=of_outputs,
        shared=shared,
        value=share,
        counted="summaries",
        decimals=3,
        lower_is_better=lower_is_better,
        over="summaries",
        span=None,
    )


def _summary_f1(name: str) -> Metric:
    return Metric(
        name=name,
        label=f"ROUGE-{name.removeprefix('rouge')}",
        of_outputs=(name,),
        shared=("summaries",),
        value=percentage,
        counted="summaries",
        over="summaries",
    )


METRICS: tuple[Metric, ...] = (
    *map(_summary_f1, ROUGE),
    meteor_metric("meteor_exact", "METEOR, exact", over="summaries"),
    meteor_metric("meteor_full", "METEOR, with stems, synonyms and paraphrases", over="summaries"),
    _of_summaries("novel_words", "Novel words", "novel_1", "ngrams_1"),
    *(
        _of_summaries(f"novel_{n}grams", f"Novel {n}-grams", f"novel_{n}", f"ngrams_{n}")
        for n in NGRAMS[1:]
    ),
    _of_summaries("oov_words", "Words outside the vocabulary, a summary", "oov_words", "summaries"),
    _of_summaries(
        "copied_sentences", "Sentences copied whole", "copied_sentences", "output_sentences"
    ),
    _of_summaries(
        "repeated_trigrams", "Repeated trigrams", "repeated", "ngrams_3", lower_is_better=True
    ),
    _of_summaries(
        "summary_words", "Words over the reference's", "summary_words", "reference_words"
    ),
)
