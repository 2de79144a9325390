"""Scores of translations, counted per sentence: perplexity, two kinds of BLEU, chrF, error rates.

`bleu` is BLEU of `multi-bleu.perl`: it takes the words of a task as they are, without smoothing.
`sacrebleu` and `chrf` compare text as people write it; sacreBLEU splits it into words in its own
way, which its signature states. `wer` counts the words of the task that have to be changed; where
these are phonemes it is called `per`. `cer` counts characters of readable text, and `ser` the
outputs that are not the reference, word for word. Where the words of a task are characters, `bleu`
and `wer` are of the words that these spell, and `bleu_characters` is of characters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.languages import Language, are_phrases, visible
from pam.data.text_files import read_lines
from pam.data.tokenizers import Characters
from pam.evaluation.attention import Analysis
from pam.evaluation.compared_text import (
    language_seen,
    reference_notes,
    tell_left_out,
    tell_notes,
    tell_outputs,
)
from pam.evaluation.edits import fewest_edits
from pam.evaluation.inputs import (
    Counts,
    EvalInputs,
    columns_of,
    groups_of_rows,
    read_checked,
    read_predictions,
)
from pam.evaluation.metrics import (
    ORDERS,
    UNPENALIZED_COUNT,
    Floats,
    Units,
    bleu_columns,
    digest_of,
    join,
    metric_of,
    numbered,
    of_beam,
)
from pam.evaluation.records import load
from pam.experiments.run_folder import UNPENALIZED
from pam.runtime.errors import UserError
from pam.tasks.translation.files import OTHER_REFERENCES
from pam.tasks.translation.metrics import CHARACTER_ORDERS, CHRF_OUTPUT, CHRF_REFERENCE

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

OF_BEAMS = ("bleu", "sacrebleu", "chrf")  # by sacreBLEU
ERROR_RATES = ("wer", "cer", "ser", "exact_match")
# names of sides whose words are phonemes
PHONEMES = frozenset({"ipa", "phonemes", "phones", "pronunciation"})
CHARACTERS = "characters"  # name of the tokenizer, and of the counts of its words
# where a length penalty was chosen
OF_PENALTIES = ("bleu_unpenalized", "length_ratio", "length_ratio_unpenalized")
OF_ANALYSIS = ("ppl", "ppl_exact", "token_accuracy")
UNKNOWN = "<unk>"


class Prediction(NamedTuple):
    source: str
    target: str  # the reference
    predicted: str  # in words
    text: str  # as readable text


@dataclass(frozen=True)
class OtherReferences:
    """Further references of each sentence; both lists are empty if every sentence has only one."""

    texts: list[list[str]]  # as people write them
    words: list[list[str]]  # in words

    def only(self, indices: Sequence[int]) -> OtherReferences:
        """Return the further references of some of the sentences."""
        return OtherReferences(
            texts=[self.texts[index] for index in indices if self.texts],
            words=[self.words[index] for index in indices if self.words],
        )

    def texts_of(self, index: int) -> list[str]:
        """Return the further references of a sentence as people write them."""
        if not self.texts:
            return []
        return self.texts[index]

    def words_of(self, index: int) -> list[str]:
        """Return the further references of a sentence in words."""
        if not self.words:
            return []
        return self.words[index]


def count(inputs: EvalInputs) -> Counts:
    """Count what metrics need, per sentence, for every beam; for perplexity where analyzed.

    BLEU is left out, with the reason among the details, where no reference has four words.

    Raises:
        UserError: a file is missing or faulty, or is about other sentences.
    """
    references = read_references(inputs)
    further_symbols = read_other_references(inputs)
    target = Target.of(inputs.prepared, [*references, *chain.from_iterable(further_symbols.texts)])
    further = target.other_references_in_words(further_symbols)

    metrics: dict[str, SacreMetric] = {}
    undefined: dict[str, str] = {}
    parts: list[Units] = []
    names: list[str] = []
    details: dict[str, Any] = {}
    notes = [*target.notes, *reference_notes(references)]
    for path, beam in inputs.by_beam:
        rows_of_symbols = read_checked(path, inputs, Prediction)
        rows = target.rows_in_words(rows_of_symbols)
        # All files have the same targets, so the first one decides how they are compared.
        if not metrics:
            targets = [row.target for row in rows]
            metrics = sacre_metrics(target, [*targets, *chain.from_iterable(further.words)])
            undefined = reasons_undefined(target.language, metrics, targets, references, further)
            reached = _reached(inputs.prepared, rows_of_symbols, references, further, metrics)
            undefined |= _reasons_unreached(reached)
            notes += _reach_notes(
                {name: reached[name] for name in reached if name not in undefined}
            )

        penalized = count_sentences(rows, references, further, metrics, beam)
        parts.append(penalized)
        defined = [name for name in (*OF_BEAMS, *target.error_rates) if name not in undefined]
        if target.is_spelled:
            of_characters = _characters(penalized, rows_of_symbols, further_symbols, target, beam)
            parts.append(of_characters)
            defined.append("bleu_characters")
        if UNPENALIZED in columns_of(path):
            parts.append(_unpenalized(path, penalized, further, target, metrics["bleu"], beam))
            defined += [
                name for name in OF_PENALTIES if name.removesuffix("_unpenalized") not in undefined
            ]
        names += [of_beam(name, beam) for name in defined]

        # Oddities that scores alone do not show.
        predicted_words = " ".join(row.predicted for row in rows_of_symbols).split()
        details[of_beam("unknown_words", beam)] = predicted_words.count(UNKNOWN)
        notes += tell_outputs([row.text for row in rows], beam, details)

    if inputs.analysis is not None:
        parts.append(_likelihoods(inputs.analysis, parts[0]))
        names += OF_ANALYSIS

    tell_left_out(list(dict.fromkeys(undefined.values())), details)
    tell_notes([*notes, *unit_notes(metrics)], details)
    details["signatures"] = signatures_of(metrics)

    def reasons_of(indices: Sequence[int]) -> dict[str, str]:
        return reasons_undefined(
            target.language,
            metrics,
            targets=[targets[index] for index in indices],
            references=[references[index] for index in indices],
            further=further.only(indices),
        )

    units = join(parts)
    groups = groups_of_rows(inputs, units, names, reasons_of)
    return Counts(units, tuple(names), "sentences", details, groups)


def _likelihoods(path: Path, units: Units) -> Units:
    """Read the likelihoods of an analysis as counts of the same sentences as `units`."""
    sentences = load(Analysis, path).sentences
    if len(sentences.nll) != len(units.names):
        raise UserError(
            f"an analysis of {len(sentences.nll)} sentences for predictions of {len(units.names)}",
            file=path,
            hint="analyze the same split that was decoded",
        )

    counts = np.array(
        [sentences.nll, sentences.nll_exact, sentences.tokens, sentences.correct], dtype=np.float64
    )
    columns = ("nll", "nll_exact", "tokens", "tokens_correct")
    return replace(units, columns=columns, counts=counts.T)


# References.


def read_references(inputs: EvalInputs) -> list[str]:
    """Read reference translations as people write them, one a sentence.

    A UserError says that they are not what was prepared.
    """
    return read_lines(inputs.prepared.file(f"{inputs.split}.target.txt"))


def read_other_references(inputs: EvalInputs) -> OtherReferences:
    """Read further references, none where each sentence has one.

    A UserError says that they are not what was prepared.
    """
    prepared = inputs.prepared
    name = OTHER_REFERENCES.format(split=inputs.split)
    if name not in prepared.summary["outputs_sha256"]:
        return OtherReferences([], [])

    records = [json.loads(line) for line in read_lines(prepared.file(name))]
    return OtherReferences(
        texts=[[reference["text"] for reference in record] for record in records],
        words=[[reference["words"] for reference in record] for record in records],
    )


def streams_of(
    references: Sequence[str], further: Sequence[Sequence[str]]
) -> list[Sequence[str | None]]:
    """Arrange references as sacreBLEU takes them: the first of all sentences, the second, ...

    A stream has None where a sentence has no more references. The references of a sentence are
    sorted: of equally good ones chrF counts the first, and their order in the files says nothing.
    """
    if not further:
        return [references]

    of_sentences = [
        sorted([text, *others]) for text, others in zip(references, further, strict=True)
    ]
    most = max(map(len, of_sentences), default=0)
    return [
        [texts[index] if index < len(texts) else None for texts in of_sentences]
        for index in range(most)
    ]


def target_language(data: Prepared) -> str:
    """Return the language translated to; a UserError if the prepared data name none."""
    try:
        return str(data.summary["languages"]["target"])
    except (KeyError, TypeError) as error:
        raise UserError(
            "this data is not of translation",
            file=data.folder / "summary.json",
            hint="name the task's own data",
        ) from error


@dataclass(frozen=True)
class Target:
    """The language of references, and what was done to them before they are compared."""

    language: Language
    lowercased: bool = False
    notes: tuple[str, ...] = ()  # what a reader of the scores has to know of it
    is_spelled: bool = False  # whether the words of the task are characters
    has_phonemes: bool = False  # whether they are phonemes

    @property
    def error_rates(self) -> tuple[str, ...]:
        """The error rates of the target, named by what they count."""
        if self.has_phonemes:
            return tuple("per" if name == "wer" else name for name in ERROR_RATES)
        return ERROR_RATES

    def in_words(self, text: str) -> str:
        """Return a text of the task in words; characters are joined."""
        if not self.is_spelled:
            return text
        return Characters(self.language.code).text(text.split())

    def rows_in_words(self, rows: Sequence[Prediction]) -> list[Prediction]:
        """Return predictions with references and outputs in words."""
        return [
            row._replace(target=self.in_words(row.target), predicted=self.in_words(row.predicted))
            for row in rows
        ]

    def other_references_in_words(self, further: OtherReferences) -> OtherReferences:
        """Return further references in words."""
        words = [list(map(self.in_words, texts)) for texts in further.words]
        return OtherReferences(further.texts, words)

    @classmethod
    def of_texts(cls, code: str, texts: Sequence[str]) -> Target:
        """Return the target of references of a language by its code; empty: none is named."""
        seen, notes = language_seen(code, texts)
        return cls(seen, notes=tuple(notes))

    @classmethod
    def of(cls, data: Prepared, texts: Sequence[str]) -> Target:
        """Return the target of prepared data, whose references are `texts`."""
        code = target_language(data)
        target = cls.of_texts(code, texts)
        layout = data.summary.get("format", {})
        lowercased = bool(layout.get("lowercase"))
        notes = list(target.notes)
        if lowercased:
            notes.append(
                "outputs and references are in small letters, so that their scores are not"
                " comparable with those of text with capitals"
            )
        if layout.get("tokenized"):
            notes.append("references are the words of the data, joined to text")

        has_phonemes = code.lower() in PHONEMES
        tokenizer = layout.get("tokenize", "")
        if isinstance(tokenizer, dict):
            tokenizer = tokenizer.get(code, "")

        return cls(
            language=target.language,
            lowercased=lowercased,
            notes=tuple(notes),
            is_spelled=tokenizer == CHARACTERS and not has_phonemes,
            has_phonemes=has_phonemes,
        )


# Counts of sacreBLEU's metrics and of error rates.


def sacre_metrics(target: Target, targets: Sequence[str] = ()) -> dict[str, SacreMetric]:
    """Make sacreBLEU's metrics, by our names, for references.

    BLEU of the words of the task counts characters where these words, those of `targets`, are whole
    phrases. Signatures say whether the references are in small letters.
    """
    from sacrebleu.metrics import BLEU, CHRF  # optional: inflection is scored without it

    # The first tokenizer whose package is installed.
    sacrebleu: SacreMetric | None = None
    for name in target.language.bleu_tokenizers:
        try:
            sacrebleu = sacrebleu or BLEU(tokenize=name, lowercase=target.lowercased)
        except (ImportError, RuntimeError):  # its package (Japanese, Korean) is not installed
            continue
    assert sacrebleu is not None, "the last tokenizer needs no package"

    # A whole phrase hardly ever matches, so its characters are compared.
    tokenizer = "none"
    if are_phrases(" ".join(targets).split(), target.language):
        tokenizer = "char"
    bleu = BLEU(lowercase=target.lowercased, tokenize=tokenizer, smooth_method="none", force=True)

    return {"bleu": bleu, "sacrebleu": sacrebleu, "chrf": CHRF(lowercase=target.lowercased)}


def signatures_of(metrics: Mapping[str, SacreMetric]) -> dict[str, str]:
    """Return sacreBLEU's signatures, of metrics that have counted already."""
    return {name: str(metrics[name].get_signature()) for name in OF_BEAMS}


