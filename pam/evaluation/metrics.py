"""Metrics as functions of summed counts, so that one bootstrap serves them all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pam.io import unknown

Floats = NDArray[np.float64]
# begins the name of a count of references for outputs without a length penalty
UNPENALIZED_COUNT = "unpenalized_"
# longest n-grams of words that BLEU counts, and of characters that chrF counts
ORDERS, CHARACTER_ORDERS = (4, 6)


@dataclass(frozen=True)
class Units:
    """Counts of one system on one test set per resampling unit (a lemma, a sentence): all that
    metrics need.
    """

    names: tuple[str, ...]  # one per unit, unique
    columns: tuple[str, ...]  # names of the counts
    counts: Floats  # (units, columns)
    # SHA-256 of what was to be predicted; two systems can be compared only where it is the same
    references: str

    def index_of(self, column: str) -> int:
        """Return the index of a count. One of references that these have for all outputs in common
        is found by its plain name. A ValueError says that there is none.
        """
        stored = next((name for name in _names_of(column) if name in self.columns), column)
        return self.columns.index(stored)

    def has(self, columns: Iterable[str]) -> bool:
        """Tell whether all named counts are there, under their own or their plain names."""
        return all(any(name in self.columns for name in _names_of(column)) for column in columns)

    def of(self, columns: Sequence[str]) -> Floats:
        """The named counts, (units, len(columns))."""
        return self.counts[:, [self.index_of(column) for column in columns]]

    def total(self, columns: Sequence[str]) -> Floats:
        """Sums of the named counts over all units, (len(columns),)."""
        return np.asarray(np.sum(self.of(columns), axis=0))


def join(parts: Sequence[Units]) -> Units:
    """Counts of the same units, else a ValueError, side by side; of a column that several parts
    have, the first.
    """
    first, columns = parts[0], dict[str, Floats]()
    for part in parts:
        if (part.names, part.references) != (first.names, first.references):
            raise ValueError("counts of other units")
        columns = dict(zip(part.columns, part.counts.T, strict=True)) | columns
    order = dict.fromkeys(column for part in parts for column in part.columns)
    return Units(
        first.names,
        tuple(order),
        np.stack([columns[name] for name in order], axis=1),
        first.references,
    )


def digest_of(rows: Iterable[Sequence[str]]) -> str:
    """SHA-256 of rows of text, as lines with tabs between columns."""
    return hashlib.sha256("".join("\t".join(row) + "\n" for row in rows).encode()).hexdigest()


def _names_of(column: str) -> tuple[str, ...]:
    """List the names under which a count may be stored: its own, without the beam, and without
    `unpenalized_`.
    """
    plain = re.sub(r"_b\d+$", "", column)
    return column, plain, plain.removeprefix(UNPENALIZED_COUNT)


@dataclass(frozen=True)
class Metric:
    """A corpus figure that depends on the outputs only through sums over resampling units."""

    name: str  # key in `scores.json` and in the column `metric` of the tables
    label: str  # words for an axis or a heading, without the unit
    of_outputs: tuple[str, ...]  # names of the counts that change with the outputs
    given: tuple[str, ...]  # names of the counts that do not, whatever the beam
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
        """Names of all counts it needs."""
        return self.of_outputs + self.given


def of_beam(name: str, beam: int | None) -> str:
    """A metric's or a count's name for the outputs of one beam; None: no beam is known."""
    return name if beam is None else f"{name}_b{beam}"


def metric_of(name: str) -> Metric:
    """The metric of this name, such as `accuracy`, or `bleu_b4` for the outputs of beam 4; a
    UserError if none is.
    """
    found = re.fullmatch(r"(\w+?)(?:_b([1-9]\d*))?", name)
    known = METRICS.get(found[1]) if found else None
    if found is None or known is None or (found[2] and not known.of_outputs):
        raise unknown("metric", name, sorted(METRICS))
    if not found[2]:
        return known
    beam = int(found[2])
    outputs = tuple(of_beam(column, beam) for column in known.of_outputs)
    # Of several references those are counted that fit an output best.
    given = tuple(
        of_beam(column, beam) if column in OF_REFERENCES else column for column in known.given
    )
    return replace(
        known,
        name=of_beam(known.name, beam),
        label=f"{known.label}, beam {beam}",
        of_outputs=outputs,
        given=given,
    )


def percentage(sums: Floats) -> Floats:
    """100 x first count / second count; sums (..., 2) -> (...)."""
    return 100.0 * sums[..., 0] / sums[..., 1]


def perplexity(sums: Floats) -> Floats:
    """exp(nll / tokens); sums (..., 2) -> (...)."""
    return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))


def bleu(sums: Floats, smooth: bool) -> Floats:
    """BLEU times 100 (Papineni et al. 2002), (...); 0 where nothing matches, or where no output is
    four words long.

    Args:
        sums: (..., 10) matches and totals of orders 1 to 4, output length, reference length.
        smooth: an order without any match counts as 1/2 match, the next such as 1/4 and so on
            (sacreBLEU's `exp`);
            without, one such order makes BLEU 0, as in `multi-bleu.perl`.
    """
    match, total = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    length, reference = sums[..., -2], sums[..., -1]
    if smooth:
        match = np.where(match > 0, match, 0.5 ** np.cumsum(match == 0, axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(match / total).mean(axis=-1))
        penalty = np.exp(np.minimum(0.0, 1.0 - reference / length))
        value = 100.0 * penalty * precision
    possible = sums[..., :ORDERS].any(axis=-1) & (total > 0).all(axis=-1)
    return np.where(possible, value, 0.0)


def chrf(sums: Floats) -> Floats:
    """chrF2 times 100 (Popović 2015), averaged over the orders that occur, as sacreBLEU does; 0
    where nothing matches.

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
        # recall weighs twice as much as precision
        score = 5 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, 100.0 * score, 0.0)


