"""Scores of outputs in plain text files, one output a line, whatever system wrote them.

Outputs are counted as those of a task of translation are, and their intervals and paired gains come
from the same bootstrap. The words are those between spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from pydantic import Field

from pam.data.groups import no_group, rows_by_group
from pam.data.languages import LANGUAGE, language
from pam.data.subword_marks import MarkedLines, joined
from pam.data.text_files import Line, cleaned, plain_lines
from pam.evaluation import bootstrap
from pam.evaluation.compared_text import blank_notes
from pam.evaluation.gleu import COLUMNS as GLEU_COLUMNS
from pam.evaluation.gleu import gleu_counts
from pam.evaluation.metrics import METRICS, Metric, Units, join
from pam.evaluation.scores import Value
from pam.evaluation.scoring import values_of
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError, unknown
from pam.tasks.translation.counts import (
    OF_BEAMS,
    OtherReferences,
    Prediction,
    Target,
    count_sentences,
    reasons_undefined,
    sacre_metrics,
    signatures_of,
    unit_notes,
    words_compared,
)

METRIC_NAMES = ("bleu", "sacrebleu", "chrf", "exact_match", "wer", "cer")
"""The metrics that are computed unless others are asked for."""
GLEU = "gleu"
JOIN_OPTION = "--join-subwords"

OFFERED = {
    name: METRICS[name]
    for name in (*OF_BEAMS, GLEU, "exact_match", "wer", "cer", "ser", "length_ratio")
}


class Gain(Strict):
    """The paired difference to the baseline by one metric, positive where the baseline is worse."""

    value: float
    low: float
    high: float
    p: float = Field(description="of the hypothesis that both do equally well, two-sided")


class TextScores(Strict):
    """The scores of a file of outputs, by metric."""

    language: str = Field(
        description="the code that was given, or that the script tells; empty: any with spaces"
    )
    metrics: dict[str, Value]
    baseline: dict[str, Value] = Field(description="scores of the baseline, where there is one")
    gains: dict[str, Gain]
    groups: dict[str, dict[str, Value]] = Field({}, description="scores by group and metric")
    signatures: dict[str, str] = Field(description="sacreBLEU's")
    left_out: dict[str, str] = Field(description="metrics that are not defined, with the reasons")
    notes: list[str] = Field([], description="what a reader of the scores has to know")
    bootstrap: dict[str, float] = Field(description="resamples, seed and level of the intervals")


def score_texts(
    hypotheses: Path,
    references: Sequence[Path],
    baseline: Path | None = None,
    code: str = "",
    metrics: Sequence[str] = METRIC_NAMES,
    join_subwords: bool = False,
    groups: Path | None = None,
) -> TextScores:
    """Score a file of outputs against files of references.

    Files are UTF-8 text, compressed or not, with one output or reference a line.

    Args:
        hypotheses: the outputs.
        references: one file or several. A line may be empty in all of them but one.
        baseline: outputs of another system for the same lines.
        code: the language's, such as `de` or `zh-Hant`; empty: the one that the script of the
            references tells, or any language with spaces.
        metrics: names of `OFFERED`.
        join_subwords: whether texts in subwords are joined before they are compared.
        groups: a file with the group of each line, such as `seen`, which are scored apart too.

    Raises:
        UserError: a file is faulty or has another number of lines than the hypotheses, a line has
            no reference, or there is no such language or metric.
    """
    _check_language(code)
    for name in metrics:
        if name not in OFFERED:
            raise unknown("metric", name, list(OFFERED))

    outputs = [line.text for line in plain_lines(hypotheses)]
    reference_texts = _read_references(references, len(outputs))
    baseline_outputs: list[str] = []
    if baseline is not None:
        baseline_outputs = [line.text for line in _read_as_many(baseline, len(outputs))]

    if join_subwords:
        outputs = joined(outputs)
        baseline_outputs = joined(baseline_outputs)
        reference_texts = _joined(reference_texts)

    counter = _Counter(reference_texts, code, with_gleu=GLEU in metrics)
    undefined = counter.reasons_undefined()
    defined = [OFFERED[name] for name in metrics if name not in undefined]

    units = counter.count(outputs)
    values = values_of(units, defined)
    notes = [*counter.target.notes, *_notes_of(outputs, hypotheses)]

    baseline_values: dict[str, Value] = {}
    gains: dict[str, Gain] = {}
    if baseline is not None:
        baseline_units = counter.count(baseline_outputs)
        baseline_values = values_of(baseline_units, defined)
        gains = gains_of(units, baseline_units, defined)
        notes += _notes_of(baseline_outputs, baseline)

    values_by_group: dict[str, dict[str, Value]] = {}
    if groups is not None:
        group_lines = _read_groups(groups, len(outputs))
        for name, indices in group_lines.items():
            undefined_here = counter.reasons_undefined(indices)
            values_by_group[name] = values_of(
                units.only(indices),
                [metric for metric in defined if metric.name not in undefined_here],
            )

    marked_references = MarkedLines(counter.all_references)
    notes += marked_references.warnings("the references", JOIN_OPTION)
    if "bleu" in values:
        notes += unit_notes(counter.metrics)
    signatures = signatures_of(counter.metrics)

    return TextScores(
        language=counter.target.language.code,
        metrics=values,
        baseline=baseline_values,
        gains=gains,
        groups=values_by_group,
        signatures={name: signatures[name] for name in OF_BEAMS if name in values},
        left_out={name: undefined[name] for name in metrics if name in undefined},
        notes=notes,
        bootstrap=bootstrap.settings(len(outputs)),
    )


def _notes_of(outputs: Sequence[str], file: Path) -> list[str]:
    """Say what lowers the scores of a file of outputs: blank lines, and subwords."""
    return [
        *blank_notes(outputs, str(file)),
        *MarkedLines(outputs).warnings(str(file), JOIN_OPTION),
    ]


def _joined(references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the references of each line with their subwords joined, if they hold any."""
    texts = iter(joined(list(chain.from_iterable(references))))
    return [[next(texts) for _ in of_line] for of_line in references]