def words_compared(metric: SacreMetric, text: str) -> str:
    """Return a text in the words that a kind of BLEU compares, with one space between two."""
    tokenizer: Any = getattr(metric, "tokenizer")  # noqa: B009 -- of BLEU alone
    return str(tokenizer(visible(text)))


def unit_notes(metrics: Mapping[str, SacreMetric]) -> list[str]:
    """Say that BLEU counts characters, if the words of the references are whole phrases."""
    tokenizer: Any = getattr(metrics["bleu"], "tokenizer")  # noqa: B009 -- of BLEU alone
    if tokenizer.signature() != "char":
        return []
    return ["BLEU counts characters, as the words of the references are phrases"]


def statistics(
    metric: SacreMetric,
    outputs: Sequence[str],
    references: Sequence[str],
    further: Sequence[Sequence[str]] = (),
) -> Floats:
    """Return sacreBLEU's own counts per sentence, (sentences, counts).

    Its significance tests take the same counts.

    Args:
        further: further references of each sentence.
    """
    streams: Any = streams_of(
        visible_texts(references), [visible_texts(texts) for texts in further]
    )
    return np.array(
        metric._extract_corpus_statistics(visible_texts(outputs), streams), dtype=np.float64
    )


def visible_texts(texts: Sequence[str]) -> list[str]:
    """Return texts in Unicode NFC, without characters that show nothing."""
    return [visible(text) for text in texts]