def alignment_agreement(sums: Floats) -> Floats:
    """1 - AER = (|A & S| + |A & P|) / (|A| + |S|) (Och & Ney 2003, equation 23); sums (..., 4), in
    this order.
    """
    return (sums[..., 0] + sums[..., 1]) / (sums[..., 2] + sums[..., 3])


def share(sums: Floats) -> Floats:
    """First count / second count, 0 where there is nothing; sums (..., 2) -> (...)."""
    return np.divide(
        sums[..., 0], sums[..., 1], out=np.zeros(sums.shape[:-1]), where=sums[..., 1] > 0
    )


def meteor(sums: Floats) -> Floats:
    """METEOR times 100 (Denkowski and Lavie 2014), (...): a mean of precision and recall, less for
    matches in pieces.

    Args:
        sums: (..., 6) as in `METEOR_COUNTS`; the parameters are those of English: alpha 0.85, beta
            0.2, gamma 0.6.
    """
    output, reference, output_whole, reference_whole, chunks, matched = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = output / output_whole, reference / reference_whole
        mean = 1.0 / (0.15 / precision + 0.85 / recall)
        value = 100.0 * mean * (1.0 - 0.6 * (chunks / matched) ** 0.2)
    return np.where((output > 0) & (reference > 0), value, 0.0)


def numbered(count: int, stem: str = "") -> tuple[str, ...]:
    """Names with the numbers from 1."""
    return tuple(f"{stem}{number}" for number in range(1, count + 1))


def bleu_columns(name: str) -> tuple[str, ...]:
    """Counts of the outputs for a kind of BLEU, in the order of `bleu`."""
    return (
        *numbered(ORDERS, f"{name}_match"),
        *numbered(ORDERS, f"{name}_total"),
        f"{name}_length",
    )


def _ratio(sums: Floats) -> Floats:
    """First count / second count; sums (..., 2) -> (...)."""
    return np.asarray(sums[..., 0] / sums[..., 1])


ROUGE = ("rouge1", "rouge2", "rougeL")
NGRAMS = range(1, 5)  # lengths of n-grams that are looked for in the source of a summary
METEOR_COUNTS = ("matched_output", "matched_reference", "output", "reference", "chunks", "matched")
"""Weighted words of output and reference that match, and all of them; runs of matches in order, and
matches.
"""
CHRF_OUTPUT = (*numbered(CHARACTER_ORDERS, "chrf_hyp"), *numbered(CHARACTER_ORDERS, "chrf_match"))
CHRF_REFERENCE = numbered(CHARACTER_ORDERS, "chrf_ref")
OF_REFERENCES = frozenset(
    {"words", f"{UNPENALIZED_COUNT}words", "sacrebleu_words", *CHRF_REFERENCE}
)
"""Counts of the references of a translation: where it has several, those of the references that fit
the output.
"""


def _accuracy(name: str, label: str, right: str, total: str) -> Metric:
    return Metric(name, label, (right,), (total,), percentage, total, "%", over="lemmas")


def _error_rate(
    name: str,
    label: str,
    of_outputs: tuple[str, ...],
    given: tuple[str, ...] = (),
    counted: str = "sentences",
    over: str = "sentences",
) -> Metric:
    return Metric(
        name, label, of_outputs, given, percentage, counted, "%", lower_is_better=True, over=over
    )


def _perplexity(name: str, label: str, nll: str) -> Metric:
    return Metric(
        name, label, (), (nll, "tokens"), perplexity, "tokens", lower_is_better=True, span=None
    )


def _of_summaries(name: str, label: str, part: str, whole: str, **more: Any) -> Metric:
    """A ratio of two counts; `whole` counts outputs' parts too, unless it is the number of
    summaries.
    """
    given = (whole,) if whole in ("summaries", "reference_words") else ()
    columns = (part,) if given else (part, whole)
    more |= {"over": "summaries", "span": None}
    return Metric(name, label, columns, given, share, "summaries", decimals=3, **more)


