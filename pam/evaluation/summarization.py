"""Summaries: ROUGE, METEOR, and how much of a summary is new, copied or said twice; counted per
summary.

ROUGE is that of the package rouge-score. In English its words are those of the Perl program
ROUGE-1.5.5, with stems, and it agrees with that to some hundredths. In other languages they are the
words of the task, or characters where a language has no spaces and the task's tokenizer finds no
words; there are no stems. ROUGE-L is the summary's (Lin 2004, section 3.2), sentence by sentence:
that of the whole text as one sentence, which some wrappers give, is several points lower. Of
several references the one that fits best counts. Texts are compared in the words of the task,
sources whole: also what a model did not read is no novelty.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.languages import Language, language, sentences_of
from pam.data.text_files import read_lines
from pam.data.tokenizers import SummarizationCodec
from pam.data.vocabulary import Vocabulary
from pam.evaluation import meteor
from pam.evaluation.compared_text import ComparedText, tell_left_out
from pam.evaluation.inputs import Counts, EvalInputs, read_checked
from pam.evaluation.metrics import (
    METEOR_COUNTS,
    METRICS,
    NGRAMS,
    ROUGE,
    Floats,
    Units,
    digest_of,
    join,
    numbered,
    of_beam,
)
from pam.io import UserError, unknown

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
# where a word of a summary comes from; see `origins`
SOURCE, NOVEL, ADOPTED = ("source", "novel", "adopted")
ORIGINS = "origins"  # column of tables that has that of every word, with a space between two
SEED = 2019  # of the sentences of a random extract
Reference = list[str]  # its sentences


class Summary(NamedTuple):
    source: str
    target: str  # the first reference
    predicted: str


def count(inputs: EvalInputs) -> Counts:
    """Counts per summary, of every beam; those of the main beam are named without a beam.

    A metric that is not defined for the language or for these references is left out, with the
    reason among the details; so is METEOR where Java or its package is missing. A UserError names a
    file that is missing or faulty, or is about other texts.
    """
    references, known = read_references(inputs), inputs.prepared.target
    parts, names, details = list[Units](), list[str](), dict[str, Any]()
    text = compared_text(inputs.prepared)
    missing = meteor.reason_left_out(text.language)
    undefined = _undefined(references, text)
    tell_left_out([*undefined.values(), *([missing] if missing else [])], details)
    whole = [[text.joined(" ".join(sentences)) for sentences in own] for own in references]
    for path, beam in inputs.by_beam:
        # Plain `rouge1` is of the main beam, the first.
        beam, rows = beam if parts else None, read_checked(path, inputs, Summary)
        columns = {"summaries": np.ones(len(rows))} | rouge(rows, references, text)
        columns |= wording(rows, known, text.language)
        for name in () if missing else METEORS:
            outputs = [text.joined(row.predicted) for row in rows]
            found = meteor.counts(outputs, whole, name.removeprefix("meteor_"))
            columns |= dict(zip((f"{name}_{one}" for one in METEOR_COUNTS), found.T, strict=True))
        metrics = [
            name for name in (*NAMES, *(() if missing else METEORS)) if name not in undefined
        ]
        names += [of_beam(name, beam) for name in metrics]
        details[of_beam("empty", beam)] = sum(not row.predicted for row in rows)
        given = {column for metric in METRICS.values() for column in metric.given}
        named = [column if column in given else of_beam(column, beam) for column in columns]
        digest = digest_of(
            (*row[:2], json.dumps(own)) for row, own in zip(rows, references, strict=True)
        )
        parts.append(
            Units(
                numbered(len(rows)), tuple(named), np.stack(list(columns.values()), axis=1), digest
            )
        )
    return Counts(join(parts), tuple(names), "summaries", details)


def read_references(inputs: EvalInputs) -> list[list[Reference]]:
    """The references of each text; a UserError if they are not what was prepared."""
    path = inputs.prepared.file(f"{inputs.split}.target.txt")
    try:
        return [json.loads(line) for line in read_lines(path)]
    except ValueError as error:
        hint = "name the prepared data of a task of summarization"
        raise UserError("these are not references of summaries", file=path, hint=hint) from error


def compared_text(data: Prepared) -> ComparedText:
    """How texts of prepared data are compared; a UserError if the data are not of summaries."""
    if not isinstance(data.codec, SummarizationCodec):
        raise UserError(
            "this data is not of summarization", file=data.folder, hint="name the task's own data"
        )
    side = data.codec.target
    layout = data.summary["format"]
    segmented = bool(layout.get("tokenized")) or side.tokenizer.segments
    return ComparedText(
        language(str(layout["language"])), segmented, side if side.tokenizer.spells else None
    )


def _undefined(references: Sequence[Sequence[Reference]], text: ComparedText) -> dict[str, str]:
    """Why a metric is not defined for a test split, by its name: the references themselves would
    have 0.
    """
    longest = max(
        sum(len(text.tokenize(sentence)) for sentence in own)
        for texts in references
        for own in texts
    )
    if longest > 1:
        return {}
    if longest == 1:
        return {
            "rouge2": "ROUGE-2 is not defined for these references, none of which has two words"
        }
    return {
        name: f"{METRICS[name].label} is not defined for these references, which have no words"
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
    """ROUGE-1, -2 and -L as F1, 0 to 1, of each summary against that of its references which fits
    best.
    """
    from rouge_score.rouge_scorer import RougeScorer  # optional: other tasks are scored without it

    # The package's `rougeLsum` is ROUGE-L of a summary, whose sentences are lines.
    names = dict(zip(ROUGE, ("rouge1", "rouge2", "rougeLsum"), strict=True))
    scorer = RougeScorer(list(names.values()), tokenizer=_rouge_tokenizer(text))
    found = dict[str, list[float]]((name, []) for name in names)
    for row, own in zip(rows, references, strict=True):
        sentences = sentences_of(row.predicted.split(), text.language)
        summary = "\n".join(" ".join(sentence) for sentence in sentences)
        scores = [scorer.score("\n".join(reference), summary) for reference in own]
        for name, theirs in names.items():
            found[name].append(max(score[theirs].fmeasure for score in scores))
    return {name: np.array(values) for name, values in found.items()}


def _rouge_tokenizer(text: ComparedText) -> Any:
    """What gives the words that ROUGE compares, as the package asks for it."""
    return PorterWords(text) if text.language.has_rouge_stemmer else text


def wording(
    rows: Sequence[Summary], known: Vocabulary, own_language: Language
) -> dict[str, Floats]:
    """Counts of n-grams and sentences of each summary, and of those that are new, copied whole or
    said twice.

    Words outside the target's vocabulary `known` can only have been copied, `<unk>` apart.
    """
    counted = [_wording(row, known, own_language) for row in rows]
    return {name: np.array([own[name] for own in counted], dtype=np.float64) for name in counted[0]}


def _wording(row: Summary, known: Vocabulary, own_language: Language) -> dict[str, int]:
    words, source = row.predicted.split(), row.source.split()
    counts = {"summary_words": len(words), "reference_words": len(row.target.split())}
    for n in NGRAMS:
        there, own = set(ngrams(source, n)), ngrams(words, n)
        counts |= {f"ngrams_{n}": len(own), f"novel_{n}": sum(ngram not in there for ngram in own)}
        if n == 3:
            counts["repeated"] = sum(times - 1 for times in Counter(own).values())
    sentences, text = list(sentences_of(words, own_language)), f" {row.source} "
    copied = sum(f" {' '.join(sentence)} " in text for sentence in sentences)
    outside = sum(is_outside(word, known) for word in words)
    return counts | {
        "output_sentences": len(sentences),
        "copied_sentences": copied,
        "oov_words": outside,
    }


def is_outside(word: str, known: Vocabulary) -> bool:
    """Whether a model can only have copied a word."""
    return word not in known and word != "<unk>"


def origins(summary: str, source: str, known: Vocabulary) -> list[str]:
    """Of each word of a summary `novel` if its source, which is whole, does not have it; `adopted`
    if the source has it and the target's vocabulary `known` does not; else `source`.
    """
    there = set(source.split())
    adopted = {word for word in there if is_outside(word, known)}
    return [
        NOVEL if word not in there else ADOPTED if word in adopted else SOURCE
        for word in summary.split()
    ]


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n words in a row."""
    return list(zip(*(words[place:] for place in range(n)), strict=False))