def reasons_undefined(
    target_language: Language,
    metrics: Mapping[str, SacreMetric],
    targets: Sequence[str],
    references: Sequence[str],
    further: OtherReferences,
) -> dict[str, str]:
    """Say why metrics are not defined for a test split, by the names of the metrics.

    Such a metric would not give the references themselves the best value.
    """
    reasons = {}
    # BLEU is 0 without any n-gram of four words, even of a reference against itself.
    in_words = [*targets, *chain.from_iterable(further.words)]
    in_text = [*references, *chain.from_iterable(further.texts)]
    for name, texts in (("bleu", in_words), ("sacrebleu", in_text)):
        if not any(len(words_compared(metrics[name], text).split()) >= ORDERS for text in texts):
            label = metric_of(name).label
            reasons[name] = (
                f"{label} is not defined for these references, none of which has four words"
            )

    if are_phrases(" ".join(in_words).split(), target_language):
        reasons["wer"] = (
            f"the word error rate is not defined for phrases: {target_language.name} has no spaces"
            " between words"
        )
    return reasons


# Metrics of readable text. A perfect output has their best value if its words, joined to text, are
# the reference.
OF_TEXT = ("sacrebleu", "chrf", "cer")
# Points by which a perfect output may miss the best value in a metric that is shown.
MOST_MISSED = 2.0
TOLD_MISSED = 0.05  # points from which that is said


