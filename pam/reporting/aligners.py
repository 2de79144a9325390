"""The table of aligners: how well each links words, by how much it is better than the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.alignment.record import AlignerRecord
from pam.evaluation import two_levels
from pam.evaluation.metrics import Floats
from pam.evaluation.records import load
from pam.evaluation.two_levels import Measured, Scatter
from pam.reporting.cells import Estimate
from pam.reporting.comparison import gain_of, outcome_of
from pam.runtime.errors import UserError
from pam.tasks.alignment.metrics import alignment_agreement

DIGITS = 3
HEAD = (
    "aligner",
    "links of",
    "1 − AER",
    "95 % interval",
    "precision",
    "recall",
    "gain over {}",
    "95 % interval",
    "p",
    "Holm",
    "outcome",
    "seeds",
    "CPU s",
    "not aligned",
)
NOTE = """\
1 − AER, precision and recall: means over seeds on {sentences} sentences with gold links.
Intervals and p are of the closed-form test over seeds and sentences, paired by sentence; Holm:
corrected for all gains of the table. An aligner with a single training has no gain. CPU s:
training and aligning, a mean over seeds. Not aligned: of {pairs:,} pairs, those that are blank
or could not be aligned.
"""


@dataclass(frozen=True)
class Aligner:
    """The records of an aligner, one for each seed."""

    name: str
    records: Sequence[AlignerRecord]

    @property
    def first(self) -> AlignerRecord:
        """The first of them."""
        return self.records[0]

    @property
    def is_program(self) -> bool:
        """Whether it was not trained before it saw the text."""
        return self.first.seed is None

    @property
    def readings(self) -> list[str]:
        """The ways to read links, that of the links that were written first."""
        written = self.first.reading
        return [written, *(name for name in self.first.readings if name != written)]

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of a training and an alignment, a mean over seeds; None if unknown."""
        seconds = []
        for record in self.records:
            if not self.is_program and record.training_cpu_s is None:
                return None
            seconds.append(record.cpu_s + (record.training_cpu_s or 0.0))
        return float(np.mean(seconds))

    def counts(self, reading: str) -> Floats:
        """Return the counts of a reading, (seeds, sentences, 4)."""
        return np.array([record.readings[reading] for record in self.records], dtype=np.float64)

    def measured(self, reading: str) -> Measured:
        """Measure 1 - AER by a reading."""
        return Measured.of(self.counts(reading), alignment_agreement, repeatable=self.is_program)


def table(files: Sequence[Path]) -> str:
    """Return the table of aligners in Markdown, the first one first.

    Where there are gold links, every way to read the links has a row, the one that was written
    first.

    Args:
        files: records of `align --record`. Those of the same aligner with other seeds make one row.

    Raises:
        UserError: a file is no record, or two have other sentences.
    """
    aligners = list(_grouped([load(AlignerRecord, file) for file in files]))
    run = [aligner for aligner in aligners if not aligner.first.reason]
    _check_same_sentences(run, files)
    scored = [aligner for aligner in run if aligner.first.readings]
    if not scored:
        return _without_scores(aligners)

    lines = [_row(text.format(scored[0].name) for text in HEAD)]
    lines.append(_row(["---", "---", *["--:"] * (len(HEAD) - 2)]))
    lines += _scored_rows(scored)
    for aligner in aligners:
        if aligner.first.reason:
            lines.append(_row([aligner.name, aligner.first.reason, *[""] * (len(HEAD) - 2)]))

    first = scored[0].first
    sentences = len(next(iter(first.readings.values())))
    return "\n".join(lines) + "\n\n" + NOTE.format(sentences=sentences, pairs=first.pairs)


def _grouped(records: Sequence[AlignerRecord]) -> Iterator[Aligner]:
    """Yield the records of each aligner, in the order of their first ones."""
    groups: dict[tuple[int | str, ...], list[AlignerRecord]] = {}
    for record in records:
        key = (record.aligner, record.directions, record.reading, record.reason)
        groups.setdefault(key, []).append(record)
    for group in groups.values():
        yield Aligner(group[0].aligner, group)


def _check_same_sentences(aligners: Sequence[Aligner], files: Sequence[Path]) -> None:
    """Check that all aligners were scored on sentences with the same numbers of gold links."""
    sure = {
        tuple(hits[3] for hits in counts)
        for aligner in aligners
        for record in aligner.records
        for counts in record.readings.values()
    }
    if len(sure) > 1:
        hint = "give the same --gold to each `align`"
        raise UserError("records of different sentences", file=files[0], hint=hint)


def _scored_rows(aligners: Sequence[Aligner]) -> Iterator[str]:
    """Yield the rows of all readings."""
    rows = [
        (aligner, reading, aligner.measured(reading))
        for aligner in aligners
        for reading in aligner.readings
    ]

    base = rows[0][2]
    scatter = Scatter.of(measured for _, _, measured in rows)
    # The first row is that of the base.
    gains = [None, *(gain_of(measured, base, scatter) for _, _, measured in rows[1:])]

    p_values = [gain.p for gain in gains if gain is not None]
    corrected = iter(two_levels.holm(p_values))
    for (aligner, reading, measured), gain in zip(rows, gains, strict=True):
        holm = None if gain is None else next(corrected)
        yield _row(_cells(aligner, reading, measured, scatter, gain, holm))


def _cells(
    aligner: Aligner,
    reading: str,
    measured: Measured,
    scatter: Scatter,
    gain: two_levels.Estimate | None,
    holm: float | None,
) -> list[str]:
    """Return the texts of a row."""
    around = two_levels.level(measured, scatter).interval()
    level = Estimate(measured.mean, DIGITS, low=around.low, high=around.high)
    gained = Estimate(None, DIGITS)
    outcome = ""
    if gain is not None and holm is not None:
        around = gain.interval()
        gained = Estimate(
            value=gain.value,
            digits=DIGITS,
            low=around.low,
            high=around.high,
            is_gain=True,
            p=gain.p,
            p_holm=holm,
        )
        outcome = outcome_of(around.low, around.high)

    sums = aligner.counts(reading).sum(axis=1)
    precision = float(np.mean(sums[:, 1] / np.maximum(sums[:, 2], 1)))
    recall = float(np.mean(sums[:, 0] / np.maximum(sums[:, 3], 1)))
    cpu_s = "" if aligner.cpu_s is None else f"{aligner.cpu_s:,.0f}"
    return [
        aligner.name,
        reading,
        level.text,
        level.interval,
        f"{precision:.{DIGITS}f}",
        f"{recall:.{DIGITS}f}",
        gained.text,
        gained.interval,
        gained.p_text,
        gained.holm_text,
        outcome,
        "" if aligner.is_program else str(measured.seeds),
        cpu_s,
        f"{aligner.first.problems + aligner.first.blank:,}",
    ]


def _without_scores(aligners: Sequence[Aligner]) -> str:
    """Return a table of aligners without gold links."""
    head = ("aligner", "links of", "links", "pairs", "not aligned", "seeds", "CPU s")
    lines = [_row(head), _row(["---", "---", *["--:"] * (len(head) - 2)])]
    for aligner in aligners:
        record = aligner.first
        if record.reason:
            lines.append(_row([aligner.name, record.reason, *[""] * (len(head) - 2)]))
            continue
        lines.append(
            _row(
                [
                    aligner.name,
                    record.reading,
                    f"{record.links:,}",
                    f"{record.pairs:,}",
                    f"{record.problems + record.blank:,}",
                    "" if aligner.is_program else str(len(aligner.records)),
                    "" if aligner.cpu_s is None else f"{aligner.cpu_s:,.1f}",
                ]
            )
        )
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