# Outputs that no model made, which every table shows with those of models.


@dataclass(frozen=True)
class Control:
    """Outputs that are made of the prepared data alone."""

    label: str  # in tables; `{n}` is the number of sentences of an extract
    # of a row, whose own output is empty, and that number
    output: Callable[[Summary, int, Language], str]
    extracts: bool = True  # whether it takes sentences of the source


def _lead(row: Summary, sentences: int, own_language: Language) -> str:
    return _text(list(sentences_of(row.source.split(), own_language))[:sentences])


def _random(row: Summary, sentences: int, own_language: Language) -> str:
    found = list(sentences_of(row.source.split(), own_language))
    drawn_count = min(sentences, len(found))
    generator = random.Random(f"{SEED} {row.source}")  # noqa: S311
    drawn = generator.sample(range(len(found)), drawn_count)
    return _text([found[index] for index in sorted(drawn)])


def _text(sentences: Sequence[Sequence[str]]) -> str:
    return " ".join(word for sentence in sentences for word in sentence)


CONTROLS = {
    "lead": Control("Lead-{n}", _lead),
    "random": Control("Random-{n}", _random),
    "reference": Control(
        "Reference", lambda row, sentences, own_language: row.target, extracts=False
    ),
}
"""The first sentences of the source, sentences drawn at random, and the reference itself."""

NO_SENTENCES = 0.9  # share of texts of one sentence above which an extract is the whole text


def control_rows(name: str, data: Prepared, split: str) -> tuple[str, list[Summary]]:
    """A control's label, and predictions of a split with their heading; a UserError if there is no
    such control.
    """
    if name not in CONTROLS:
        raise unknown("control", name, list(CONTROLS))
    control = CONTROLS[name]
    sentences = int(data.summary["format"]["lead"])
    own_language = language(str(data.summary["format"]["language"]))
    rows = [Summary(source, target, "") for source, target in data.rows(split)]
    made = [row._replace(predicted=control.output(row, sentences, own_language)) for row in rows]
    label = control.label.format(n=sentences)
    whole = sum(len(list(sentences_of(row.source.split(), own_language))) == 1 for row in rows)
    if control.extracts and whole > NO_SENTENCES * len(rows):
        # In Thai a space ends a sentence, or nothing.
        label += " (no sentence ends were found: the whole text)"
    return label, [Summary(*Summary._fields), *made]
