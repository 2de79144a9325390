"""Alignment error rate: word alignments of models against those that people made.

AER = 1 - (|A & S| + |A & P|) / (|A| + |S|) for the model's links A, the sure links S, and the
possible links P, which include the sure ones (Och & Ney 2003, equation 23). Counts are per
sentence, so that the bootstrap can draw sentences. The details hold the value that nltk computes
from the links themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from pam.evaluation.attention import Analysis, Links
from pam.evaluation.inputs import Counts, EvalInputs
from pam.evaluation.metrics import Floats, Units, digest_of, join, numbered
from pam.evaluation.records import load
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.tasks.alignment.metrics import alignment_agreement

READINGS = {
    "": "links",
    "_prior": "links_prior",
    "_late": "links_late",
    "_posterior": "links_posterior",
}
"""Suffixes of the metrics' names, and the links of an analysis that they count."""


class WordAlignments(Strict):
    """`links.json`: links by sentence, words counted from 0, (source, target)."""

    sure: list[Links] = Field(min_length=1)
    possible: list[Links]


def count(inputs: EvalInputs) -> Counts:
    """Count links per sentence: sure ones, the model's, and its links that are sure or possible.

    Raises:
        UserError: a file is missing or faulty, or the analysis is of other sentences.
    """
    if inputs.analysis is None:
        raise UserError(
            "alignments are scored from an analysis", hint="name gold_analysis.json: --analysis"
        )
    from nltk.translate.metrics import alignment_error_rate  # slow to import, and optional

    gold = read_word_alignments(inputs.prepared.file("links.json"))
    analyzed = load(Analysis, inputs.analysis).sentences
    if analyzed.links is None or len(analyzed.links) != len(gold.sure):
        problem = f"links of {len(analyzed.links or ())} sentences, gold links of {len(gold.sure)}"
        hint = "analyze the word alignments' own sentences"
        raise UserError(problem, file=inputs.analysis, hint=hint)

    details: dict[str, Any] = {}
    readings = {suffix: getattr(analyzed, name) for suffix, name in READINGS.items()}
    if analyzed.links_heads is not None:
        readings["_head"], details["heads"] = best_of(analyzed.links_heads, gold)
    if analyzed.links_shift_att is not None:
        readings["_shift_att"], details["shift_att"] = best_of(analyzed.links_shift_att, gold)

    parts = []
    metrics = []
    for suffix, links in readings.items():
        if links is None:  # a reading that the analysis does not have
            continue
        parts.append(count_links(links, gold, suffix))
        metrics += [f"aer{suffix}", f"one_minus_aer{suffix}"]
        details[f"aer{suffix}_nltk"] = float(
            alignment_error_rate(_pooled(gold.sure), _pooled(links), _pooled(gold.possible))
        )

    return Counts(join(parts), tuple(metrics), "sentences", details)


def best_of(
    links_by_name: Sequence[Mapping[str, Links]], gold: WordAlignments
) -> tuple[list[Links], dict[str, Any]]:
    """Align each half of the sentences by the head, or layer, that is best on the other half.

    So no sentence's own links choose what it is aligned by. Halves are every other sentence.

    Args:
        links_by_name: of each sentence, the links by each head or layer.

    Returns: the links of all sentences, and 1 - AER by each name over all of them, with the names
        that were chosen.
    """
    counts = {}
    for name in links_by_name[0]:
        links = [links_of_sentence[name] for links_of_sentence in links_by_name]
        counts[name] = count_links(links, gold).counts[:, :4]

    chosen_links: list[Links] = [[] for _ in links_by_name]
    chosen = []
    for half in (0, 1):
        others = {name: _agreement(table[1 - half :: 2]) for name, table in counts.items()}
        best = max(others, key=lambda name: others[name])
        chosen.append(best)
        for row in range(half, len(links_by_name), 2):
            chosen_links[row] = links_by_name[row][best]

    agreement = {name: round(_agreement(table), 4) for name, table in counts.items()}
    return chosen_links, {"one_minus_aer": agreement, "chosen": chosen}


def _agreement(counts: Floats) -> float:
    """Compute 1 - AER of sentences from their counts (n, 4); 0 where there are no links."""
    sums = counts.sum(axis=0)
    if sums[2] + sums[3] == 0:
        return 0.0
    return float(alignment_agreement(sums))


def count_links(links: list[Links], gold: WordAlignments, suffix: str = "") -> Units:
    """Count the links of one reading; names of counts end in `suffix`."""
    table = []
    for model_links, sure_links, possible_links in zip(
        links, gold.sure, gold.possible, strict=True
    ):
        model_set = set(model_links)
        sure_set = set(sure_links)
        sure_hits = len(model_set & sure_set)
        possible_hits = len(model_set & set(possible_links))
        table.append((sure_hits, possible_hits, len(model_set), len(sure_set), 1))

    hits = (f"sure_hit{suffix}", f"possible_hit{suffix}")
    return Units(
        names=numbered(len(table)),
        columns=(*hits, f"links{suffix}", "sure", "sentences"),
        counts=np.array(table, dtype=np.float64),
        references=digest_of((str(row),) for row in zip(gold.sure, gold.possible, strict=True)),
    )


def _pooled(links: list[Links]) -> set[tuple[int, int, int]]:
    """Return the links of all sentences in one set, each with its sentence, as nltk takes them."""
    return {(index, *link) for index, of_sentence in enumerate(links) for link in of_sentence}


def read_word_alignments(path: Path | str) -> WordAlignments:
    """Read `links.json`; a UserError says that it is faulty or that a sure link is not possible."""
    gold = load(WordAlignments, path)
    hint = "delete the folder and prepare the word alignments again"

    if len(gold.sure) != len(gold.possible):
        problem = f"sure links of {len(gold.sure)} sentences, possible ones of {len(gold.possible)}"
        raise UserError(problem, file=path, hint=hint)
    for number, (sure, possible) in enumerate(zip(gold.sure, gold.possible, strict=True), 1):
        if not set(sure) <= set(possible):
            problem = f"sentence {number}: a sure link is not among the possible ones"
            raise UserError(problem, file=path, hint=hint)

    return gold
