"""Translation: perplexity, BLEU in two ways, chrF; counted per sentence.

`bleu` is that of `multi-bleu.perl`: the words of a task as they are, no smoothing. `sacrebleu` and
`chrf` are of text as people write it; sacreBLEU splits it into words in its own way and tells in a
signature how. All n-grams are counted by sacreBLEU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric as SacreMetric

from pam.data.dataset import Prepared
from pam.data.text import read_lines
from pam.evaluation import attention as analysis
from pam.evaluation.kinds import Counts, EvalInputs
from pam.evaluation.metrics import (
    CHARACTER_ORDERS,
    CHRF_OUTPUT,
    CHRF_REFERENCE,
    ORDERS,
    Floats,
    Units,
    bleu_columns,
    digest_of,
    join,
    of_beam,
)
from pam.evaluation.predictions import check_against_split, read_predictions
from pam.io import UserError

OF_BEAMS = ("bleu", "sacrebleu", "chrf")
OF_ANALYSIS = ("ppl", "ppl_exact", "token_accuracy")
UNKNOWN = "<unk>"


class Prediction(NamedTuple):
    """One sentence, its reference and what a model made of it, in words and as readable text."""

    source: str
    target: str
    predicted: str
    text: str


def count(evidence: EvalInputs) -> Counts:
    """Counts per sentence, of every beam; perplexity too where there is an analysis.

    Raises:
        UserError: a file is missing or faulty, or is about other sentences.
    """
    references = read_references(evidence)
    metrics = sacre_metrics(target_language(Prepared(evidence.folder)))
    parts: list[Units] = []
    names: list[str] = []
    details: dict[str, Any] = {}
    for path, beam in evidence.by_beam:
        rows = read_checked(path, evidence)
        parts.append(_sentences(rows, references, metrics, beam))
        names += [of_beam(name, beam) for name in OF_BEAMS]
        words = " ".join(row.predicted for row in rows).split()
        details[of_beam("unknown_words", beam)] = words.count(UNKNOWN)
        details[of_beam("empty", beam)] = sum(not row.predicted for row in rows)
    if evidence.analysis is not None:
        parts.append(_forced(evidence.analysis, parts[0]))
        names += OF_ANALYSIS
    details["signatures"] = {name: str(metrics[name].get_signature()) for name in OF_BEAMS}
    return Counts(join(parts), tuple(names), "sentences", details)


def read_checked(path: Path, evidence: EvalInputs) -> list[Prediction]:
    """Reads predictions of the split; an empty one is legal.

    Raises:
        UserError: missing or faulty, or of other sentences.
    """
    rows = [Prediction(*row) for row in read_predictions(path, Prediction._fields)]
    check_against_split(rows, path, evidence.folder / f"{evidence.split}.tsv")
    return rows


def read_references(evidence: EvalInputs) -> list[str]:
    """Reference translations as people write them, one a sentence.

    Raises:
        UserError: the file is missing, or is not what was prepared.
    """
    return read_lines(evidence.file(f"{evidence.split}.target.txt"))


def target_language(data: Prepared) -> str:
    """The language translated to.

    Raises:
        UserError: the summary of the prepared data names none.
    """
    try:
        return str(data.summary["languages"]["target"])
    except (KeyError, TypeError) as error:
        raise UserError(
            "this data is not of translation",
            file=data.folder / "summary.json",
            hint="name the task's own data",
        ) from error


def sacre_metrics(language: str) -> dict[str, SacreMetric]:
    """sacreBLEU's metrics, by our names.

    Args:
        language: of the references; it decides how sacreBLEU splits words. Where the splitter of a
            language is not installed (Japanese, Korean), characters are taken for words.
    """
    try:
        sacrebleu = BLEU(trg_lang=language)
    except (ImportError, RuntimeError):
        sacrebleu = BLEU(tokenize="char")
    words = BLEU(tokenize="none", smooth_method="none", force=True)
    return {"bleu": words, "sacrebleu": sacrebleu, "chrf": CHRF()}


def statistics(metric: SacreMetric, outputs: Sequence[str], references: Sequence[str]) -> Floats:
    """sacreBLEU's own counts per sentence, (sentences, counts), as its significance tests take."""
    counted = metric._extract_corpus_statistics(outputs, [references])
    return np.array(counted, dtype=np.float64)


def _sentences(
    rows: Sequence[Prediction],
    references: Sequence[str],
    metrics: dict[str, SacreMetric],
    beam: int | None,
) -> Units:
    """Counts of one beam's outputs."""
    if len(references) != len(rows):
        raise UserError(
            f"{len(references)} reference lines for {len(rows)} sentences",
            hint="prepare the data again",
        )
    columns: dict[str, Floats] = {
        "source_words": np.array([len(row.source.split(" ")) for row in rows], np.float64),
        "sentences": np.ones(len(rows)),
    }
    in_words = [row.predicted for row in rows], [row.target for row in rows]
    in_text = [row.text for row in rows], references
    for name, reference, texts in (
        ("bleu", "words", in_words),
        ("sacrebleu", "sacrebleu_words", in_text),
    ):
        length, words, *ngrams = statistics(metrics[name], *texts).T
        assert len(ngrams) == 2 * ORDERS
        of_outputs = [of_beam(column, beam) for column in bleu_columns(name)]
        columns |= dict(zip(of_outputs, [*ngrams, length], strict=True))
        columns[reference] = words
    chrf = statistics(metrics["chrf"], *in_text).reshape(len(rows), CHARACTER_ORDERS, 3)
    output, reference_ngrams, match = chrf.transpose(2, 1, 0)
    of_outputs = [of_beam(column, beam) for column in CHRF_OUTPUT]
    columns |= dict(zip(of_outputs, [*output, *match], strict=True))
    columns |= dict(zip(CHRF_REFERENCE, reference_ngrams, strict=True))
    return Units(
        names=tuple(str(number) for number in range(1, len(rows) + 1)),
        columns=tuple(columns),
        counts=np.stack(list(columns.values()), axis=1),
        references=digest_of(
            (*row[:2], reference) for row, reference in zip(rows, references, strict=True)
        ),
    )


def _forced(path: Path, sentences: Units) -> Units:
    """Negative log-likelihoods of an analysis of the same sentences."""
    found = analysis.load(path).sentences
    if len(found.nll) != len(sentences.names):
        raise UserError(
            f"an analysis of {len(found.nll)} sentences for predictions of {len(sentences.names)}",
            file=path,
            hint="analyze the same split that was decoded",
        )
    columns = ("nll", "nll_exact", "tokens", "tokens_correct")
    each = found.nll, found.nll_exact, found.tokens, found.correct
    counts = np.array(each, dtype=np.float64).T
    return Units(sentences.names, columns, counts, sentences.references)
