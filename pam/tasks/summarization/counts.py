"""Scores of summaries: ROUGE, METEOR, and how much is new, copied or repeated; counted per summary.

ROUGE is computed by the package rouge-score. In English its words are those of the Perl program
ROUGE-1.5.5, with stems, and it agrees with that program to some hundredths. In other languages they
are the words of the task, or characters where a language has no spaces and the task's tokenizer
finds no words; there are no stems. ROUGE-L is the summary's (Lin 2004, section 3.2), sentence by
sentence. Some wrappers take the whole text as one sentence, which gives several points less. Of
several references the one that fits best counts. Texts are compared in the words of the task.
Sources are taken whole: what a model did not read is no novelty either.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.languages import Language, language, sentences_of
from pam.data.text_files import read_lines
from pam.data.vocabulary import Vocabulary
from pam.evaluation import meteor
from pam.evaluation.compared_text import (
    ComparedText,
    language_seen,
    reference_notes,
    tell_left_out,
    tell_notes,
    tell_outputs,
)
from pam.evaluation.inputs import Counts, EvalInputs, groups_of_rows, read_checked
from pam.evaluation.metrics import Floats, Units, digest_of, join, names_for_beam, numbered, of_beam
from pam.runtime.errors import UserError, unknown
from pam.tasks.summarization.codec import SummarizationCodec
from pam.tasks.summarization.metrics import METRICS, NGRAMS, ROUGE

NAMES = (
    *ROUGE,
    "novel_words",
    *(f"novel_{n}grams" for n in NGRAMS[1:]),
    "oov_words",
    "copied_sentences",
    "repeated_trigrams",
    "summary_words",
)
METEORS = ("meteor_exact", "meteor_full")
# labels of the words of a summary; see `origins`
SOURCE = "source"
NOVEL = "novel"
ADOPTED = "adopted"
ORIGINS = "origins"  # column of tables that has the label of every word, with a space between two
SEED = 2019  # of the sentences of a random extract
Reference = list[str]  # its sentences


class Summary(NamedTuple):
    source: str
    target: str  # the first reference
    predicted: str


def count(inputs: EvalInputs) -> Counts:
    """Count what metrics need, per summary, for every beam.

    Counts of the main beam are named without a beam. A metric that is not defined for the language
    or for these references is left out, with the reason among the details; so is METEOR where Java
    or its package is missing.

    Raises:
        UserError: a file is missing or faulty, or is about other texts.
    """
    prepared = inputs.prepared
    references = read_references(inputs)
    vocabulary = prepared.target
    text = compared_text(prepared)
    sentences = [sentence for texts in references for words in texts for sentence in words]
    seen, notes = language_seen(text.language.code, sentences)
    text = replace(text, language=seen)
    whole_references = [
        [text.joined(" ".join(sentences)) for sentences in texts] for texts in references
    ]
    notes += reference_notes(chain.from_iterable(whole_references))

    details: dict[str, Any] = {}
    undefined = _undefined(references, text)
    reasons = list(undefined.values())
    meteors: tuple[str, ...] = METEORS
    if meteor_reason := meteor.reason_left_out(text.language):
        meteors = ()
        reasons.append(meteor_reason)
    tell_left_out(reasons, details)

    parts: list[Units] = []
    names: list[str] = []
    for path, path_beam in inputs.by_beam:
        # Plain `rouge1` is of the main beam, the first.
        beam = path_beam if parts else None
        rows = read_checked(path, inputs, Summary)

        columns = {"summaries": np.ones(len(rows))}
        columns |= rouge(rows, references, text)
        columns |= wording(rows, vocabulary, text.language)
        columns["reference_words"] = reference_lengths(rows, references)
        outputs = [text.joined(row.predicted) for row in rows]
        for name in meteors:
            kind = name.removeprefix("meteor_")
            columns |= meteor.named_counts(name, outputs, whole_references, kind)

        compared = [
            (row.source, row.target, json.dumps(texts))
            for row, texts in zip(rows, references, strict=True)
        ]
        parts.append(
            Units(
                names=numbered(len(rows)),
                columns=names_for_beam(columns, beam, METRICS),
                counts=np.stack(list(columns.values()), axis=1),
                references=digest_of(compared),
            )
        )
        names += [of_beam(name, beam) for name in (*NAMES, *meteors) if name not in undefined]
        notes += tell_outputs(outputs, beam, details)

    tell_notes(notes, details)

    def reasons_of(indices: Sequence[int]) -> dict[str, str]:
        return _undefined([references[index] for index in indices], text)

    units = join(parts)
    groups = groups_of_rows(inputs, units, names, reasons_of)
    return Counts(units, tuple(names), "summaries", details, groups)


def read_references(inputs: EvalInputs) -> list[list[Reference]]:
    """Read the references of each text; a UserError if they are not what was prepared."""
    path = inputs.prepared.file(f"{inputs.split}.target.txt")
    try:
        return [json.loads(line) for line in read_lines(path)]
    except ValueError as error:
        hint = "name the prepared data of a task of summarization"
        raise UserError("these are not references of summaries", file=path, hint=hint) from error


def compared_text(data: Prepared) -> ComparedText:
    """Return how texts of prepared data are compared; a UserError if they are not of summaries."""
    if not isinstance(data.codec, SummarizationCodec):
        raise UserError(
            "this data is not of summarization", file=data.folder, hint="name the task's own data"
        )

    side = data.codec.target
    layout = data.summary["format"]
    return ComparedText(
        language=language(str(layout["language"])),
        segmented=bool(layout.get("tokenized")) or side.tokenizer.segments,
        spelled=side if side.tokenizer.spells else None,
    )


def _undefined(references: Sequence[Sequence[Reference]], text: ComparedText) -> dict[str, str]:
    """Say why metrics are not defined for a test split, by the names of the metrics.

    Such a metric would give the references themselves 0.
    """
    longest = 0
    for texts in references:
        for sentences in texts:
            longest = max(longest, sum(len(text.tokenize(sentence)) for sentence in sentences))

    if longest > 1:
        return {}
    if longest == 1:
        return {
            "rouge2": "ROUGE-2 is not defined for these references, none of which has two words"
        }
    labels = {metric.name: metric.label for metric in METRICS}
    return {
        name: f"{labels[name]} is not defined for these references, which have no words"
        for name in ROUGE
    }


class PorterWords:
    """English words as the Perl program ROUGE-1.5.5 splits and stems them."""

    def __init__(self, text: ComparedText) -> None:
        from rouge_score.tokenizers import DefaultTokenizer

        self._text = text
        self._tokenizer = DefaultTokenizer(use_stemmer=True)

    def tokenize(self, text: str) -> list[str]:
        words: list[str] = self._tokenizer.tokenize(self._text.joined(text))
        return words


def rouge(
    rows: Sequence[Summary], references: Sequence[Sequence[Reference]], text: ComparedText
) -> dict[str, Floats]:
    """Compute ROUGE-1, -2 and -L of each summary, as F1, 0 to 1.

    The best value over the references of a summary counts.
    """
    from rouge_score.rouge_scorer import RougeScorer  # optional: other tasks are scored without it

    # The package's `rougeLsum` is ROUGE-L of a summary, whose sentences are lines.
    package_names = dict(zip(ROUGE, ("rouge1", "rouge2", "rougeLsum"), strict=True))
    scorer = RougeScorer(list(package_names.values()), tokenizer=_rouge_tokenizer(text))

    values: dict[str, list[float]] = {name: [] for name in ROUGE}
    for row, texts in zip(rows, references, strict=True):
        sentences = sentences_of(row.predicted.split(), text.language)
        summary = "\n".join(" ".join(sentence) for sentence in sentences)
        scores = [scorer.score("\n".join(reference), summary) for reference in texts]
        for name, package_name in package_names.items():
            values[name].append(max(score[package_name].fmeasure for score in scores))

    return {name: np.array(column) for name, column in values.items()}


def _rouge_tokenizer(text: ComparedText) -> Any:
    """Return an object whose `tokenize` gives the words that ROUGE compares."""
    if text.language.has_rouge_stemmer:
        return PorterWords(text)
    return text


def wording(
    rows: Sequence[Summary], vocabulary: Vocabulary, text_language: Language
) -> dict[str, Floats]:
    """Count n-grams and sentences of each summary, and those that are new, copied or repeated.

    Words outside the target's vocabulary can only have been copied, `<unk>` apart.
    """
    table = [_wording(row, vocabulary, text_language) for row in rows]
    return {name: np.array([counts[name] for counts in table], np.float64) for name in table[0]}


def _wording(row: Summary, vocabulary: Vocabulary, text_language: Language) -> dict[str, int]:
    """Count the parts of one summary by the names of the counts."""
    words = row.predicted.split()
    source_words = row.source.split()
    counts = {"summary_words": len(words)}

    for n in NGRAMS:
        source_ngrams = set(ngrams(source_words, n))
        summary_ngrams = ngrams(words, n)
        counts[f"ngrams_{n}"] = len(summary_ngrams)
        counts[f"novel_{n}"] = sum(ngram not in source_ngrams for ngram in summary_ngrams)
        if n == 3:
            counts["repeated"] = sum(times - 1 for times in Counter(summary_ngrams).values())

    # With spaces around it a sentence matches whole words only, at both ends of the source too.
    source = f" {row.source} "
    sentences = list(sentences_of(words, text_language))
    counts["output_sentences"] = len(sentences)
    counts["copied_sentences"] = sum(f" {' '.join(sentence)} " in source for sentence in sentences)
    counts["oov_words"] = sum(is_outside(word, vocabulary) for word in words)

    return counts


def reference_lengths(rows: Sequence[Summary], references: Sequence[Sequence[Reference]]) -> Floats:
    """Return the words of each text's reference; of several references their mean."""
    lengths: list[float] = []
    for row, texts in zip(rows, references, strict=True):
        if len(texts) == 1:
            lengths.append(len(row.target.split()))
        else:
            words = sum(len(sentence.split()) for sentences in texts for sentence in sentences)
            lengths.append(words / len(texts))
    return np.array(lengths, np.float64)


