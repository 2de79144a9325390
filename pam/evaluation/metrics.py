"""Metrics as functions of summed counts, so that one bootstrap serves them all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pam.runtime.errors import unknown

Floats = NDArray[np.float64]
# prefix of counts of references that belong to outputs without a length penalty
UNPENALIZED_COUNT = "unpenalized_"
ORDERS = 4  # longest n-grams of words that BLEU counts
CHARACTER_ORDERS = 6  # longest n-grams of characters that chrF counts


@dataclass(frozen=True)
class Units:
    """Counts of one system on one test set, per resampling unit (a lemma, a sentence).

    Metrics need nothing else.
    """

    names: tuple[str, ...]  # one per unit, unique
    columns: tuple[str, ...]  # names of the counts
    counts: Floats  # (units, columns)
    # SHA-256 of what was to be predicted; two systems can be compared only where it is the same
    references: str

    def index_of(self, column: str) -> int:
        """Return the index of a count; a ValueError says that there is none.

        A count of references that all outputs have in common is stored under its plain name.
        """
        stored_name = column
        for name in _names_of(column):
            if name in self.columns:
                stored_name = name
                break

        return self.columns.index(stored_name)

    def has(self, columns: Iterable[str]) -> bool:
        """Tell whether all named counts are there, under their own or their plain names."""
        return all(any(name in self.columns for name in _names_of(column)) for column in columns)

    def only(self, indices: Sequence[int]) -> Units:
        """Return the counts of some of the units."""
        return replace(
            self,
            names=tuple(self.names[index] for index in indices),
            counts=self.counts[list(indices)],
        )

    def of(self, columns: Sequence[str]) -> Floats:
        """Return the named counts, (units, len(columns))."""
        return self.counts[:, [self.index_of(column) for column in columns]]

    def total(self, columns: Sequence[str]) -> Floats:
        """Return the sums of the named counts over all units, (len(columns),)."""
        return np.asarray(np.sum(self.of(columns), axis=0))


def join(parts: Sequence[Units]) -> Units:
    """Put counts of the same units side by side.

    Of a column that several parts have, the first is kept. A ValueError says that the units differ.
    """
    first = parts[0]
    columns: dict[str, Floats] = {}
    for part in parts:
        if (part.names, part.references) != (first.names, first.references):
            raise ValueError("counts of other units")
        for name, counts in zip(part.columns, part.counts.T, strict=True):
            columns.setdefault(name, counts)

    return Units(
        names=first.names,
        columns=tuple(columns),
        counts=np.stack(list(columns.values()), axis=1),
        references=first.references,
    )


def digest_of(rows: Iterable[Sequence[str]]) -> str:
    """Return the SHA-256 of rows of text, as lines with tabs between columns."""
    return hashlib.sha256("".join("\t".join(row) + "\n" for row in rows).encode()).hexdigest()


def _names_of(column: str) -> tuple[str, ...]:
    """List the names under which a count may be stored.

    They are its own, the one without the beam, and the one without `unpenalized_`.
    """
    plain = _without_beam(column)
    return column, plain, plain.removeprefix(UNPENALIZED_COUNT)


def _without_beam(name: str) -> str:
    return re.sub(r"_b\d+$", "", name)


@dataclass(frozen=True)
class Metric:
    """A corpus figure that depends on the outputs only through sums over resampling units."""

    name: str  # key in `scores.json` and in the column `metric` of the tables
    label: str  # words for an axis or a heading, without the unit
    of_outputs: tuple[str, ...]  # names of the counts that change with the outputs
    shared: tuple[str, ...]  # names of the counts that are the same whatever the beam
    # sums (..., columns) to values (...); columns in the order of `columns`
    value: Callable[[Floats], Floats]
    counted: str = "sentences"  # the column whose sum is the number of things judged
    unit: str = ""  # of the value; empty where it has none
    decimals: int = 2  # digits shown after the point
    lower_is_better: bool = False
    over: str = "sentences"  # the resampling units, in words
    # lowest and highest value; None: it does not judge outputs
    span: tuple[float, float] | None = (0.0, 100.0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all counts that the metric needs."""
        return self.of_outputs + self.shared


def of_beam(name: str, beam: int | None) -> str:
    """Return the name of a metric or count for outputs of one beam; None: no beam is known."""
    if beam is None:
        return name
    return f"{name}_b{beam}"


def plain_name(name: str) -> str:
    """Return the name of a metric without its beam, and without `_unpenalized`."""
    return _without_beam(name).removesuffix("_unpenalized")


def metric_of(name: str) -> Metric:
    """Return a metric by its name, such as `accuracy`, or `bleu_b4` for the outputs of beam 4.

    A UserError says that there is no such metric.
    """
    match = re.fullmatch(r"(\w+?)(?:_b([1-9]\d*))?", name)
    if match is None or match[1] not in METRICS:
        raise unknown("metric", name, sorted(METRICS))
    metric = METRICS[match[1]]
    if match[2] is None:
        return metric
    if not metric.of_outputs:
        raise unknown("metric", name, sorted(METRICS))

    beam = int(match[2])
    shared = []
    for column in metric.shared:
        # Counts are of the reference that fits an output best, so that they depend on the beam.
        if column in OF_REFERENCES:
            column = of_beam(column, beam)
        shared.append(column)

    return replace(
        metric,
        name=of_beam(metric.name, beam),
        label=f"{metric.label}, beam {beam}",
        of_outputs=tuple(of_beam(column, beam) for column in metric.of_outputs),
        shared=tuple(shared),
    )