class _Counter:
    """The references of all lines, and the counts of outputs against them."""

    def __init__(
        self, references: Sequence[Sequence[str]], code: str, *, with_gleu: bool = False
    ) -> None:
        self.references = references
        self.with_gleu = with_gleu
        self.all_references = list(chain.from_iterable(references))
        self.target = Target.of_texts(code, self.all_references)
        self.targets = [texts[0] for texts in references]
        self.further = OtherReferences([], [])
        if any(len(texts) > 1 for texts in references):
            further_texts = [list(texts[1:]) for texts in references]
            self.further = OtherReferences(texts=further_texts, words=further_texts)
        self.metrics = sacre_metrics(self.target, self.all_references)

    def reasons_undefined(self, indices: Sequence[int] | None = None) -> dict[str, str]:
        """Say why metrics are not defined for these references or some of them, by their names."""
        if indices is None:
            indices = range(len(self.targets))

        targets = [self.targets[index] for index in indices]
        further = self.further.only(indices)
        return reasons_undefined(
            self.target.language, self.metrics, targets, references=targets, further=further
        )

    def count(self, outputs: Sequence[str]) -> Units:
        """Count what metrics need, per line."""
        # There are no sources, which only BLEU by their length needs.
        rows = [
            Prediction(source="", target=target, predicted=output, text=output)
            for target, output in zip(self.targets, outputs, strict=True)
        ]
        units = count_sentences(rows, self.targets, self.further, self.metrics, beam=None)
        if not self.with_gleu:
            return units

        words_of = partial(words_compared, self.metrics["bleu"])
        counts = gleu_counts(
            outputs=[words_of(output) for output in outputs],
            references=[[words_of(text) for text in texts] for texts in self.references],
        )
        return join([units, replace(units, columns=GLEU_COLUMNS, counts=counts)])