def is_outside(word: str, vocabulary: Vocabulary) -> bool:
    """Tell whether a model can only have copied a word."""
    return word not in vocabulary and word != "<unk>"


def origins(summary: str, source: str, vocabulary: Vocabulary) -> list[str]:
    """Label each word of a summary by its origin.

    Args:
        source: the whole source.
        vocabulary: the target's.

    Returns:
        For each word `novel` if the source does not contain it, `adopted` if the source contains
        it and the vocabulary does not, else `source`.
    """
    source_words = set(source.split())

    labels = []
    for word in summary.split():
        if word not in source_words:
            labels.append(NOVEL)
        elif is_outside(word, vocabulary):
            labels.append(ADOPTED)
        else:
            labels.append(SOURCE)

    return labels


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """List all runs of n words."""
    return list(zip(*(words[start:] for start in range(n)), strict=False))


# Outputs that no model made, which every table shows with those of models.


@dataclass(frozen=True)
class Control:
    """Outputs that are made of the prepared data alone."""

    label: str  # in tables; `{n}` is the number of sentences of an extract
    # from a row without an output, that number, and the language, to the output
    output: Callable[[Summary, int, Language], str]
    extracts: bool = True  # whether it takes sentences of the source


def _lead(row: Summary, extract_length: int, text_language: Language) -> str:
    """Return the first sentences of the source."""
    sentences = list(sentences_of(row.source.split(), text_language))
    return _text(sentences[:extract_length])