# The functions below map summed counts to values.


def percentage(sums: Floats) -> Floats:
    """Return 100 x first count / second count; sums (..., 2) -> (...)."""
    return 100.0 * sums[..., 0] / sums[..., 1]


def perplexity(sums: Floats) -> Floats:
    """Return exp(nll / tokens); sums (..., 2) -> (...)."""
    return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))


def bleu(sums: Floats, smooth: bool) -> Floats:
    """Compute BLEU times 100 (Papineni et al. 2002), (...).

    It is 0 where nothing matches, or where no output is four words long.

    Args:
        sums: (..., 10) matches and totals of orders 1 to 4, output length, reference length.
        smooth: whether an order without any match counts as 1/2 match, the next such as 1/4 and
            so on (sacreBLEU's `exp`). Without it, one such order makes BLEU 0, as in
            `multi-bleu.perl`.
    """
    match = sums[..., :ORDERS]
    total = sums[..., ORDERS : 2 * ORDERS]
    output_length = sums[..., -2]
    reference_length = sums[..., -1]
    if smooth:
        match = np.where(match > 0, match, 0.5 ** np.cumsum(match == 0, axis=-1))

    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(match / total).mean(axis=-1))
        brevity_penalty = np.exp(np.minimum(0.0, 1.0 - reference_length / output_length))
        value = 100.0 * brevity_penalty * precision

    # Smoothing must not lift outputs without any match above 0.
    is_possible = sums[..., :ORDERS].any(axis=-1) & (total > 0).all(axis=-1)
    return np.where(is_possible, value, 0.0)


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


def alignment_agreement(sums: Floats) -> Floats:
    """Compute 1 - AER = (|A & S| + |A & P|) / (|A| + |S|) (Och & Ney 2003, equation 23).

    Args:
        sums: (..., 4) the four counts, in this order.
    """
    return (sums[..., 0] + sums[..., 1]) / (sums[..., 2] + sums[..., 3])


def share(sums: Floats) -> Floats:
    """Return first count / second count, 0 where there is nothing; sums (..., 2) -> (...)."""
    return np.divide(
        sums[..., 0], sums[..., 1], out=np.zeros(sums.shape[:-1]), where=sums[..., 1] > 0
    )


def share_without(sums: Floats) -> Floats:
    """Return 100 x (1 - first count / second count); sums (..., 2) -> (...)."""
    return 100.0 - percentage(sums)


def meteor(sums: Floats) -> Floats:
    """Compute METEOR times 100 (Denkowski and Lavie 2014), (...).

    It is a mean of precision and recall, less for matches in pieces. The parameters are those of
    English: alpha 0.85, beta 0.2, gamma 0.6.

    Args:
        sums: (..., 6) as in `METEOR_COUNTS`.
    """
    output, reference, output_whole, reference_whole, chunks, matched = np.moveaxis(sums, -1, 0)

    with np.errstate(divide="ignore", invalid="ignore"):
        precision = output / output_whole
        recall = reference / reference_whole
        mean = 1.0 / (0.15 / precision + 0.85 / recall)
        value = 100.0 * mean * (1.0 - 0.6 * (chunks / matched) ** 0.2)

    return np.where((output > 0) & (reference > 0), value, 0.0)


def numbered(count: int, stem: str = "") -> tuple[str, ...]:
    """Return names that end in the numbers from 1."""
    return tuple(f"{stem}{number}" for number in range(1, count + 1))


def bleu_columns(name: str) -> tuple[str, ...]:
    """Name the counts of the outputs for a kind of BLEU, in the order of `bleu`."""
    return (
        *numbered(ORDERS, f"{name}_match"),
        *numbered(ORDERS, f"{name}_total"),
        f"{name}_length",
    )


def _ratio(sums: Floats) -> Floats:
    """Return first count / second count; sums (..., 2) -> (...)."""
    return np.asarray(sums[..., 0] / sums[..., 1])


ROUGE = ("rouge1", "rouge2", "rougeL")
NGRAMS = range(1, 5)  # lengths of n-grams that are looked for in the source of a summary
METEOR_COUNTS = ("matched_output", "matched_reference", "output", "reference", "chunks", "matched")
"""Counts of METEOR: weighted words of output and reference that match, all weighted words of output
and reference, runs of matches in order, and matches.
"""
CHRF_OUTPUT = (*numbered(CHARACTER_ORDERS, "chrf_hyp"), *numbered(CHARACTER_ORDERS, "chrf_match"))
CHRF_REFERENCE = numbered(CHARACTER_ORDERS, "chrf_ref")
OF_REFERENCES = frozenset(
    {
        "words",
        f"{UNPENALIZED_COUNT}words",
        "characters",
        "sacrebleu_words",
        *CHRF_REFERENCE,
    }
)
"""Counts of the references of a translation. Where a sentence has several references, they are of
the one that fits the output best.
"""