def _reached(
    data: Prepared,
    rows: Sequence[Prediction],
    references: Sequence[str],
    further: OtherReferences,
    metrics: Mapping[str, SacreMetric],
) -> dict[str, float]:
    """Compute the values that the words of the references have, joined to text as outputs are.

    Where the tokenizer restores all texts, there are none to compute.

    Args:
        rows: predictions with the words of the task.
    """
    if "tokenize" not in data.summary.get("format", {}):
        return {}

    texts = [data.codec.readable(row.target) for row in rows]
    if visible_texts(texts) == visible_texts(references):
        return {}

    perfect = [
        row._replace(predicted=row.target, text=text) for row, text in zip(rows, texts, strict=True)
    ]
    units = count_sentences(perfect, references, further, metrics, beam=None)
    return {
        name: float(metric.value(units.total(metric.columns)))
        for name, metric in ((name, metric_of(name)) for name in OF_TEXT)
    }


def _missed(name: str, value: float) -> float:
    """Return by how many points a value misses the best one of its metric."""
    return value if metric_of(name).lower_is_better else 100.0 - value


def _reasons_unreached(reached: Mapping[str, float]) -> dict[str, str]:
    """Say why metrics are left out by which perfect outputs are far from the best value."""
    return {
        name: (
            f"{metric_of(name).label} is not defined here: the words of the references, joined to"
            f" text by the task's tokenizer, have {value:.2f}; `tokenize: characters` or `none`"
            " restores texts"
        )
        for name, value in reached.items()
        if _missed(name, value) > MOST_MISSED
    }


