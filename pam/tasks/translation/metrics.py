"""Metrics of translations, and of their likelihood under teacher forcing."""

from __future__ import annotations

from functools import partial

import numpy as np

from pam.evaluation.metrics import (
    UNPENALIZED_COUNT,
    Floats,
    Metric,
    bleu,
    bleu_columns,
    error_rate,
    numbered,
    percentage,
    perplexity,
)

CHARACTER_ORDERS = 6  # longest n-grams of characters that chrF counts


def chrf(sums: Floats) -> Floats:
    """Compute chrF2 times 100 (Popović 2015), averaged over the orders that occur, as sacreBLEU.

    It is 0 where nothing matches.

    Args:
        sums: (..., 18) character n-grams of the output, matches, and n-grams of the reference, each
            of orders 1 to 6.
    """
    output, match, reference = np.split(sums, 3, axis=-1)
    occurs = (output > 0) & (reference > 0)

    with np.errstate(divide="ignore", invalid="ignore"):
        orders = occurs.sum(axis=-1)
        precision = np.where(occurs, match / output, 0.0).sum(axis=-1) / orders
        recall = np.where(occurs, match / reference, 0.0).sum(axis=-1) / orders
        # Recall weighs twice as much as precision.
        score = 5 * precision * recall / (4 * precision + recall)

    return np.where(precision + recall > 0, 100.0 * score, 0.0)


def share_without(sums: Floats) -> Floats:
    """Return 100 x (1 - first count / second count); sums (..., 2) -> (...)."""
    return 100.0 - percentage(sums)


def _ratio(sums: Floats) -> Floats:
    """Return first count / second count; sums (..., 2) -> (...)."""
    return np.asarray(sums[..., 0] / sums[..., 1])


CHRF_OUTPUT = (*numbered(CHARACTER_ORDERS, "chrf_hyp"), *numbered(CHARACTER_ORDERS, "chrf_match"))
CHRF_REFERENCE = numbered(CHARACTER_ORDERS, "chrf_ref")


def _perplexity(name: str, label: str, nll: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=(),
        shared=(nll, "tokens"),
        value=perplexity,
        counted="tokens",
        lower_is_better=True,
        span=None,
    )


def _length_ratio(name: str, label: str, output_length: str, reference_length: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=(output_length,),
        shared=(reference_length,),
        value=_ratio,
        decimals=3,
        span=None,
        is_of_nearest_reference=True,
    )


LIKELIHOOD = (
    Metric(
        name="token_accuracy",
        label="Accuracy, next symbol",
        of_outputs=(),
        shared=("tokens_correct", "tokens"),
        value=percentage,
        counted="tokens",
        unit="%",
    ),
    _perplexity("ppl", "Perplexity", "nll"),
    _perplexity("ppl_exact", "Perplexity, exact sum", "nll_exact"),
)


METRICS: tuple[Metric, ...] = (
    *LIKELIHOOD,
    Metric(
        name="bleu",
        label="BLEU",
        of_outputs=bleu_columns("bleu"),
        shared=("words",),
        value=partial(bleu, smooth=False),
        is_of_nearest_reference=True,
    ),
    Metric(
        name="bleu_unpenalized",
        label="BLEU without length penalty",
        of_outputs=bleu_columns("bleu_unpenalized"),
        shared=(f"{UNPENALIZED_COUNT}words",),
        value=partial(bleu, smooth=False),
        is_of_nearest_reference=True,
    ),
    Metric(
        name="bleu_characters",
        label="BLEU of characters",
        of_outputs=bleu_columns("bleu_characters"),
        shared=("characters",),
        value=partial(bleu, smooth=False),
        is_of_nearest_reference=True,
    ),
    _length_ratio("length_ratio", "Words over the reference's", "bleu_length", "words"),
    _length_ratio(
        "length_ratio_unpenalized",
        "Words over the reference's without length penalty",
        "bleu_unpenalized_length",
        f"{UNPENALIZED_COUNT}words",
    ),
    Metric(
        name="sacrebleu",
        label="sacreBLEU",
        of_outputs=bleu_columns("sacrebleu"),
        shared=("sacrebleu_words",),
        value=partial(bleu, smooth=True),
        is_of_nearest_reference=True,
    ),
    Metric(
        name="chrf",
        label="chrF",
        of_outputs=CHRF_OUTPUT,
        shared=CHRF_REFERENCE,
        value=chrf,
        is_of_nearest_reference=True,
    ),
    Metric(
        name="gleu",
        label="GLEU",
        of_outputs=("gleu_match", "gleu_ngrams"),
        shared=(),
        value=percentage,
    ),
    error_rate("wer", "Word error rate", ("wer_edits", "wer_words")),
    error_rate("per", "Phoneme error rate", ("wer_edits", "wer_words")),
    error_rate("cer", "Character error rate", ("cer_edits", "cer_characters")),
    error_rate("ser", "Sentences with an error", ("ser_errors",), ("sentences",)),
    Metric(
        name="exact_match",
        label="Exact match",
        of_outputs=("ser_errors",),
        shared=("sentences",),
        value=share_without,
        unit="%",
    ),
)