# The metrics themselves, by kind of task.


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


def _error_rate(
    name: str,
    label: str,
    of_outputs: tuple[str, ...],
    shared: tuple[str, ...] = (),
    counted: str = "sentences",
    over: str = "sentences",
) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=of_outputs,
        shared=shared,
        value=percentage,
        counted=counted,
        unit="%",
        lower_is_better=True,
        over=over,
    )


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
    )


def _of_links(name: str, label: str, suffix: str = "", error: bool = False) -> Metric:
    value: Callable[[Floats], Floats] = alignment_agreement
    if error:
        value = _alignment_error

    return Metric(
        name=name,
        label=label,
        of_outputs=(),
        shared=(f"sure_hit{suffix}", f"possible_hit{suffix}", f"links{suffix}", "sure"),
        value=value,
        decimals=3,
        lower_is_better=error,
        span=(0.0, 1.0),
    )


def _alignment_error(sums: Floats) -> Floats:
    return 1.0 - alignment_agreement(sums)


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


def _meteor(name: str, label: str, over: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=tuple(f"{name}_{count}" for count in METEOR_COUNTS),
        shared=(),
        value=meteor,
        counted=over,
        over=over,
    )


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


OF_INFLECTION = (
    _accuracy("accuracy", "Accuracy", "correct", "forms"),
    _accuracy("paradigm_accuracy", "Whole paradigms", "whole", "paradigms"),
    _error_rate(
        "form_cer",
        "Character error rate",
        ("form_edits", "form_characters"),
        counted="forms",
        over="lemmas",
    ),
)

OF_LIKELIHOOD = (
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

OF_TRANSLATION = (
    Metric(
        name="bleu",
        label="BLEU",
        of_outputs=bleu_columns("bleu"),
        shared=("words",),
        value=partial(bleu, smooth=False),
    ),
    Metric(
        name="bleu_unpenalized",
        label="BLEU without length penalty",
        of_outputs=bleu_columns("bleu_unpenalized"),
        shared=(f"{UNPENALIZED_COUNT}words",),
        value=partial(bleu, smooth=False),
    ),
    Metric(
        name="bleu_characters",
        label="BLEU of characters",
        of_outputs=bleu_columns("bleu_characters"),
        shared=("characters",),
        value=partial(bleu, smooth=False),
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
    ),
    Metric(
        name="chrf",
        label="chrF",
        of_outputs=CHRF_OUTPUT,
        shared=CHRF_REFERENCE,
        value=chrf,
    ),
    Metric(
        name="gleu",
        label="GLEU",
        of_outputs=("gleu_match", "gleu_ngrams"),
        shared=(),
        value=percentage,
    ),
    _error_rate("wer", "Word error rate", ("wer_edits", "wer_words")),
    _error_rate("per", "Phoneme error rate", ("wer_edits", "wer_words")),
    _error_rate("cer", "Character error rate", ("cer_edits", "cer_characters")),
    _error_rate("ser", "Sentences with an error", ("ser_errors",), ("sentences",)),
    Metric(
        name="exact_match",
        label="Exact match",
        of_outputs=("ser_errors",),
        shared=("sentences",),
        value=share_without,
        unit="%",
    ),
)

OF_ALIGNMENT = (
    _of_links("aer", "AER", error=True),
    _of_links("one_minus_aer", "1 − AER"),
    _of_links("aer_prior", "AER of the prior", "_prior", error=True),
    _of_links("one_minus_aer_prior", "1 − AER of the prior", "_prior"),
    _of_links("aer_late", "AER of the next step's prior", "_late", error=True),
    _of_links("one_minus_aer_late", "1 − AER of the next step's prior", "_late"),
    _of_links("aer_posterior", "AER of the posterior", "_posterior", error=True),
    _of_links("one_minus_aer_posterior", "1 − AER of the posterior", "_posterior"),
    _of_links("aer_head", "AER of the best head", "_head", error=True),
    _of_links("one_minus_aer_head", "1 − AER of the best head", "_head"),
)

OF_SUMMARIZATION = (
    *map(_summary_f1, ROUGE),
    _meteor("meteor_exact", "METEOR, exact", over="summaries"),
    _meteor("meteor_full", "METEOR, with stems, synonyms and paraphrases", over="summaries"),
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

OF_CAPTIONING = (
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
    _meteor("meteor_coco", "METEOR", over="clips"),
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *OF_INFLECTION,
        *OF_LIKELIHOOD,
        *OF_TRANSLATION,
        *OF_ALIGNMENT,
        *OF_SUMMARIZATION,
        *OF_CAPTIONING,
    )
}
"""Every metric by name; `metric_of` finds those of a beam too."""

_SHARED = frozenset(column for metric in METRICS.values() for column in metric.shared)


def names_for_beam(columns: Iterable[str], beam: int | None) -> tuple[str, ...]:
    """Name counts by the beam, except those that are the same whatever the beam."""
    return tuple(column if column in _SHARED else of_beam(column, beam) for column in columns)