def _reach_notes(reached: Mapping[str, float]) -> list[str]:
    """Say which values perfect outputs have, where these are not the best ones."""
    values = [
        f"{metric_of(name).label} {value:.2f}"
        for name, value in reached.items()
        if TOLD_MISSED < _missed(name, value) <= MOST_MISSED
    ]
    if not values:
        return []
    return [
        f"perfect outputs have {', '.join(values)}, as the tokenizer does not restore all texts"
    ]


def _error_rates(
    rows: Sequence[Prediction],
    references: Sequence[str],
    further: OtherReferences,
    beam: int | None,
) -> dict[str, Floats]:
    """Count edits of words and of characters, and outputs that are none of their references.

    Lengths are those of the references that fit best.
    """
    table = []
    for index, (row, reference) in enumerate(zip(rows, references, strict=True)):
        texts_in_words = [row.target, *further.words_of(index)]
        reference_words = [visible(text).split() for text in texts_in_words]
        reference_texts = visible_texts([reference, *further.texts_of(index)])
        predicted_words = visible(row.predicted).split()

        word_edits = fewest_edits(predicted_words, reference_words)
        character_edits = fewest_edits(visible(row.text), reference_texts)
        is_wrong = predicted_words not in reference_words
        table.append((*word_edits, *character_edits, is_wrong))

    names = ("wer_edits", "wer_words", "cer_edits", "cer_characters", "ser_errors")
    counts = np.array(table, dtype=np.float64).T
    return {of_beam(name, beam): column for name, column in zip(names, counts, strict=True)}