def gains_of(units: Units, baseline: Units, metrics: Sequence[Metric]) -> dict[str, Gain]:
    """Compare two systems on the same draws of the units, by the name of each metric."""
    sums, baseline_sums = bootstrap.resampled_sums(np.stack([units.counts, baseline.counts]))

    gains = {}
    for metric in metrics:
        sign = -1.0 if metric.lower_is_better else 1.0
        column_indices = [units.index_of(column) for column in metric.columns]
        # Both systems' lines are drawn alike, so their values differ by the systems alone.
        resampled = metric.value(sums[:, column_indices])
        resampled_baseline = metric.value(baseline_sums[:, column_indices])
        value = metric.value(units.total(metric.columns))
        baseline_value = metric.value(baseline.total(metric.columns))

        differences = sign * (resampled - resampled_baseline)
        observed = sign * float(value - baseline_value)
        interval = bootstrap.interval(differences)
        gains[metric.name] = Gain(
            value=observed,
            low=interval.low,
            high=interval.high,
            p=bootstrap.p_value(differences, observed),
        )

    return gains


def report(scores: TextScores) -> str:
    """Return scores as lines for people."""
    lines = [f"note: {note}" for note in scores.notes]
    for name, value in scores.metrics.items():
        unit = f" {value.unit}" if value.unit else ""
        lines.append(f"{name}: {_text_of(value)}")
        if name in scores.gains:
            base = scores.baseline[name]
            gain = scores.gains[name]
            lines.append(f"  baseline: {base.value:.2f}{unit} [{base.low:.2f}, {base.high:.2f}]")
            lines.append(
                f"  gain: {gain.value:+.2f} [{gain.low:.2f}, {gain.high:.2f}], p = {gain.p:.4f}"
            )
        if name in scores.signatures:
            lines.append(f"  signature: {scores.signatures[name]}")

    for group, values in scores.groups.items():
        lines.append(f"group {group}:")
        lines += [f"  {name}: {_text_of(value)}" for name, value in values.items()]

    for name, reason in scores.left_out.items():
        lines.append(f"{name} is left out: {reason}")

    return "\n".join(lines) + "\n"


def _text_of(value: Value) -> str:
    """Return a value for people, with its interval and the number of lines."""
    unit = f" {value.unit}" if value.unit else ""
    return f"{value.value:.2f}{unit} [{value.low:.2f}, {value.high:.2f}] of {value.n} lines"


def _check_language(code: str) -> None:
    """Refuse a name that is no code of a language."""
    if code and (not re.fullmatch(LANGUAGE, code) or not language(code).tag):
        raise UserError(
            f"unknown language `{code}`",
            hint="write a code of ISO 639, such as `de`, `zh` or `zh-Hant`",
        )


def _read_references(paths: Sequence[Path], count: int) -> list[list[str]]:
    """Read the references of each line, one or more."""
    files = [_read_as_many(path, count) for path in paths]

    references = []
    for lines in zip(*files, strict=True):
        # A line that is empty in one file has fewer references than others.
        texts = [line.text for line in lines if line.text.strip()]
        if not texts:
            raise lines[0].error(
                "no reference for this line", "write one, or delete the line from all files"
            )
        references.append(texts)

    return references


def _read_groups(path: Path, count: int) -> dict[str, list[int]]:
    """Read the group of each line, and return the indices of the lines of each group."""
    lines = _read_as_many(path, count)
    for line in lines:
        if not cleaned(line.text):
            raise no_group(line)
    return rows_by_group(cleaned(line.text) for line in lines)


def _read_as_many(path: Path, count: int) -> list[Line]:
    """Read the lines of a file that must have as many as there are hypotheses."""
    lines = list(plain_lines(path))
    if len(lines) != count:
        raise UserError(
            f"{len(lines)} lines, but the hypotheses have {count}",
            file=path,
            hint="write one line for each hypothesis, an empty one where there is none",
        )
    return lines