def _summary_f1(name: str) -> Metric:
    label = f"ROUGE-{name.removeprefix('rouge')}"
    return Metric(name, label, (name,), ("summaries",), percentage, "summaries", over="summaries")


def _meteor(name: str, label: str) -> Metric:
    columns = tuple(f"{name}_{count}" for count in METEOR_COUNTS)
    return Metric(name, label, columns, (), meteor, "summaries", over="summaries")


def _of_links(name: str, label: str, suffix: str = "", error: bool = False) -> Metric:
    links = (f"sure_hit{suffix}", f"possible_hit{suffix}", f"links{suffix}", "sure")
    value = (lambda sums: 1.0 - alignment_agreement(sums)) if error else alignment_agreement
    return Metric(name, label, (), links, value, decimals=3, lower_is_better=error, span=(0.0, 1.0))


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _accuracy("accuracy", "Accuracy", "correct", "forms"),
        _accuracy("paradigm_accuracy", "Whole paradigms", "whole", "paradigms"),
        Metric(
            "token_accuracy",
            "Accuracy, next symbol",
            (),
            ("tokens_correct", "tokens"),
            percentage,
            "tokens",
            "%",
        ),
        _perplexity("ppl", "Perplexity", "nll"),
        _perplexity("ppl_exact", "Perplexity, exact sum", "nll_exact"),
        Metric("bleu", "BLEU", bleu_columns("bleu"), ("words",), partial(bleu, smooth=False)),
        Metric(
            "bleu_unpenalized",
            "BLEU without length penalty",
            bleu_columns("bleu_unpenalized"),
            (f"{UNPENALIZED_COUNT}words",),
            partial(bleu, smooth=False),
        ),
        Metric(
            "length_ratio",
            "Words over the reference's",
            ("bleu_length",),
            ("words",),
            _ratio,
            decimals=3,
            span=None,
        ),
        Metric(
            "length_ratio_unpenalized",
            "Words over the reference's without length penalty",
            ("bleu_unpenalized_length",),
            (f"{UNPENALIZED_COUNT}words",),
            _ratio,
            decimals=3,
            span=None,
        ),
        Metric(
            "sacrebleu",
            "sacreBLEU",
            bleu_columns("sacrebleu"),
            ("sacrebleu_words",),
            partial(bleu, smooth=True),
        ),
        Metric("chrf", "chrF", CHRF_OUTPUT, CHRF_REFERENCE, chrf),
        _error_rate("wer", "Word error rate", ("wer_edits", "wer_words")),
        _error_rate("cer", "Character error rate", ("cer_edits", "cer_characters")),
        _error_rate("ser", "Sentences with an error", ("ser_errors",), ("sentences",)),
        _error_rate(
            "form_cer",
            "Character error rate",
            ("form_edits", "form_characters"),
            counted="forms",
            over="lemmas",
        ),
        _of_links("aer", "AER", error=True),
        _of_links("one_minus_aer", "1 - AER"),
        _of_links("aer_prior", "AER of the prior", "_prior", error=True),
        _of_links("one_minus_aer_prior", "1 - AER of the prior", "_prior"),
        _of_links("aer_late", "AER of the next step's prior", "_late", error=True),
        _of_links("one_minus_aer_late", "1 - AER of the next step's prior", "_late"),
        _of_links("aer_posterior", "AER of the posterior", "_posterior", error=True),
        _of_links("one_minus_aer_posterior", "1 - AER of the posterior", "_posterior"),
        *map(_summary_f1, ROUGE),
        _meteor("meteor_exact", "METEOR, exact"),
        _meteor("meteor_full", "METEOR, with stems, synonyms and paraphrases"),
        *(
            Metric(
                name,
                label,
                (name,),
                ("clips",),
                share,
                "clips",
                decimals=3,
                over="clips",
                span=(0.0, highest),
            )
            for name, label, highest in (("cider", "CIDEr", 10.0), ("rouge_coco", "ROUGE-L", 1.0))
        ),
        Metric(
            "bleu_coco",
            "BLEU-4",
            (*bleu_columns("bleu_coco"), "bleu_coco_words"),
            (),
            partial(bleu, smooth=False),
            "clips",
            over="clips",
        ),
        Metric(
            "meteor_coco",
            "METEOR",
            tuple(f"meteor_coco_{count}" for count in METEOR_COUNTS),
            (),
            meteor,
            "clips",
            over="clips",
        ),
        _of_summaries("novel_words", "Novel words", "novel_1", "ngrams_1"),
        *(
            _of_summaries(f"novel_{n}grams", f"Novel {n}-grams", f"novel_{n}", f"ngrams_{n}")
            for n in NGRAMS[1:]
        ),
        _of_summaries(
            "oov_words", "Words outside the vocabulary, a summary", "oov_words", "summaries"
        ),
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
}
"""Every metric by name; `metric_of` finds those of a beam too."""