def count_sentences(
    rows: Sequence[Prediction],
    references: Sequence[str],
    further: OtherReferences,
    metrics: Mapping[str, SacreMetric],
    beam: int | None,
) -> Units:
    """Count what metrics need of one beam's outputs, per sentence.

    Where a sentence has several references, the one that fits an output is counted, so that counts
    of references are named by the beam too.
    """
    if len(references) != len(rows):
        raise UserError(
            f"{len(references)} reference lines for {len(rows)} sentences",
            hint="prepare the data again",
        )

    beam_of_references = None
    if further.texts:
        beam_of_references = beam
    columns: dict[str, Floats] = {
        "source_words": np.array([len(row.source.split(" ")) for row in rows], np.float64),
        "sentences": np.ones(len(rows)),
    }

    outputs_in_words = [row.predicted for row in rows]
    targets = [row.target for row in rows]
    outputs_in_text = [row.text for row in rows]

    # sacreBLEU's columns are the output's length, the reference's length, and n-grams.
    words_counts = statistics(metrics["bleu"], outputs_in_words, targets, further.words)
    columns |= _bleu_counts("bleu", words_counts, beam)
    columns[of_beam("words", beam_of_references)] = words_counts[:, 1]

    text_counts = statistics(metrics["sacrebleu"], outputs_in_text, references, further.texts)
    columns |= _bleu_counts("sacrebleu", text_counts, beam)
    columns[of_beam("sacrebleu_words", beam_of_references)] = text_counts[:, 1]

    chrf_counts = statistics(metrics["chrf"], outputs_in_text, references, further.texts)
    columns |= _chrf_counts(chrf_counts, beam, beam_of_references)

    columns |= _error_rates(rows, references, further, beam)

    # Units of two systems can be compared where their sources and references are the same.
    compared = []
    for index, (row, reference) in enumerate(zip(rows, references, strict=True)):
        compared.append((row.source, row.target, reference, *further.texts_of(index)))

    return Units(
        names=numbered(len(rows)),
        columns=tuple(columns),
        counts=np.stack(list(columns.values()), axis=1),
        references=digest_of(compared),
    )


def _bleu_counts(name: str, counts: Floats, beam: int | None) -> dict[str, Floats]:
    """Name sacreBLEU's counts (sentences, 10) of outputs: n-grams and the output's length."""
    output_length, _, *ngrams = counts.T
    names = [of_beam(column, beam) for column in bleu_columns(name)]
    return dict(zip(names, [*ngrams, output_length], strict=True))


def _chrf_counts(
    counts: Floats, beam: int | None, beam_of_references: int | None
) -> dict[str, Floats]:
    """Name sacreBLEU's counts (sentences, 18) of character n-grams."""
    by_order = counts.reshape(len(counts), CHARACTER_ORDERS, 3)
    output_ngrams, reference_ngrams, matches = by_order.transpose(2, 1, 0)
    names = [of_beam(column, beam) for column in CHRF_OUTPUT]
    names += [of_beam(column, beam_of_references) for column in CHRF_REFERENCE]
    return dict(zip(names, [*output_ngrams, *matches, *reference_ngrams], strict=True))


def _characters(
    units: Units,
    rows: Sequence[Prediction],
    further: OtherReferences,
    target: Target,
    beam: int | None,
) -> Units:
    """Count n-grams of the characters that are the words of a task, for BLEU of characters."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=target.lowercased, tokenize="none", smooth_method="none", force=True)
    outputs = [row.predicted for row in rows]
    references = [row.target for row in rows]
    counts = statistics(metric, outputs, references, further.words)

    columns = _bleu_counts("bleu_characters", counts, beam)
    columns[of_beam("characters", beam if further.words else None)] = counts[:, 1]
    return replace(units, columns=tuple(columns), counts=np.stack(list(columns.values()), axis=1))


def _unpenalized(
    path: Path,
    penalized: Units,
    further: OtherReferences,
    target: Target,
    metric: SacreMetric,
    beam: int | None,
) -> Units:
    """Count one beam's outputs without the length penalty that was chosen.

    Predictions have them in a column beside the outputs with the penalty.
    """
    outputs, references = zip(*read_predictions(path, (UNPENALIZED, "target")), strict=True)
    outputs_in_words = list(map(target.in_words, outputs))
    references_in_words = list(map(target.in_words, references))
    counts = statistics(metric, outputs_in_words, references_in_words, further.words)

    columns = _bleu_counts("bleu_unpenalized", counts, beam)
    if further.words:
        columns[of_beam(f"{UNPENALIZED_COUNT}words", beam)] = counts[:, 1]

    return replace(
        penalized, columns=tuple(columns), counts=np.stack(list(columns.values()), axis=1)
    )


# BLEU by the length of the source.


# sacreBLEU's significance tests.