def _random(row: Summary, extract_length: int, text_language: Language) -> str:
    """Return sentences of the source that are drawn at random, the same each time."""
    sentences = list(sentences_of(row.source.split(), text_language))
    generator = random.Random(f"{SEED} {row.source}")  # noqa: S311
    drawn = generator.sample(range(len(sentences)), min(extract_length, len(sentences)))
    return _text([sentences[index] for index in sorted(drawn)])


def _reference(row: Summary, extract_length: int, text_language: Language) -> str:
    """Return the reference itself."""
    return row.target


def _text(sentences: Sequence[Sequence[str]]) -> str:
    return " ".join(word for sentence in sentences for word in sentence)


CONTROLS = {
    "lead": Control("Lead-{n}", _lead),
    "random": Control("Random-{n}", _random),
    "reference": Control("Reference", _reference, extracts=False),
}

NO_SENTENCES = 0.9  # share of texts of one sentence above which an extract is the whole text


def control_rows(name: str, data: Prepared, split: str) -> tuple[str, list[Summary]]:
    """Return a control's label, and its predictions of a split with their heading.

    A UserError says that there is no such control.
    """
    if name not in CONTROLS:
        raise unknown("control", name, list(CONTROLS))

    control = CONTROLS[name]
    extract_length = int(data.summary["format"]["lead"])
    text_language = language(str(data.summary["format"]["language"]))

    rows = []
    single_sentences = 0
    for source, target in data.rows(split):
        row = Summary(source, target, predicted="")
        output = control.output(row, extract_length, text_language)
        rows.append(row._replace(predicted=output))
        single_sentences += len(list(sentences_of(source.split(), text_language))) == 1

    label = control.label.format(n=extract_length)
    # In Thai a space ends a sentence, or nothing does.
    if control.extracts and single_sentences > NO_SENTENCES * len(rows):
        label += " (no sentence ends were found: the whole text)"

    heading = Summary(*Summary._fields)
    return label, [heading, *rows]
