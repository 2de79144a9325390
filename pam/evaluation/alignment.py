"""Word alignments against those that people made: the alignment error rate.

AER = 1 - (|A & S| + |A & P|) / (|A| + |S|) for the links A that were found, those that are sure, S,
and those that are possible, P, sure ones included (Och & Ney 2003, equation 23). Counts are per
sentence, so that the bootstrap can draw sentences; the details hold the value that nltk computes
from the links themselves.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from pam.evaluation.attention import Analysis, Links
from pam.evaluation.inputs import Counts, EvalInputs, load
from pam.evaluation.metrics import Units, digest_of, join, numbered
from pam.io import Strict, UserError

READINGS = {
    "": "links",
    "_prior": "links_prior",
    "_late": "links_late",
    "_posterior": "links_posterior",
}
"""Ends of metrics' names, and what they count."""


class WordAlignments(Strict):
    """`links.json`: links by sentence, words counted from 0, (source, target)."""

    sure: list[Links] = Field(min_length=1)
    possible: list[Links]


def count(inputs: EvalInputs) -> Counts:
    """Counts per sentence: sure links, links found, and those of them that are sure or possible.

    A UserError names a file that is missing or faulty, or an analysis of other sentences.
    """
    if inputs.analysis is None:
        raise UserError(
            "alignments are scored from an analysis", hint="name gold_analysis.json: --analysis"
        )
    from nltk.translate.metrics import alignment_error_rate  # slow to import, and optional

    gold = read_word_alignments(inputs.prepared.file("links.json"))
    found = load(Analysis, inputs.analysis).sentences
    if found.links is None or len(found.links) != len(gold.sure):
        words = f"links of {len(found.links or ())} sentences, gold links of {len(gold.sure)}"
        raise UserError(
            words, file=inputs.analysis, hint="analyze the word alignments' own sentences"
        )
    references = digest_of((str(row),) for row in zip(gold.sure, gold.possible, strict=True))
    units, details, metrics = [], {}, []
    for suffix, name in READINGS.items():
        links = getattr(found, name)
        if links is None:  # a reading that the analysis does not have
            continue
        metrics += [f"aer{suffix}", f"one_minus_aer{suffix}"]
        sets = [map(set, row) for row in zip(links, gold.sure, gold.possible, strict=True)]
        table = [
            (len(own & sure), len(own & possible), len(own), len(sure), 1)
            for own, sure, possible in sets
        ]
        columns = (
            f"sure_hit{suffix}",
            f"possible_hit{suffix}",
            f"links{suffix}",
            "sure",
            "sentences",
        )
        units.append(
            Units(numbered(len(table)), columns, np.array(table, dtype=np.float64), references)
        )
        # By nltk, the links of all sentences are taken together, each with its sentence.
        pooled = [
            {
                (number, *link)
                for number, of_sentence in enumerate(of_sentences)
                for link in of_sentence
            }
            for of_sentences in (gold.sure, links, gold.possible)
        ]
        details[f"aer{suffix}_nltk"] = float(alignment_error_rate(*pooled))
    return Counts(join(units), tuple(metrics), "sentences", details)


def read_word_alignments(path: Path | str) -> WordAlignments:
    """Read `links.json`; a UserError says that it is faulty or that a sure link is not possible."""
    gold = load(WordAlignments, path)
    hint = "delete the folder and prepare the word alignments again"
    if len(gold.sure) != len(gold.possible):
        words = f"sure links of {len(gold.sure)} sentences, possible ones of {len(gold.possible)}"
        raise UserError(words, file=path, hint=hint)
    for number, (sure, possible) in enumerate(zip(gold.sure, gold.possible, strict=True), 1):
        if not set(sure) <= set(possible):
            raise UserError(
                f"sentence {number}: a sure link is not among the possible ones",
                file=path,
                hint=hint,
            )
    return gold
