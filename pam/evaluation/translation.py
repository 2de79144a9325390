"""Translation: perplexity, BLEU in two ways, chrF, error rates of words and characters; counted per
sentence.

`bleu` is that of `multi-bleu.perl`: the words of a task as they are, no smoothing. `sacrebleu` and
`chrf` are of text as people write it; sacreBLEU splits it into words in its own way, which its
signature states, and counts all n-grams. `wer` counts the words of the task that have to be
changed, so that it is the error rate of phonemes where these are the words; `cer` counts characters
of readable text, and `ser` outputs that are not the reference, word for word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field

from pam.data.dataset import Prepared
from pam.data.languages import are_phrases, composed, language
from pam.data.text_files import read_lines
from pam.data.translation import OTHER_REFERENCES
from pam.evaluation.attention import Analysis
from pam.evaluation.compared_text import tell_left_out
from pam.evaluation.edits import fewest_edits
from pam.evaluation.inputs import (
    Counts,
    EvalInputs,
    columns_of,
    load,
    read_checked,
    read_predictions,
)
from pam.evaluation.metrics import (
    CHARACTER_ORDERS,
    CHRF_OUTPUT,
    CHRF_REFERENCE,
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
from pam.io import Strict, UserError
from pam.run_folder import UNPENALIZED, RunFolder

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

OF_BEAMS = ("bleu", "sacrebleu", "chrf")  # by sacreBLEU
ERROR_RATES = ("wer", "cer", "ser")
# where a length penalty was chosen
OF_PENALTIES = ("bleu_unpenalized", "length_ratio", "length_ratio_unpenalized")
OF_ANALYSIS = ("ppl", "ppl_exact", "token_accuracy")
UNKNOWN = "<unk>"
LENGTHS = (10, 20, 30, 40, 50)
SACREBLEU_RESAMPLES = (
    1_000  # sacreBLEU's default; its memory grows with resamples times sentences: 0.5 GB for 7,000
)


class Prediction(NamedTuple):
    source: str
    target: str  # the reference
    predicted: str  # in words
    text: str  # as readable text


def count(inputs: EvalInputs) -> Counts:
    """Counts per sentence, of every beam; perplexity too where there is an analysis.

    BLEU is left out, with the reason among the details, where no reference has four words. A
    UserError names a file that is missing or faulty, or is about other sentences.
    """
    references = read_references(inputs)
    others = read_other_references(inputs)
    code = target_language(inputs.prepared)
    metrics: dict[str, SacreMetric] = {}
    undefined: dict[str, str] = {}
    parts, names, details = list[Units](), list[str](), dict[str, Any]()
    for path, beam in inputs.by_beam:
        rows = read_checked(path, inputs, Prediction)
        if not metrics:
            targets = [row.target for row in rows]
            metrics = sacre_metrics(code, targets)
            undefined = _undefined(code, metrics, targets, references, others)
        parts.append(_sentences(rows, references, others, metrics, beam))
        names += [
            of_beam(name, beam) for name in (*OF_BEAMS, *ERROR_RATES) if name not in undefined
        ]
        if UNPENALIZED in columns_of(path):
            parts.append(_unpenalized(path, parts[-1], others, metrics["bleu"], beam))
            defined = [
                name for name in OF_PENALTIES if name.removesuffix("_unpenalized") not in undefined
            ]
            names += [of_beam(name, beam) for name in defined]
        words = " ".join(row.predicted for row in rows).split()
        details[of_beam("unknown_words", beam)] = words.count(UNKNOWN)
        details[of_beam("empty", beam)] = sum(not row.predicted for row in rows)
    if inputs.analysis is not None:
        found, own = load(Analysis, inputs.analysis).sentences, parts[0]
        if len(found.nll) != len(own.names):
            problem = (
                f"an analysis of {len(found.nll)} sentences for predictions of {len(own.names)}"
            )
            raise UserError(
                problem, file=inputs.analysis, hint="analyze the same split that was decoded"
            )
        likelihoods = np.array(
            [found.nll, found.nll_exact, found.tokens, found.correct], dtype=np.float64
        ).T
        parts.append(
            replace(
                own, columns=("nll", "nll_exact", "tokens", "tokens_correct"), counts=likelihoods
            )
        )
        names += OF_ANALYSIS
    tell_left_out(list(dict.fromkeys(undefined.values())), details)
    details["signatures"] = {name: str(metrics[name].get_signature()) for name in OF_BEAMS}
    return Counts(join(parts), tuple(names), "sentences", details)


def read_references(inputs: EvalInputs) -> list[str]:
    """Reference translations as people write them, one a sentence; a UserError if they are not what
    was prepared.
    """
    return read_lines(inputs.prepared.file(f"{inputs.split}.target.txt"))


@dataclass(frozen=True)
class OtherReferences:
    """Further references of each sentence, of any number, where some sentences have several."""

    texts: list[list[str]]  # as people write them
    words: list[list[str]]  # in words

    def of_sentence(self, number: int) -> list[str]:
        return self.texts[number] if self.texts else []


def read_other_references(inputs: EvalInputs) -> OtherReferences:
    """Further references, none where each sentence has one; a UserError if they are not what was
    prepared.
    """
    prepared = inputs.prepared
    name = OTHER_REFERENCES.format(split=inputs.split)
    if name not in prepared.summary["outputs_sha256"]:
        return OtherReferences([], [])
    records = [json.loads(line) for line in read_lines(prepared.file(name))]
    texts = [[reference["text"] for reference in record] for record in records]
    words = [[reference["words"] for reference in record] for record in records]
    return OtherReferences(texts, words)


def streams_of(
    references: Sequence[str], others: Sequence[Sequence[str]]
) -> list[Sequence[str | None]]:
    """References as sacreBLEU takes them: the first of all sentences, the second, and so on; None
    where none is.
    """
    most = max(map(len, others), default=0)
    further = [
        [own[place] if place < len(own) else None for own in others] for place in range(most)
    ]
    return [references, *further]


def target_language(data: Prepared) -> str:
    """The language translated to; a UserError if the summary of the prepared data names none."""
    try:
        return str(data.summary["languages"]["target"])
    except (KeyError, TypeError) as error:
        file, hint = data.folder / "summary.json", "name the task's own data"
        raise UserError("this data is not of translation", file=file, hint=hint) from error


def sacre_metrics(code: str, targets: Sequence[str] = ()) -> dict[str, SacreMetric]:
    """sacreBLEU's metrics, by our names, for a language by its code.

    BLEU of the words of the task counts characters where these words, those of `targets`, are whole
    phrases.
    """
    from sacrebleu.metrics import BLEU, CHRF  # optional: inflection is scored without it

    known = language(code)
    sacrebleu: SacreMetric | None = None
    for name in known.bleu_tokenizers:
        try:
            sacrebleu = sacrebleu or BLEU(tokenize=name)
        except (ImportError, RuntimeError):  # its package (Japanese, Korean) is not installed
            continue
    assert sacrebleu is not None, "the last tokenizer needs no package"
    kind = "char" if are_phrases(" ".join(targets).split(), known) else "none"
    words = BLEU(tokenize=kind, smooth_method="none", force=True)
    return {"bleu": words, "sacrebleu": sacrebleu, "chrf": CHRF()}


def statistics(
    metric: SacreMetric,
    outputs: Sequence[str],
    references: Sequence[str],
    others: Sequence[Sequence[str]] = (),
) -> Floats:
    """sacreBLEU's own counts per sentence, (sentences, counts), as its significance tests take;
    `others` are further references of each sentence.
    """
    streams: Any = streams_of(_composed(references), [_composed(own) for own in others])
    return np.array(
        metric._extract_corpus_statistics(_composed(outputs), streams), dtype=np.float64
    )


def _composed(texts: Sequence[str]) -> list[str]:
    return [composed(text) for text in texts]


def _undefined(
    code: str,
    metrics: Mapping[str, SacreMetric],
    targets: Sequence[str],
    references: Sequence[str],
    others: OtherReferences,
) -> dict[str, str]:
    """Why a metric is not defined for a test split, by its name: the references themselves would
    not have the best.
    """
    found = {}
    in_words = [*targets, *chain.from_iterable(others.words)]
    in_text = [*references, *chain.from_iterable(others.texts)]
    for name, texts in (("bleu", in_words), ("sacrebleu", in_text)):
        tokenizer: Any = getattr(metrics[name], "tokenizer")  # noqa: B009 -- of BLEU alone
        if not any(len(tokenizer(composed(text)).split()) >= ORDERS for text in texts):
            label = metric_of(name).label
            found[name] = (
                f"{label} is not defined for these references, none of which has four words"
            )
    known = language(code)
    if are_phrases(" ".join(targets).split(), known):
        found["wer"] = (
            f"the word error rate is not defined for phrases: {known.name} has no spaces between"
            " words"
        )
    return found


def _error_rates(
    rows: Sequence[Prediction], references: Sequence[str], others: OtherReferences, beam: int | None
) -> dict[str, Floats]:
    """Edits of words and of characters that outputs need, lengths of the references that fit best,
    and outputs that are none of their references.
    """
    table = []
    for number, (row, reference) in enumerate(zip(rows, references, strict=True)):
        words_of_others = others.words[number] if others.words else []
        in_words = [composed(text).split() for text in (row.target, *words_of_others)]
        in_text = _composed([reference, *others.of_sentence(number)])
        predicted = composed(row.predicted).split()
        by_word = fewest_edits(predicted, in_words)
        by_character = fewest_edits(composed(row.text), in_text)
        table.append((*by_word, *by_character, predicted not in in_words))
    names = ("wer_edits", "wer_words", "cer_edits", "cer_characters", "ser_errors")
    counts = np.array(table, dtype=np.float64).T
    return {of_beam(name, beam): column for name, column in zip(names, counts, strict=True)}


def _sentences(
    rows: Sequence[Prediction],
    references: Sequence[str],
    others: OtherReferences,
    metrics: dict[str, SacreMetric],
    beam: int | None,
) -> Units:
    """Counts of one beam's outputs. Of several references those count that fit an output, so that
    counts of references are named by the beam too.
    """
    of_reference = beam if others.texts else None
    if len(references) != len(rows):
        raise UserError(
            f"{len(references)} reference lines for {len(rows)} sentences",
            hint="prepare the data again",
        )
    columns: dict[str, Floats] = {
        "source_words": np.array([len(row.source.split(" ")) for row in rows], np.float64),
        "sentences": np.ones(len(rows)),
    }
    in_words = [row.predicted for row in rows], [row.target for row in rows], others.words
    in_text = [row.text for row in rows], references, others.texts
    for name, reference, texts in (
        ("bleu", "words", in_words),
        ("sacrebleu", "sacrebleu_words", in_text),
    ):
        length, words, *ngrams = statistics(metrics[name], *texts).T
        names = [of_beam(column, beam) for column in bleu_columns(name)]
        columns |= dict(zip(names, [*ngrams, length], strict=True)) | {
            of_beam(reference, of_reference): words
        }
    chrf = statistics(metrics["chrf"], *in_text).reshape(len(rows), CHARACTER_ORDERS, 3)
    output, reference_ngrams, match = chrf.transpose(2, 1, 0)
    names = [*(of_beam(column, beam) for column in CHRF_OUTPUT)]
    names += [of_beam(column, of_reference) for column in CHRF_REFERENCE]
    columns |= dict(zip(names, [*output, *match, *reference_ngrams], strict=True))
    columns |= _error_rates(rows, references, others, beam)
    pairs = zip(rows, references, strict=True)
    digest = digest_of(
        (*row[:2], text, *others.of_sentence(number)) for number, (row, text) in enumerate(pairs)
    )
    return Units(
        numbered(len(rows)), tuple(columns), np.stack(list(columns.values()), axis=1), digest
    )


def _unpenalized(
    path: Path, penalized: Units, others: OtherReferences, metric: SacreMetric, beam: int | None
) -> Units:
    """Counts of one beam's outputs without the length penalty that was chosen, which are beside
    those with it.
    """
    outputs, references = zip(*read_predictions(path, (UNPENALIZED, "target")), strict=True)
    length, words, *ngrams = statistics(metric, outputs, references, others.words).T
    columns = [of_beam(column, beam) for column in bleu_columns("bleu_unpenalized")]
    counts = [*ngrams, length]
    if others.words:
        columns.append(of_beam(f"{UNPENALIZED_COUNT}words", beam))
        counts.append(words)
    return replace(penalized, columns=tuple(columns), counts=np.stack(counts, axis=1))


class LengthBin(NamedTuple):
    low: int  # words, of the shortest sentence
    high: int | None  # all are shorter; None: without end
    sentences: int
    value: float | None  # BLEU; None: there are no sentences


def by_length(units: Units, beam: int | None, edges: Sequence[int] = LENGTHS) -> list[LengthBin]:
    """BLEU on sentences of each length in source words (as Luong et al. 2015, Figure 6).

    The `units` are those that `count` returns. A bin ends and the next begins at each of the
    `edges`, ascending.
    """
    known = metric_of(of_beam("bleu", beam))
    lengths, counts = units.of(["source_words"])[:, 0], units.of(known.columns)
    bins = []
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        chosen = (lengths >= low) & (lengths < (np.inf if high is None else high))
        value = float(known.value(counts[chosen].sum(axis=0))) if chosen.any() else None
        bins.append(LengthBin(low, high, int(chosen.sum()), value))
    return bins


class Test(Strict):
    """One model against the baseline by one metric, scores of the whole set, 0 to 100."""

    model: str
    metric: str = Field(description="named as in `scores.json`")
    score: float
    baseline: float
    p: float = Field(
        description="by sacreBLEU; `pam.evaluation.bootstrap.p_value` says how it differs from ours"
    )
    signature: str = Field(description="sacreBLEU's, of the metric and the test")


class Significance(Strict):
    """The content of `significance/seed<k>.json`."""

    task: str
    seed: int
    baseline: str
    tests: list[Test]


def paired_bootstrap(
    baseline: Path,
    systems: Mapping[str, Path],
    data: Path,
    split: str = "test",
    metrics: Sequence[str] = ("sacrebleu", "chrf"),
    beam: int | None = None,
    resamples: int = SACREBLEU_RESAMPLES,
) -> list[Test]:
    """Tests models against a baseline by sacreBLEU's own paired bootstrap, on the same resamples of
    the sentences.

    For each metric each model, in the orders given. A UserError names a file that is faulty or of
    other sentences.

    Args:
        baseline: its file of predictions; systems: name of each model to its file; data: the task's
            prepared folder.
        metrics: of `bleu`, `sacrebleu` and `chrf`; beam: of the predictions, for the metrics'
            names.
    """
    from sacrebleu.significance import PairedTest

    inputs = EvalInputs(data=data, split=split)
    references = read_references(inputs)
    others = read_other_references(inputs)
    outputs = {
        name: read_checked(path, inputs, Prediction)
        for name, path in {"": baseline, **systems}.items()
    }
    known = sacre_metrics(target_language(inputs.prepared), [row.target for row in outputs[""]])
    tested = []
    for metric in metrics:
        in_words = metric == "bleu"
        texts = list[tuple[str, Sequence[str]]]()
        for name, rows in outputs.items():
            texts.append(
                (name, _composed([row.predicted if in_words else row.text for row in rows]))
            )
        targets: Any = streams_of(references, others.texts)
        if in_words:
            targets = streams_of([row.target for row in outputs[""]], others.words)
        name = of_beam(metric, beam)
        # One metric a test: sacreBLEU keys results by names that two of our metrics share.
        test = PairedTest(
            texts, {name: known[metric]}, targets, test_type="bs", n_samples=resamples
        )
        signatures, found = test()
        ((key, signature),) = signatures.items()
        results: list[Any] = found[key]
        for model, result in zip(systems, results[1:], strict=True):
            scores = {
                "score": float(result.score),
                "baseline": float(results[0].score),
                "p": float(result.p_value),
            }
            tested.append(Test(model=model, metric=name, signature=str(signature), **scores))
    return tested


def compare_runs(
    baseline: RunFolder, systems: Sequence[RunFolder], split: str = "test"
) -> Significance:
    """Tests the outputs of runs, with their main beam, against those of the baseline's run; see
    `paired_bootstrap`.
    """
    known, *others = (folder.load() for folder in (baseline, *systems))
    beam = known.decoding.beam
    predictions = {
        run.model: one.predictions(split, beam) for run, one in zip(others, systems, strict=True)
    }
    own, data = baseline.predictions(split, beam), baseline.data(split)
    tests = paired_bootstrap(own, predictions, data, split, OF_BEAMS, beam)
    return Significance(task=known.task, seed=known.seed, baseline=known.model, tests=tests)
